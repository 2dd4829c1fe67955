//! Queries to the real git about a call, before the call runs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{CONFIG_VARIABLES, ConfigScope, Globals, RepoView};

/// The real git of a sandbox, with the facts of that sandbox.
#[derive(Debug, Clone)]
pub struct RealGit {
    program: PathBuf,
    scratch: Vec<PathBuf>,
    usual_env: Vec<(OsString, OsString)>,
    enclosing: Option<PathBuf>,
}

impl RealGit {
    /// Creates a handle to the real git at `program`. Repositories in the `scratch` directories are
    /// expendable. `usual_env` holds the values of [`CONFIG_VARIABLES`] when the sandbox was started.
    pub fn new(
        program: PathBuf,
        scratch: Vec<PathBuf>,
        usual_env: Vec<(OsString, OsString)>,
    ) -> Self {
        Self { program, scratch, usual_env, enclosing: None }
    }

    /// Sets the work tree of the repository whose git directory is writable, although most of its files are not.
    #[must_use]
    pub fn within(self, enclosing: Option<PathBuf>) -> Self {
        Self { enclosing, ..self }
    }

    fn query(
        &self,
        words: &[OsString],
        query: &[&OsStr],
        scope: ConfigScope,
    ) -> io::Result<Vec<u8>> {
        let mut git = sandbox_linux::process::command(&self.program);
        // GIT_CONFIG redirects `git config` to another file, but not the git command that will run.
        git.arg0("git").args(words).args(query).env_remove("GIT_CONFIG");
        git.stdin(Stdio::null()).stderr(Stdio::null());
        if scope == ConfigScope::Usual {
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
            Err(io::Error::other("git failed"))
        }
    }

    /// Returns a path of the repository that git would act on, with symlinks resolved.
    fn repository_path(&self, globals: &Globals, what: &str) -> io::Result<PathBuf> {
        let query =
            [OsStr::new("rev-parse"), OsStr::new("--path-format=absolute"), OsStr::new(what)];
        let mut answer = self.query(&globals.words, &query, ConfigScope::Effective)?;
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
        let names = self.query(&globals.words, &[OsStr::new("remote")], ConfigScope::Effective);
        let names = names.unwrap_or_default();
        let lines = names.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| OsStr::from_bytes(line).to_owned()).collect()
    }

    /// Returns the URLs that a push to a remote goes to. A name that is not a remote is a URL itself.
    fn push_urls(&self, globals: &Globals, remote: &OsStr) -> Vec<OsString> {
        let query = ["remote", "get-url", "--push", "--all", "--"].map(OsStr::new);
        let query: Vec<&OsStr> = query.into_iter().chain([remote]).collect();
        let Ok(urls) = self.query(&globals.words, &query, ConfigScope::Effective) else {
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
        scope: ConfigScope,
    ) -> Vec<(String, Vec<u8>)> {
        let words = match scope {
            ConfigScope::Effective => &globals.words,
            ConfigScope::Usual => &globals.without_config,
        };
        let query = ["config", "-z", "--get-regexp", pattern].map(OsStr::new);
        // No match is an error to `git config`. A call that git cannot parse fails anyway.
        let answer = self.query(words, &query, scope).unwrap_or_default();
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
        // A linked work tree in /tmp belongs to its main repository, so the common directory counts too.
        let kept = ["--absolute-git-dir", "--git-common-dir", "--show-toplevel"];
        !self.scratch.is_empty()
            && kept.iter().all(|what| match self.repository_path(globals, what) {
                Ok(path) => self.in_scratch(&path),
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
                // A relative URL starts at git's working directory, which `-C` may change.
                path.is_absolute()
                    && fs::canonicalize(path).is_ok_and(|path| self.in_scratch(&path))
            })
    }

    fn partly_writable(&self, globals: &Globals) -> Option<PathBuf> {
        let enclosing = self.enclosing.as_deref()?;
        let top = self.repository_path(globals, "--show-toplevel").ok()?;
        (top == enclosing).then_some(top)
    }

    fn is_read_only(&self, path: &Path) -> bool {
        !sandbox_linux::file::writable(super::effect::directory_of(path))
    }

    fn ask(&self, globals: &Globals, query: &[OsString]) -> Option<Vec<u8>> {
        let query: Vec<&OsStr> = query.iter().map(OsString::as_os_str).collect();
        self.query(&globals.words, &query, ConfigScope::Effective).ok()
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
        let query = ["rev-parse", "--is-bare-repository"].map(OsStr::new);
        self.query(&globals.words, &query, ConfigScope::Effective)
            .is_ok_and(|answer| answer == b"true\n")
    }
}
