//! Scratch repositories: the real git on objects that a session wrote, without the session's settings.
//!
//! Git runs in a scratch repository with fixed settings, copies of the session's new objects, and the
//! host's objects as an alternate. Git sees no ref, setting, hook, attribute or alternate of the session.

pub(crate) mod output;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::refs::{RefValue, is_id};

/// Maximum size of a blob that is read.
const MAX_BLOB: usize = 1 << 20;
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
/// `HEAD` that names no existing ref.
const HEAD: &str = "ref: refs/heads/none\n";
/// Environment of git, without anything from the caller, the system or the user.
const ENVIRONMENT: [(&str, &str); 12] = [
    ("GIT_DIR", "."),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("HOME", "/nonexistent"),
    ("PATH", "/usr/bin:/bin"),
    ("LC_ALL", "C"),
];

/// Failure to inspect a session's objects.
#[derive(Debug, Error)]
pub enum ScratchError {
    /// git is not installed.
    #[error("cannot check the session's commits: git is not installed")]
    Missing,
    /// The scratch repository cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// Git refused.
    #[error("`git {command}` failed in a copy of the repository: {text}")]
    Refused {
        /// Command that failed.
        command: String,
        /// Message of git.
        text: String,
    },
}

/// Runs git in scratch repositories, which are removed when this is dropped.
#[derive(Debug)]
pub struct ScratchGit {
    program: Option<PathBuf>,
    dir: PathBuf,
}

impl Drop for ScratchGit {
    fn drop(&mut self) {
        // A failure only wastes disk space: the session's directory is removed as a whole later.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl ScratchGit {
    /// Uses this git, and a directory that does not exist yet.
    pub fn new(program: Option<PathBuf>, dir: PathBuf) -> Self {
        Self { program, dir }
    }

    /// Returns the path of git. Fails if it is not installed.
    pub fn program(&self) -> Result<&Path, ScratchError> {
        self.program.as_deref().ok_or(ScratchError::Missing)
    }
}

/// State of the host's repository that a scratch repository builds on.
#[derive(Debug, Default)]
pub struct Base {
    /// The host's directory of objects, if it exists.
    pub objects: Option<PathBuf>,
    /// Commits whose parents are missing: the content of the file `shallow`.
    pub shallow: Option<Vec<u8>>,
    /// The host's refs, and its `HEAD`.
    pub refs: BTreeMap<String, RefValue>,
}

/// A scratch repository.
pub struct ScratchRepository<'g> {
    git: &'g ScratchGit,
    dir: PathBuf,
    /// The host's refs, and its `HEAD`.
    pub(crate) refs: BTreeMap<String, RefValue>,
    /// Existing objects that the host's refs point to. Their history is complete.
    known: BTreeSet<String>,
}

impl<'g> ScratchRepository<'g> {
    /// Creates a repository with only the host's objects.
    pub fn create(git: &'g ScratchGit, base: Base) -> Result<Self, ScratchError> {
        git.program()?;
        let dir = (0..).map(|number: u32| git.dir.join(number.to_string()));
        let dir = { dir }.find(|dir| fs::symlink_metadata(dir).is_err()).unwrap_or_default();
        let failed = |source| ScratchError::Write { path: dir.clone(), source };
        for sub in ["objects/info", "objects/pack", "refs"] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join(sub));
            made.map_err(failed)?;
        }
        fs::write(dir.join("config"), CONFIG).map_err(failed)?;
        fs::write(dir.join("HEAD"), HEAD).map_err(failed)?;
        if let Some(objects) = base.objects {
            std::os::unix::fs::symlink(objects, dir.join("host")).map_err(failed)?;
            fs::write(dir.join("objects/info/alternates"), "../host\n").map_err(failed)?;
        }
        if let Some(text) = base.shallow {
            fs::write(dir.join("shallow"), text).map_err(failed)?;
        }
        Ok(Self { git, dir, refs: base.refs, known: BTreeSet::new() })
    }

    /// Copies an object of the session, or a pack whose index git creates again. `inner` is its path
    /// in the directory of objects; see [`is_copied`].
    pub fn add(&self, inner: &Path, mut content: impl Read) -> Result<(), ScratchError> {
        let to = self.dir.join("objects").join(inner);
        let failed = |source| ScratchError::Write { path: to.clone(), source };
        fs::create_dir_all(to.parent().unwrap_or(&self.dir)).map_err(failed)?;
        let new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to);
        io::copy(&mut content, &mut new.map_err(failed)?).map_err(failed)?;
        if is_pack(inner) {
            self.git(&["index-pack", "--no-rev-index", &to.to_string_lossy()], &[])?;
        }
        Ok(())
    }

    /// Determines which history the host has. Call it after the last object was added.
    pub fn finish(mut self) -> Result<Self, ScratchError> {
        let ids: BTreeSet<&str> = self.refs.values().filter_map(RefValue::id).collect();
        let known = self.types(ids.iter().copied())?;
        self.known = known.into_keys().collect();
        Ok(self)
    }

    /// Returns the host's refs, and its `HEAD`.
    pub fn into_refs(self) -> BTreeMap<String, RefValue> {
        self.refs
    }

    /// Packs the objects of `tips` that the host lacks. The pack is written to the other repository, which has only
    /// the host's objects and checks that no object is missing or broken.
    pub fn pack_into(
        &self,
        other: &ScratchRepository<'_>,
        tips: &BTreeSet<String>,
    ) -> Result<Option<Pack>, ScratchError> {
        let input = self.revisions(tips.iter().map(String::as_str));
        let args = ["pack-objects", "--revs", "--non-empty", "--delta-base-offset", "-q", "new"];
        let name = self.git(&args, &input)?;
        let name = String::from_utf8_lossy(&name).trim().to_owned();
        let mut pack = None;
        if !name.is_empty() {
            let path = self.dir.join(format!("new-{name}.pack"));
            let file = File::open(&path).map_err(|source| ScratchError::Write { path, source })?;
            let args = ["index-pack", "--strict", "--no-rev-index", "--stdin"];
            let (output, text) = other.run(&args, Input::File(file))?;
            let refused = || ScratchError::Refused { command: "index-pack --strict".into(), text };
            let output = String::from_utf8_lossy(&output.ok_or_else(refused)?).trim().to_owned();
            let name = output.rsplit('\t').next().unwrap_or_default().to_owned();
            pack = Some(Pack { name, dir: other.dir.join("objects/pack") });
        }
        let known = other.types(tips.iter().map(String::as_str))?;
        if let Some(missing) = tips.iter().find(|tip| !known.contains_key(*tip)) {
            let text = format!("object {missing} is missing");
            return Err(ScratchError::Refused { command: "cat-file".into(), text });
        }
        Ok(pack)
    }

    /// Runs git, and returns its output.
    pub(crate) fn git(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, ScratchError> {
        let (output, text) = self.run(args, Input::Bytes(input))?;
        output.ok_or_else(|| ScratchError::Refused { command: args.join(" "), text })
    }

    /// Runs git, and returns its output unless it failed.
    pub(crate) fn try_git(&self, args: &[&str]) -> Result<Option<Vec<u8>>, ScratchError> {
        Ok(self.run(args, Input::Bytes(&[]))?.0)
    }

    /// Runs git. Returns its output if it succeeded, and the first line of its messages.
    fn run(
        &self,
        args: &[&str],
        input: Input<'_>,
    ) -> Result<(Option<Vec<u8>>, String), ScratchError> {
        let failed = |source| ScratchError::Write { path: self.dir.clone(), source };
        let mut git = Command::new(self.git.program()?);
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(args);
        git.current_dir(&self.dir).env_clear().envs(ENVIRONMENT);
        git.stdout(Stdio::piped()).stderr(Stdio::piped());
        let bytes = match input {
            Input::Bytes(bytes) => {
                git.stdin(Stdio::piped());
                bytes
            }
            Input::File(file) => {
                git.stdin(file);
                &[]
            }
        };
        let mut child = git.spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // Git may exit before it has read everything, and reports why.
                let _ = stdin.map(|mut stdin| stdin.write_all(bytes));
            });
            child.wait_with_output()
        });
        let output = output.map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("").to_owned();
        Ok((output.status.success().then_some(output.stdout), text))
    }

    /// Returns the names and types of the objects that exist. `ID^{}` queries the target of a tag.
    pub(crate) fn types<'i>(
        &self,
        ids: impl Iterator<Item = &'i str>,
    ) -> Result<BTreeMap<String, (String, String)>, ScratchError> {
        let ids: Vec<&str> = ids.collect();
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input = ids.join("\n") + "\n";
        let output =
            self.git(&["cat-file", "--batch-check=%(objectname) %(objecttype)"], input.as_bytes())?;
        let lines = String::from_utf8_lossy(&output).into_owned();
        let pairs = ids.iter().zip(lines.lines()).filter_map(|(id_query, line)| {
            let (id, kind) = line.split_once(' ')?;
            is_id(id).then(|| ((*id_query).to_owned(), (id.to_owned(), kind.to_owned())))
        });
        Ok(pairs.filter(|(_, (_, kind))| kind != "missing").collect())
    }

    /// Returns lines for `--stdin`: these objects, without the history that the host has.
    pub(crate) fn revisions<'i>(&self, tips: impl Iterator<Item = &'i str>) -> Vec<u8> {
        let mut text = String::new();
        for tip in tips {
            text.extend([tip, "\n"]);
        }
        for tip in &self.known {
            text.extend(["^", tip, "\n"]);
        }
        text.into_bytes()
    }

    /// Reads a blob unless it is too large: a few bytes of the session can unpack to gigabytes.
    pub(crate) fn blob(&self, id: &str) -> Result<Option<Vec<u8>>, ScratchError> {
        let size = self.git(&["cat-file", "-s", id], &[])?;
        let size = String::from_utf8_lossy(&size).trim().parse::<usize>();
        if size.is_ok_and(|size| size <= MAX_BLOB) {
            return self.git(&["cat-file", "blob", id], &[]).map(Some);
        }
        Ok(None)
    }
}

/// A pack with its index, which git checked.
pub struct Pack {
    /// Name without `pack-` and without the ending.
    pub name: String,
    /// Directory of both files.
    pub dir: PathBuf,
}

/// Standard input of git.
enum Input<'i> {
    Bytes(&'i [u8]),
    File(File),
}

/// Returns true for objects and packs, by their path in the directory of objects. Other files there are
/// generated from them, or point to other directories.
pub fn is_copied(inner: &Path) -> bool {
    is_pack(inner) || is_loose(inner)
}

fn is_pack(inner: &Path) -> bool {
    let name = inner.to_str().and_then(|inner| inner.strip_prefix("pack/pack-"));
    name.and_then(|name| name.strip_suffix(".pack")).is_some_and(is_hexadecimal)
}

fn is_loose(inner: &Path) -> bool {
    let parts =
        inner.to_str().filter(|inner| inner.len() == 41).and_then(|name| name.split_once('/'));
    parts.is_some_and(|(dir, name)| dir.len() == 2 && is_hexadecimal(dir) && is_hexadecimal(name))
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
