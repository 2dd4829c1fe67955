//! Resolution of command rules to plain data: the files to cover, their replacements, and the launcher's markers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_linux::file;
use sandbox_protocol::layout::{RUNTIME_DIR, runtime};
use serde::{Serialize, Serializer};

use super::marker::{self, GitFacts, Marker};
use super::script::{self, Script};
use super::shim::{is_shim, shim};
use super::{WrapperError, find};
use sandbox_git::command as git;
use sandbox_policy::Host;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Config, Launcher, Sourced, Tmp};

/// Replacements of all commands that have a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// Files to cover, by path.
    pub covers: Vec<Cover>,
    /// Files of the runtime directory, by directory and name.
    pub files: Vec<RuntimeFile>,
    /// Real programs for `bin/NAME`, by name.
    pub bins: Vec<(String, PathBuf)>,
    /// Real programs that need the other files of their package, by name.
    pub packages: Vec<Package>,
    /// Every rule with the files that it covers, by name.
    pub rules: Vec<Ruled>,
    /// Wrapper scripts on the host, as written and with symlinks resolved. The sandbox must not be able to change them.
    pub scripts: Vec<PathBuf>,
    /// True if the outer sandbox's runtime must be mounted at `outer`.
    pub nested: bool,
}

/// Package of a real program that is a script, such as `npm`. The script loads other files by paths relative to itself,
/// so the whole package is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// The command.
    pub name: String,
    /// The package's directory.
    pub dir: PathBuf,
    /// The script, relative to the directory.
    pub script: PathBuf,
}

impl Package {
    /// Returns the package of a program, if the program is a script outside the search path.
    fn of(name: &str, real: &Path, path: &[PathBuf]) -> Option<Self> {
        let dir = real.parent()?.parent().filter(|dir| dir.components().count() > 2)?;
        let in_path = path
            .iter()
            .any(|entry| file::real(entry).is_ok_and(|entry| real.parent() == Some(&entry)));
        if in_path || !script::is_script(real) {
            return None;
        }
        let script = real.strip_prefix(dir).ok()?.to_path_buf();
        Some(Self { name: name.to_owned(), dir: dir.to_path_buf(), script })
    }
}

/// File of the host that is replaced inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cover {
    /// The file, with symlinks resolved.
    pub target: PathBuf,
    /// Its replacement.
    pub how: CoverBy,
}

/// Replacement of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoverBy {
    /// This binary.
    Launcher,
    /// A script with this text, mode 0555.
    Shim(String),
}

/// File to create below `/run/agent-sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RuntimeFile {
    /// Its directory.
    pub dir: RuntimeDir,
    /// Its name.
    pub name: String,
    /// Its content.
    #[serde(serialize_with = "as_text")]
    pub content: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

impl RuntimeFile {
    /// Returns its path below the runtime directory.
    pub fn path(&self) -> PathBuf {
        Path::new(self.dir.name()).join(&self.name)
    }
}

/// Directory of the runtime that contains markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeDir {
    /// `wrappers`: scripts and refusals.
    Wrappers,
    /// `presets`: rules that the launcher applies without a script.
    Presets,
}

impl RuntimeDir {
    /// Returns the directory's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wrappers => runtime::WRAPPERS,
            Self::Presets => runtime::PRESETS,
        }
    }
}

/// Command rule and the files it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ruled {
    /// The command.
    pub name: String,
    /// The rule and its origin.
    pub rule: Sourced<CommandRule>,
    /// Every program of that name; empty if it is not installed.
    pub targets: Vec<PathBuf>,
    /// True if the outer sandbox has a rule for the name, which remains in effect.
    pub outer: bool,
}

fn as_text<S: Serializer>(content: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(content))
}

/// Resolves every command rule of a configuration. `enclosing` is the work tree of a repository whose git directory is
/// writable, although most of its files are not.
pub fn resolve(
    host: &Host,
    config: &Config,
    enclosing: Option<&Path>,
) -> Result<Commands, WrapperError> {
    resolve_in(host, config, enclosing, host.inside.then_some(Path::new(RUNTIME_DIR)))
}

/// Resolves the command rules inside an outer sandbox with this runtime directory, if there is one.
pub(super) fn resolve_in(
    host: &Host,
    config: &Config,
    enclosing: Option<&Path>,
    outer: Option<&Path>,
) -> Result<Commands, WrapperError> {
    let mut planner = Planner::new(host, config, enclosing, outer);
    for (name, rule) in &config.commands {
        planner.rule(name, rule)?;
    }
    planner.other_names();
    planner.raw_names();
    planner.interpreters();
    Ok(planner.finish())
}

struct Planner<'a> {
    host: &'a Host,
    config: &'a Config,
    enclosing: Option<&'a Path>,
    outer: Option<&'a Path>,
    path: Vec<PathBuf>,
    /// Covered files, each with the ruled names that lead to it.
    covers: BTreeMap<PathBuf, BTreeSet<String>>,
    files: BTreeMap<(RuntimeDir, String), (Vec<u8>, u32)>,
    bins: BTreeMap<String, PathBuf>,
    rules: Vec<Ruled>,
    scripts: Vec<Script>,
}

impl<'a> Planner<'a> {
    fn new(
        host: &'a Host,
        config: &'a Config,
        enclosing: Option<&'a Path>,
        outer: Option<&'a Path>,
    ) -> Self {
        Self {
            host,
            config,
            enclosing,
            outer,
            path: host.search_path(),
            covers: BTreeMap::new(),
            files: BTreeMap::new(),
            bins: BTreeMap::new(),
            rules: Vec::new(),
            scripts: Vec::new(),
        }
    }

    fn rule(&mut self, name: &str, rule: &Sourced<CommandRule>) -> Result<(), WrapperError> {
        check_name(name, rule)?;
        let mut targets = find::targets(&self.path, name);
        if name == "git" {
            targets.extend(find::git_copies(&self.path, &targets));
        }
        let (covered, free): (Vec<_>, Vec<_>) =
            targets.iter().cloned().partition(|target| self.is_covered_outside(target));
        let outer = self.has_outer_rule(name, &covered);
        let ruled = Ruled { name: name.into(), rule: rule.clone(), targets, outer };
        self.rules.push(ruled);
        match rule.value {
            CommandRule::Raw => return Ok(()),
            CommandRule::Block => self.mark(name, rule)?,
            // The outer rule remains in effect. If it is by name, it also applies to files that only this sandbox has.
            _ if outer && self.outer_marker(name).is_none() => return Ok(()),
            _ if outer => {}
            _ => {
                self.mark(name, rule)?;
                let real = free.first().cloned().or_else(|| self.outer_real(&covered));
                self.bins.extend(real.map(|real| (name.to_owned(), real)));
            }
        }
        for target in free {
            self.covers.entry(target).or_default().insert(name.into());
        }
        Ok(())
    }

    fn mark(&mut self, name: &str, rule: &Sourced<CommandRule>) -> Result<(), WrapperError> {
        match &rule.value {
            CommandRule::Raw => {}
            CommandRule::Block => {
                self.put(RuntimeDir::Wrappers, name, Marker::Deny.render(), 0o444);
            }
            CommandRule::Builtin(sandbox_policy::config::command_rule::Builtin::Git) => {
                let facts = self.git_facts();
                self.put(RuntimeDir::Presets, name, Marker::Git(facts).render(), 0o444);
            }
            CommandRule::Script(path) => {
                let script = script::read(self.host, &self.config.cwd, name, path, &rule.origin)?;
                self.put(RuntimeDir::Wrappers, name, script.content.clone(), 0o555);
                self.scripts.push(script);
            }
        }
        Ok(())
    }

    fn put(&mut self, dir: RuntimeDir, name: &str, content: Vec<u8>, mode: u32) {
        self.files.insert((dir, name.into()), (content, mode));
    }

    fn git_facts(&self) -> GitFacts {
        let tmp = Path::new("/tmp");
        // A private `/tmp` is removed after the run, so repositories in it need no protection. A project in `/tmp` does.
        let private = self.config.tmp.value == Tmp::Private && !self.config.cwd.starts_with(tmp);
        let scratch = if private { vec![tmp.to_owned()] } else { Vec::new() };
        let value = |name: &str| -> Option<OsString> {
            let set = self.config.env.get(name).and_then(|set| set.value.clone());
            set.or_else(|| self.host.env.get(OsStr::new(name)).cloned())
        };
        let names = git::CONFIG_VARIABLES.iter();
        let env = names.filter_map(|name| Some((OsString::from(name), value(name)?))).collect();
        GitFacts { scratch, env, enclosing: self.enclosing.map(Path::to_path_buf) }
    }

    /// Adds markers for the names of the covered files, such as `mawk` if `awk` is a symlink to it. The launcher uses
    /// the file's marker if the name it was called by has none.
    fn other_names(&mut self) {
        for (target, names) in self.covers.clone() {
            let Some(base) = target.file_name().and_then(OsStr::to_str) else { continue };
            if let Some(applets) = find::multicall(&target) {
                let marker = Marker::Multicall { applets };
                self.put(RuntimeDir::Presets, base, marker.render(), 0o444);
                self.bins.entry(base.into()).or_insert_with(|| target.clone());
            } else if !self.config.commands.contains_key(base)
                && !names.contains("git")
                && self.outer_marker(base).is_none()
            {
                self.copy_strictest(&names, base, &target);
            }
        }
    }

    fn copy_strictest(&mut self, names: &BTreeSet<String>, base: &str, target: &Path) {
        let denied = names.iter().find(|name| {
            self.config.commands.get(*name).is_some_and(|rule| rule.value == CommandRule::Block)
        });
        let Some(name) = denied.or_else(|| names.first()) else { return };
        for dir in [RuntimeDir::Wrappers, RuntimeDir::Presets] {
            if let Some((content, mode)) = self.files.get(&(dir, name.clone())).cloned() {
                self.put(dir, base, content, mode);
            }
        }
        if self.bins.contains_key(name) {
            self.bins.insert(base.into(), target.to_owned());
        }
    }

    /// Adds markers for names with the rule `true`: they run the real program although another name covers its file.
    fn raw_names(&mut self) {
        let raw =
            self.rules.iter().filter(|ruled| ruled.rule.value == CommandRule::Raw && !ruled.outer);
        let raw: Vec<(String, PathBuf)> = raw
            .filter(|ruled| ruled.targets.iter().any(|target| self.covers.contains_key(target)))
            .filter_map(|ruled| Some((ruled.name.clone(), ruled.targets.first()?.clone())))
            .collect();
        for (name, target) in raw {
            if !self.files.contains_key(&(RuntimeDir::Presets, name.clone())) {
                self.put(RuntimeDir::Presets, &name, Marker::Raw.render(), 0o444);
            }
            self.bins.entry(name).or_insert(target);
        }
    }

    /// Provides the interpreters of wrapper scripts, also those that are blocked or wrapped.
    fn interpreters(&mut self) {
        let mut needed = BTreeSet::new();
        for script in &self.scripts {
            let Some((program, word)) = script::interpreter(&script.content) else { continue };
            let words = word.unwrap_or_default().split(u8::is_ascii_whitespace);
            for word in [program].into_iter().chain(words).filter(|word| !word.is_empty()) {
                let word = Path::new(OsStr::from_bytes(word));
                needed.extend(file::real(word).ok());
                let name = word.file_name().and_then(OsStr::to_str).unwrap_or_default();
                needed.extend(find::targets(&self.path, name));
            }
        }
        for (target, names) in &self.covers {
            if needed.contains(target) {
                let base = target.file_name().and_then(OsStr::to_str).map(str::to_owned);
                for name in names.iter().cloned().chain(base) {
                    self.bins.entry(name).or_insert_with(|| target.clone());
                }
            }
        }
    }

    fn finish(self) -> Commands {
        let shims = self.config.launcher.value == Launcher::Shim && !self.covers_the_shell();
        let cover = |(target, names): (&PathBuf, &BTreeSet<String>)| {
            let how = if shims { CoverBy::Shim(shim(target, names)) } else { CoverBy::Launcher };
            Cover { target: target.clone(), how }
        };
        let files = self.files.into_iter();
        let files =
            files.map(|((dir, name), (content, mode))| RuntimeFile { dir, name, content, mode });
        let scripts: BTreeSet<PathBuf> = self
            .scripts
            .iter()
            .flat_map(|script| [script.path.clone(), script.real.clone()])
            .collect();
        let packages: Vec<Package> = self
            .bins
            .iter()
            .filter_map(|(name, real)| Package::of(name, real, &self.path))
            .collect();
        let is_packed = |name: &str| packages.iter().any(|package| package.name == name);
        let bins = self.bins.iter().filter(|(name, _)| !is_packed(name));
        Commands {
            covers: self.covers.iter().map(cover).collect(),
            files: files.collect(),
            bins: bins.map(|(name, real)| (name.clone(), real.clone())).collect(),
            packages,
            rules: self.rules,
            scripts: scripts.into_iter().collect(),
            nested: self.outer.is_some(),
        }
    }

    /// Returns true if `/bin/sh` is covered. A shim needs the real one, so covers then have to be the binary.
    fn covers_the_shell(&self) -> bool {
        file::real("/bin/sh").is_ok_and(|shell| self.covers.contains_key(&shell))
    }
}

/// Rules of the outer sandboxes.
impl Planner<'_> {
    fn outer_marker(&self, name: &str) -> Option<marker::Found> {
        marker::find(self.outer?, OsStr::new(name))
    }

    /// Returns true if an outer rule applies to a name: a rule of that name, or of the file that the name resolves to.
    fn has_outer_rule(&self, name: &str, covered: &[PathBuf]) -> bool {
        let through = |target: &PathBuf| find::multicall(target).is_none();
        self.outer_marker(name).is_some() || covered.iter().any(through)
    }

    /// Returns the real program of a file that the outer sandbox covers only for some of its names.
    fn outer_real(&self, covered: &[PathBuf]) -> Option<PathBuf> {
        let base = covered.first()?.file_name()?;
        marker::find_by_file(self.outer?, base).map(|found| found.real())
    }

    fn is_covered_outside(&self, target: &Path) -> bool {
        let Some(outer) = self.outer else { return false };
        let same = |ours: &Path| match (fs::metadata(ours), fs::metadata(target)) {
            (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
            _ => false,
        };
        same(&self.host.exe) || same(&outer.join("agent-sandbox")) || is_shim(target)
    }
}

fn check_name(name: &str, rule: &Sourced<CommandRule>) -> Result<(), WrapperError> {
    let (name, origin) = (name.to_owned(), rule.origin.clone());
    if name.is_empty()
        || name.starts_with('@')
        || name == "."
        || name == ".."
        || name.contains(['/', '\0'])
    {
        return Err(WrapperError::Name { name, origin });
    }
    match rule.value {
        CommandRule::Builtin(sandbox_policy::config::command_rule::Builtin::Git)
            if name != "git" =>
        {
            Err(WrapperError::Foreign { name, origin })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
