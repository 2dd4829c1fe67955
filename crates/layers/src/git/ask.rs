//! Asking the real git about a session's objects, without obeying anything that the session wrote.
//!
//! Git runs in a scratch repository: settings of ours, the session's new objects as copies, the
//! host's objects as an alternate. No ref, setting, hook, attribute or alternate of the session is
//! there for git to see.

mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::{Repository, Value};
use crate::RelPath;
use crate::diff::{DiffError, View};
use crate::host::Kind;
use crate::repository::{host_file, is_id, of_host};
use look::Looker;

/// More new commits than this are not looked through.
const MAX_COMMITS: usize = 20_000;
/// As many files that run code later are named for each ref.
pub(super) const MAX_HELD: usize = 20;
/// Larger descriptions of packages and links are not read.
const MAX_BLOB: usize = 1 << 20;
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
const NONE: &str = "ref: refs/heads/none\n";

/// Why git cannot answer.
#[derive(Debug, Error)]
pub enum GitError {
    /// git is not installed.
    #[error("git is not installed, so that the commits of the session cannot be checked")]
    Missing,
    /// The scratch repository cannot be made.
    #[error("cannot write `{}`", path.display())]
    Scratch {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git refused.
    #[error("`git {command}` fails in a copy of the repository: {text}")]
    Refused {
        /// Command that failed.
        command: String,
        /// Message of git.
        text: String,
    },
    /// The session or the host cannot be read.
    #[error(transparent)]
    Diff(#[from] DiffError),
}

/// Rules for files that run code later.
#[derive(Clone, Copy)]
pub struct Judge<'j> {
    /// Names the program that runs a file of this path.
    pub later: &'j dyn Fn(&Path) -> Option<&'static str>,
    /// Returns true when a file of this name and content runs nothing.
    pub harmless: &'j dyn Fn(&OsStr, &[u8]) -> bool,
}

/// Runs git in scratch repositories, which are removed at the end.
#[derive(Debug)]
pub struct Asker {
    program: Option<PathBuf>,
    dir: PathBuf,
}

impl Drop for Asker {
    fn drop(&mut self) {
        // Only space is lost when this fails; the session's directory is removed as a whole.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Asker {
    /// Uses this git, and a directory that does not exist yet.
    pub fn new(program: Option<PathBuf>, dir: PathBuf) -> Self {
        Self { program, dir }
    }

    /// Finds the new commits of each ref, and what in them is held back. What git says against a
    /// repository refuses it.
    pub fn look(
        &self,
        view: &View<'_>,
        repository: &mut Repository,
        judge: &Judge<'_>,
    ) -> Result<(), GitError> {
        if !repository.gone.is_empty() || repository.refused.is_some() {
            return Ok(());
        }
        let looked = Scratch::make(self, view, repository)
            .and_then(|scratch| Looker { scratch: &scratch, view, judge }.look(repository));
        match looked {
            Err(error @ (GitError::Missing | GitError::Refused { .. })) => {
                repository.refused = Some(repository.refusal(&error));
                Ok(())
            }
            looked => looked,
        }
    }
}

/// A scratch repository.
pub(super) struct Scratch<'a> {
    asker: &'a Asker,
    pub(super) dir: PathBuf,
    /// Every object that a ref of the host names.
    pub(super) host: BTreeMap<String, Value>,
    /// Those of them that exist.
    tips: BTreeSet<String>,
}

impl<'a> Scratch<'a> {
    /// Makes one with the host's objects and the session's new ones.
    pub(super) fn make(
        asker: &'a Asker,
        view: &View<'_>,
        repository: &Repository,
    ) -> Result<Self, GitError> {
        let mut made = Self::empty(asker, view, repository)?;
        for path in &repository.objects {
            made.copy(view, repository, path)?;
        }
        let ids: BTreeSet<String> =
            made.host.values().filter_map(Value::id).map(str::to_owned).collect();
        let known = made.types(ids.iter().map(String::as_str))?;
        made.tips = ids.into_iter().filter(|id| known.contains_key(id)).collect();
        Ok(made)
    }

    /// Makes one with the host's objects alone.
    pub(super) fn empty(
        asker: &'a Asker,
        view: &View<'_>,
        repository: &Repository,
    ) -> Result<Self, GitError> {
        if asker.program.is_none() {
            return Err(GitError::Missing);
        }
        let dir = (0..).map(|number: u32| asker.dir.join(number.to_string()));
        let dir = { dir }.find(|dir| fs::symlink_metadata(dir).is_err()).unwrap_or_default();
        let failed = |source| GitError::Scratch { path: dir.clone(), source };
        for sub in ["objects/info", "objects/pack", "refs"] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join(sub));
            made.map_err(failed)?;
        }
        fs::write(dir.join("config"), CONFIG).map_err(failed)?;
        fs::write(dir.join("HEAD"), NONE).map_err(failed)?;
        let host_error = |source| DiffError::Host { path: repository.dir.clone(), source };
        let objects = repository.path("objects");
        let there = objects.and_then(|path| view.host.stat(&path).ok().flatten());
        if there.is_some_and(|found| found.kind == Kind::Dir) {
            let objects = view.host.path().join(&repository.dir).join("objects");
            std::os::unix::fs::symlink(objects, dir.join("host")).map_err(failed)?;
            fs::write(dir.join("objects/info/alternates"), "../host\n").map_err(failed)?;
        }
        let shallow = match &repository.shallow {
            Some(text) => Some(text.clone()),
            None => host_file(view.host, &repository.dir.join("shallow"), 1 << 20)
                .map_err(host_error)?,
        };
        if let Some(text) = shallow {
            fs::write(dir.join("shallow"), text).map_err(failed)?;
        }
        let mut host = of_host(view.host, &repository.dir).map_err(host_error)?;
        let head = host_file(view.host, &repository.dir.join("HEAD"), 8192).map_err(host_error)?;
        host.extend(head.and_then(|text| Value::parse(&text)).map(|value| ("HEAD".into(), value)));
        Ok(Self { asker, dir, host, tips: BTreeSet::new() })
    }

    /// Copies one object, or a pack whose index git makes again.
    fn copy(
        &self,
        view: &View<'_>,
        repository: &Repository,
        path: &RelPath,
    ) -> Result<(), GitError> {
        let inner = path.as_path().strip_prefix(repository.dir.join("objects")).ok();
        let Some(inner) = inner.and_then(Path::to_str) else { return Ok(()) };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_pack = inner
            .strip_prefix("pack/pack-")
            .and_then(|name| name.strip_suffix(".pack"))
            .is_some_and(digits);
        let is_loose = inner.len() == 41
            && inner.split_once('/').is_some_and(|(a, b)| a.len() == 2 && digits(a) && digits(b));
        if !is_pack && !is_loose {
            return Ok(());
        }
        let to = self.dir.join("objects").join(inner);
        let failed = |source| GitError::Scratch { path: to.clone(), source };
        fs::create_dir_all(to.parent().unwrap_or(&self.dir)).map_err(failed)?;
        let mut from = view.layer.open(path).map_err(DiffError::from)?;
        let new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to);
        io::copy(&mut from, &mut new.map_err(failed)?).map_err(failed)?;
        if is_pack {
            self.git(&["index-pack", "--no-rev-index", &to.to_string_lossy()], &[])?;
        }
        Ok(())
    }

    /// Runs git, and returns what it printed.
    pub(super) fn git(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let (output, text) = self.run(args, Input::Bytes(input))?;
        output.ok_or_else(|| GitError::Refused { command: args.join(" "), text })
    }

    /// Runs git, and returns what it printed if it succeeded, and what it complained about.
    pub(super) fn run(
        &self,
        args: &[&str],
        input: Input<'_>,
    ) -> Result<(Option<Vec<u8>>, String), GitError> {
        let failed = |source| GitError::Scratch { path: self.dir.clone(), source };
        let program = self.asker.program.as_ref().ok_or(GitError::Missing)?;
        let mut git = Command::new(program);
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(args);
        git.current_dir(&self.dir).env_clear();
        for (name, value) in [
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
        ] {
            git.env(name, value);
        }
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
                // Git may end before it has read everything, and says why itself.
                let _ = stdin.map(|mut stdin| stdin.write_all(bytes));
            });
            child.wait_with_output()
        });
        let output = output.map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("").to_owned();
        Ok((output.status.success().then_some(output.stdout), text))
    }

    /// The types of objects that exist. `ID^{}` asks what a tag leads to.
    pub(super) fn types<'i>(
        &self,
        ids: impl Iterator<Item = &'i str>,
    ) -> Result<BTreeMap<String, (String, String)>, GitError> {
        let ids: Vec<&str> = ids.collect();
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input = ids.join("\n") + "\n";
        let output =
            self.git(&["cat-file", "--batch-check=%(objectname) %(objecttype)"], input.as_bytes())?;
        let lines = String::from_utf8_lossy(&output).into_owned();
        let pairs = ids.iter().zip(lines.lines()).filter_map(|(asked, line)| {
            let (id, kind) = line.split_once(' ')?;
            is_id(id).then(|| ((*asked).to_owned(), (id.to_owned(), kind.to_owned())))
        });
        Ok(pairs.filter(|(_, (_, kind))| kind != "missing").collect())
    }

    /// Lines for `--stdin`: these objects, without what the host has.
    pub(super) fn revisions<'i>(&self, tips: impl Iterator<Item = &'i str>) -> Vec<u8> {
        let mut text = String::new();
        for tip in tips {
            text.extend([tip, "\n"]);
        }
        for tip in &self.tips {
            text.extend(["^", tip, "\n"]);
        }
        text.into_bytes()
    }

    /// Reads a blob, unless it is too large to be judged: a few bytes of the session's can unpack to gigabytes.
    pub(super) fn blob(&self, id: &str) -> Result<Option<Vec<u8>>, GitError> {
        let size = self.git(&["cat-file", "-s", id], &[])?;
        let size = String::from_utf8_lossy(&size).trim().parse::<usize>();
        if size.is_ok_and(|size| size <= MAX_BLOB) {
            return self.git(&["cat-file", "blob", id], &[]).map(Some);
        }
        Ok(None)
    }
}

/// Standard input of git.
pub(super) enum Input<'i> {
    Bytes(&'i [u8]),
    File(File),
}
