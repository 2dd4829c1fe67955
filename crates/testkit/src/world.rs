//! A home, a project, and the two ways to run a command in them.

pub(crate) mod namespace;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use namespace::Namespace;

use crate::caller::{SEARCH_PATH, need, setting};
use crate::process::Process;
use crate::root::Root;
use crate::run::{Line, Run};
use crate::terminal::Terminal;

/// A temporary home (`home`) and project (`project`), gone at the end of the test.
///
/// Paths given to it are relative to the world: `home/.ssh/id_ed25519`, `project/src`, `outside/notes`.
/// A clone is the same world: `world.clone().env("K", "V").run(…)` changes one run only.
#[derive(Debug, Clone)]
pub struct World {
    root: Arc<Root>,
    binary: PathBuf,
    cwd: PathBuf,
    env: BTreeMap<OsString, OsString>,
    /// Another user that root runs commands as.
    user: Option<u32>,
    /// Where commands run, if not where the test does.
    namespace: Option<Arc<Namespace>>,
}

impl World {
    /// A world for the binary under test: `$AGENT_SANDBOX_BIN`, else what cargo built beside this test.
    pub fn new() -> Self {
        Self::with_binary(setting("AGENT_SANDBOX_BIN").map_or_else(built_binary, PathBuf::from))
    }

    /// A world below `/tmp`, which sandboxes of other worlds do not see. For tests that make what every
    /// sandbox on the machine looks at, such as sockets.
    pub fn unseen() -> Self {
        let binary = setting("AGENT_SANDBOX_BIN").map_or_else(built_binary, PathBuf::from);
        Self::at(Root::below(Path::new("/tmp")), binary)
    }

    /// A world for another binary.
    pub fn with_binary(binary: impl Into<PathBuf>) -> Self {
        Self::at(Root::new(), binary.into())
    }

    /// A world in another place, for another binary.
    pub fn below(parent: &Path, binary: impl Into<PathBuf>) -> Self {
        Self::at(Root::below(parent), binary.into())
    }

    fn at(root: Root, binary: PathBuf) -> Self {
        let root = Arc::new(root);
        let env = environment(root.path());
        let world = Self {
            cwd: root.path().join("project"),
            root,
            binary,
            env,
            user: None,
            namespace: None,
        };
        world.dir("home").dir("project")
    }

    /// Writes a file, with the directories above it.
    #[track_caller]
    pub fn file(self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// The same as [`World::file`], between two runs.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.with_parents(path.as_ref());
        done(fs::write(&path, text), "write", &path);
    }

    /// Writes a program: a script with its `#!` line.
    #[track_caller]
    pub fn exec_file(self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Self {
        let path = self.with_parents(path.as_ref());
        // By another process: a descriptor that is open for writing here could slip into a child that a
        // parallel test starts, and running the file would then fail with ETXTBSY.
        let mut cat = Command::new("/bin/sh");
        cat.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut child = cat.spawn().expect("cannot start `/bin/sh`");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin.write_all(text.as_ref()).expect("cannot write to `sh`");
        drop(stdin);
        assert!(child.wait().expect("`sh` ends").success(), "cannot write `{}`", path.display());
        self
    }

    /// Makes a directory, with those above it.
    #[track_caller]
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        let path = self.path(path);
        done(fs::create_dir_all(&path), "create", &path);
        self
    }

    /// Makes a symbolic link at `path`. Its target is taken as it is written.
    #[track_caller]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let path = self.with_parents(path.as_ref());
        done(symlink(target, &path), "link", &path);
        self
    }

    /// Makes a repository of a directory; what lies in it already is its first commit, on `main`.
    #[track_caller]
    pub fn git_init(self, path: impl AsRef<Path>) -> Self {
        need("git");
        let repository = self.dir(path.as_ref()).clone();
        let git = repository.clone().cwd(path);
        git.host(["git", "init", "-q", "-b", "main"]).succeeds();
        git.host(["git", "add", "-A"]).succeeds();
        git.host(["git", "commit", "-q", "--allow-empty", "-m", "start"]).succeeds();
        repository
    }

    /// Sets a variable for the runs of this world.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Removes a variable from the runs of this world.
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Runs commands as another user, which only root can.
    pub fn as_user(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }

    /// Who runs commands here.
    pub(crate) fn uid(&self) -> u32 {
        self.user.unwrap_or_else(|| rustix::process::getuid().as_raw())
    }

    /// Uses another program as the binary: one that watches it, for example.
    pub fn with_program(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Runs commands in these namespaces.
    pub fn within(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(Arc::new(namespace));
        self
    }

    /// Whether commands run in namespaces of their own.
    pub(crate) fn is_within(&self) -> bool {
        self.namespace.is_some()
    }

    /// A path as commands see it, as this process reaches it.
    pub fn reach(&self, path: &Path) -> PathBuf {
        self.namespace.as_ref().map_or_else(|| path.to_owned(), |namespace| namespace.path(path))
    }

    /// Where runs start; `project` unless said otherwise.
    pub fn cwd(mut self, path: impl AsRef<Path>) -> Self {
        self.cwd = self.path(path);
        self
    }

    /// The absolute path of something in the world.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path)
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The text of a file, as the host sees it.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        done(fs::read_to_string(&path), "read", &path)
    }

    /// Whether the host sees anything at this path, be it a dangling link.
    #[track_caller]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        let path = self.path(path);
        match fs::symlink_metadata(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => panic!("cannot look at `{}`: {error}", path.display()),
        }
    }

    /// Runs the binary with these arguments, without input, and waits for its end.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        self.spawn(args).wait()
    }

    /// Runs the binary with these arguments and this input.
    #[track_caller]
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        input: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Run {
        let mut process = self.spawn(args);
        process.send(input);
        process.wait()
    }

    /// Runs a command without the sandbox: the control of a denial.
    #[track_caller]
    pub fn host<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Run {
        Process::start(&self.line(command)).wait()
    }

    /// Starts a command without the sandbox and does not wait.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Process {
        Process::start(&self.line(command))
    }

    /// Starts the binary and does not wait.
    #[track_caller]
    pub fn spawn<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Process {
        Process::start(&self.sandbox_line(args))
    }

    /// Starts the binary on a terminal of its own, with job control.
    #[track_caller]
    pub fn terminal<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Terminal {
        Terminal::start(&self.sandbox_line(args))
    }

    /// Starts a command without the sandbox on a terminal of its own, such as the shell a user types in.
    #[track_caller]
    pub fn host_terminal<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Terminal {
        Terminal::start(&self.line(command))
    }

    fn sandbox_line<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Line {
        let mut line = self.line([&self.binary]);
        line.words.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
        line
    }

    fn line<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Line {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(uid) = self.user {
            line.push(need("setpriv").into());
            line.extend([format!("--reuid={uid}").into(), format!("--regid={uid}").into()]);
            line.extend(["--clear-groups", "--"].map(OsString::from));
        }
        let mut cwd = self.cwd.clone();
        if let Some(namespace) = &self.namespace {
            line.extend(namespace.words());
            line.extend(["sh", "-c", "cd \"$0\" && exec \"$@\""].map(OsString::from));
            line.push(std::mem::replace(&mut cwd, "/".into()).into());
        }
        line.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        Line { words: line, cwd, env: self.env.clone(), root: self.root.clone() }
    }

    #[track_caller]
    fn with_parents(&self, path: &Path) -> PathBuf {
        let path = self.path(path);
        if let Some(parent) = path.parent() {
            done(fs::create_dir_all(parent), "create", parent);
        }
        path
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// The value, or the end of a test whose world cannot be built.
#[track_caller]
fn done<T>(result: io::Result<T>, verb: &str, path: &Path) -> T {
    result.unwrap_or_else(|error| panic!("cannot {verb} `{}`: {error}", path.display()))
}

/// Cargo builds tests into `deps`, beside the binaries of their package.
fn built_binary() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().and_then(Path::parent).expect("this test lies in `deps`");
    folder.join("agent-sandbox")
}

/// What a fresh login would have, and an identity for commits. Nothing of the developer's own shell.
fn environment(root: &Path) -> BTreeMap<OsString, OsString> {
    let home = root.join("home");
    let fixed = [
        ("PATH", SEARCH_PATH),
        ("LANG", "C.UTF-8"),
        ("SHELL", "/bin/sh"),
        ("TERM", "xterm-256color"),
        ("GIT_AUTHOR_NAME", "Test"),
        ("GIT_AUTHOR_EMAIL", "test@example.com"),
        ("GIT_COMMITTER_NAME", "Test"),
        ("GIT_COMMITTER_EMAIL", "test@example.com"),
    ];
    let passed = ["USER", "LOGNAME", "AGENT_SANDBOX_MOUNTS"];
    let passed = passed.into_iter().filter_map(|name| Some((name.into(), setting(name)?)));
    let fixed = fixed.into_iter().map(|(name, value)| (name.into(), value.into()));
    fixed.chain(passed).chain([("HOME".into(), home.into())]).collect()
}
