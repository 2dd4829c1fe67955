//! The real git, asked about a call before the call is made.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{CONFIG_VARIABLES, ConfigScope, Globals, RepoView};

/// The real git of a sandbox, and what the sandbox says about its surroundings.
#[derive(Debug, Clone)]
pub struct RealGit {
    program: PathBuf,
    scratch: Vec<PathBuf>,
    usual_env: Vec<(OsString, OsString)>,
}

impl RealGit {
    /// `program` is the real git, `scratch` the directories in which every repository is expendable, `usual_env`
    /// the values of [`CONFIG_VARIABLES`] when the sandbox was started.
    pub fn new(
        program: PathBuf,
        scratch: Vec<PathBuf>,
        usual_env: Vec<(OsString, OsString)>,
    ) -> Self {
        Self { program, scratch, usual_env }
    }

    fn ask(
        &self,
        words: &[OsString],
        question: &[&OsStr],
        asked: ConfigScope,
    ) -> io::Result<Vec<u8>> {
        let mut git = sandbox_linux::process::command(&self.program);
        // GIT_CONFIG points `git config` at another file, but not the git that will run.
        git.arg0("git").args(words).args(question).env_remove("GIT_CONFIG");
        git.stdin(Stdio::null()).stderr(Stdio::null());
        if asked == ConfigScope::Usual {
            for name in
                CONFIG_VARIABLES.iter().chain(&["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"])
            {
                git.env_remove(name);
            }
            git.envs(self.usual_env.iter().map(|(name, value)| (name, value)));
        }
        let output = git.output()?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(io::Error::other("git says no"))
        }
    }

    /// One path of the repository that git would act on, symlinks resolved.
    fn place(&self, globals: &Globals, what: &str) -> io::Result<PathBuf> {
        let question =
            [OsStr::new("rev-parse"), OsStr::new("--path-format=absolute"), OsStr::new(what)];
        let mut answer = self.ask(&globals.words, &question, ConfigScope::Effective)?;
        answer.pop();
        fs::canonicalize(OsString::from_vec(answer))
    }

    fn in_scratch(&self, path: &Path) -> bool {
        self.scratch.iter().any(|root| {
            let root = fs::canonicalize(root);
            root.is_ok_and(|root| path.starts_with(root))
        })
    }

    fn remotes(&self, globals: &Globals) -> Vec<OsString> {
        let names = self.ask(&globals.words, &[OsStr::new("remote")], ConfigScope::Effective);
        let names = names.unwrap_or_default();
        let lines = names.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| OsStr::from_bytes(line).to_owned()).collect()
    }

    /// The addresses a push to a remote goes to; a name that is no remote is an address itself.
    fn push_urls(&self, globals: &Globals, remote: &OsStr) -> Vec<OsString> {
        let question = ["remote", "get-url", "--push", "--all", "--"].map(OsStr::new);
        let question: Vec<&OsStr> = question.into_iter().chain([remote]).collect();
        let Ok(urls) = self.ask(&globals.words, &question, ConfigScope::Effective) else {
            return vec![remote.to_owned()];
        };
        let lines = urls.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| OsStr::from_bytes(line).to_owned()).collect()
    }
}

impl RepoView for RealGit {
    fn config(
        &self,
        globals: &Globals,
        pattern: &str,
        asked: ConfigScope,
    ) -> Vec<(String, Vec<u8>)> {
        let words = match asked {
            ConfigScope::Effective => &globals.words,
            ConfigScope::Usual => &globals.steady,
        };
        let question = ["config", "-z", "--get-regexp", pattern].map(OsStr::new);
        // No match is an error to `git config`, and a call that git cannot read will fail by itself.
        let answer = self.ask(words, &question, asked).unwrap_or_default();
        let entries = answer.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        entries
            .map(|entry| {
                let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
                let value = entry.get(end + 1..).unwrap_or_default().to_vec();
                (String::from_utf8_lossy(&entry[..end]).into_owned(), value)
            })
            .collect()
    }

    fn is_scratch(&self, globals: &Globals) -> bool {
        // The common directory too: a linked work tree in /tmp belongs to the repository it was made from.
        let kept = ["--absolute-git-dir", "--git-common-dir", "--show-toplevel"];
        !self.scratch.is_empty()
            && kept.iter().all(|what| match self.place(globals, what) {
                Ok(place) => self.in_scratch(&place),
                // A bare repository has no work tree.
                Err(_) => *what == "--show-toplevel" && self.is_bare(globals),
            })
    }

    fn remote_is_scratch(&self, globals: &Globals, remote: Option<&OsStr>) -> bool {
        if !self.is_scratch(globals) {
            return false;
        }
        let remotes = remote.map_or_else(|| self.remotes(globals), |name| vec![name.to_owned()]);
        let urls: Vec<OsString> =
            remotes.iter().flat_map(|remote| self.push_urls(globals, remote)).collect();
        !urls.is_empty()
            && urls.iter().all(|url| {
                let path = url.as_bytes().strip_prefix(b"file://").unwrap_or(url.as_bytes());
                let path = Path::new(OsStr::from_bytes(path));
                // A relative address starts where git starts, which `-C` may have moved.
                path.is_absolute()
                    && fs::canonicalize(path).is_ok_and(|path| self.in_scratch(&path))
            })
    }

    fn caller(&self) -> Option<Vec<OsString>> {
        let caller = format!("/proc/{}", std::os::unix::process::parent_id());
        let (theirs, real) =
            (fs::metadata(format!("{caller}/exe")).ok()?, fs::metadata(&self.program).ok()?);
        if (theirs.dev(), theirs.ino()) != (real.dev(), real.ino()) {
            return None;
        }
        let line = fs::read(format!("{caller}/cmdline")).ok()?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        Some(line.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect())
    }

    fn usual_env(&self) -> &[(OsString, OsString)] {
        &self.usual_env
    }
}

impl RealGit {
    fn is_bare(&self, globals: &Globals) -> bool {
        let question = ["rev-parse", "--is-bare-repository"].map(OsStr::new);
        self.ask(&globals.words, &question, ConfigScope::Effective)
            .is_ok_and(|answer| answer == b"true\n")
    }
}
