//! Verdict on a git command line (`@git`): git without the commands that destroy work.
//!
//! [`judge`] parses a command line as git does. What the words alone cannot tell, such as the meaning of an
//! alias or the location of the repository, is queried from the real git through [`RepoView`]. This is a
//! guard rail for a well-meaning agent; the mounts are the security boundary.

mod alias;
mod globals;
pub mod grammar;
mod internal;
mod options;
mod repo;
mod rules;
mod effect;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use globals::Globals;
pub use repo::RealGit;

use globals::Invocation;
use rules::Command;

/// The environment of a call.
pub type Env = BTreeMap<OsString, OsString>;

/// Maximum depth of nested aliases. git itself only stops at a loop.
const ALIAS_DEPTH: usize = 16;

/// Variables that decide which configuration files git reads.
pub const CONFIG_VARIABLES: &[&str] =
    &["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];

/// Verdict on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// git runs, with these words inserted before the command's name.
    Allow {
        /// Global options of git.
        extra: Vec<OsString>,
    },
    /// git does not run.
    Refuse(Refusal),
}

/// Refused command, with the reason and an alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The command in its canonical spelling, such as `git reset --hard`.
    pub what: String,
    /// Reason.
    pub why: &'static str,
    /// Alternative that keeps the work.
    pub instead: &'static str,
}

/// Part of the configuration that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigScope {
    /// Settings of the call.
    Effective,
    /// Settings of the call without those that it sets.
    Usual,
}

/// Queries about a call that only git or the machine can answer.
pub trait RepoView {
    /// Returns configuration values whose keys match a regular expression, in git's order. Keys are in lower
    /// case at least where git folds them.
    fn config(
        &self,
        globals: &Globals,
        pattern: &str,
        scope: ConfigScope,
    ) -> Vec<(String, Vec<u8>)>;
    /// Returns true when the repository and its work tree are in a scratch directory, where nothing needs
    /// protection.
    fn is_scratch(&self, globals: &Globals) -> bool;
    /// Returns true when every repository that a push would update is in a scratch directory. `None` is the
    /// default remote.
    fn remote_is_scratch(&self, globals: &Globals, remote: Option<&OsStr>) -> bool;
    /// Returns the top of the call's work tree if the sandbox can write its git directory, but not all of its files.
    fn partly_writable(&self, globals: &Globals) -> Option<PathBuf>;
    /// Returns true when the directory that a path would be written in is read-only for this process.
    fn is_read_only(&self, path: &Path) -> bool;
    /// Returns the output of a query to git, or `None` if it fails.
    fn ask(&self, globals: &Globals, query: &[OsString]) -> Option<Vec<u8>>;
    /// Returns the command line of the calling process if that is the real git.
    fn caller(&self) -> Option<Vec<OsString>>;
    /// Returns the values of [`CONFIG_VARIABLES`] with which the sandbox was started.
    fn usual_env(&self) -> &[(OsString, OsString)];
}

/// Judges a git call. `argv` includes the program's name.
///
/// ```
/// use sandbox_git::command::{judge, Env, RealGit, Verdict};
/// let real = RealGit::new("/usr/bin/git".into(), vec!["/tmp".into()], Vec::new());
/// let call = |line: &str| {
///     let argv: Vec<_> = line.split(' ').map(Into::into).collect();
///     matches!(judge(&argv, &Env::new(), &real), Verdict::Allow { .. })
/// };
/// assert!(call("git commit -mnew"));
/// assert!(!call("git -C /srv commit --no-verify"));
/// ```
pub fn judge(argv: &[OsString], env: &Env, repo: &impl RepoView) -> Verdict {
    let Invocation::Runs { globals, name, args, .. } = globals::invocation(argv) else {
        return Verdict::Allow { extra: Vec::new() };
    };
    let mut call = Call { globals, env, repo, extra: Vec::new() };
    match call.refusal(&name, &args, ALIAS_DEPTH) {
        Some(_) if internal::is_internal(argv, repo) => Verdict::Allow { extra: call.extra },
        Some(refusal) => Verdict::Refuse(refusal),
        None => Verdict::Allow { extra: call.extra },
    }
}

/// Returns true for a built-in command of git, whose name no alias can take.
pub(crate) fn is_builtin(name: &str) -> bool {
    grammar::BUILTINS.contains(&name)
}

/// Inserts words before the command's name.
pub fn with_extra(argv: &[OsString], extra: Vec<OsString>) -> Vec<OsString> {
    let mut argv = argv.to_vec();
    if let Invocation::Runs { at, .. } = globals::invocation(&argv)
        && at > 0
    {
        argv.splice(at..at, extra);
    }
    argv
}

struct Call<'a, R> {
    globals: Globals,
    env: &'a Env,
    repo: &'a R,
    extra: Vec<OsString>,
}

impl<R: RepoView> Call<'_, R> {
    fn refusal(&mut self, name: &OsStr, args: &[OsString], depth: usize) -> Option<Refusal> {
        let text = name.to_string_lossy();
        if args.first().is_some_and(|first| first == "--help") {
            return None;
        }
        if !grammar::BUILTINS.contains(&&*text) && text != "submodule" {
            return self.alias_refusal(&text, args, depth);
        }
        let command = Command { name: &text, args, globals: &self.globals, repo: self.repo };
        if let Some(refusal) = command.refusal() {
            return (!self.excused(&command)).then_some(refusal);
        }
        let hooks = (rules::runs_hooks(&text) && self.hooks_differ()).then(|| rules::hooks(&text));
        let hooks = hooks.filter(|_| !self.repo.is_scratch(&self.globals));
        hooks.or_else(|| command.read_only_refusal())
    }

    /// Returns true when the command may run because it affects only scratch repositories.
    fn excused(&self, command: &Command<'_, R>) -> bool {
        if command.pushes() {
            self.repo.remote_is_scratch(&self.globals, command.remote().as_deref())
        } else {
            self.repo.is_scratch(&self.globals)
        }
    }

    fn alias_refusal(&mut self, name: &str, args: &[OsString], depth: usize) -> Option<Refusal> {
        let known = alias::lookup(self.repo, &self.globals, name);
        if known.autocorrects {
            // Otherwise git would run the nearest known command in place of a misspelt one.
            self.extra = vec!["-c".into(), "help.autocorrect=0".into()];
        }
        let expansion = known.expansion?;
        if expansion.starts_with(b"!") {
            // A shell runs it, and every git call in it goes through this wrapper again.
            return None;
        }
        if depth == 0 {
            return Some(alias::endless(name));
        }
        let mut words = alias::split(&expansion);
        words.extend_from_slice(args);
        match globals::after_globals(&words, 0) {
            Invocation::Runs { name, args, .. } => self.refusal(&name, &args, depth - 1),
            Invocation::Prints => None,
        }
    }

    /// Returns true when the call has settings that change which hooks run.
    fn hooks_differ(&self) -> bool {
        const HOOKS: &str = r"^(core\.hookspath|hook\..*)$";
        let query = |scope| self.repo.config(&self.globals, HOOKS, scope);
        self.sets_config() && query(ConfigScope::Effective) != query(ConfigScope::Usual)
    }

    fn sets_config(&self) -> bool {
        let set = |name: &str| self.env.get(OsStr::new(name));
        let usual = |name: &str| {
            self.repo.usual_env().iter().find(|(key, _)| key == name).map(|(_, value)| value)
        };
        self.globals.sets_config()
            || set("GIT_CONFIG_COUNT").is_some()
            || set("GIT_CONFIG_PARAMETERS").is_some()
            || CONFIG_VARIABLES.iter().any(|name| set(name) != usual(name))
    }
}
