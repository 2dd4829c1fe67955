//! A home and a project, in which commands run inside or outside the sandbox.

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

/// A temporary home (`home`) and project (`project`), which are removed at the end of the test.
///
/// Paths are relative to the world: `home/.ssh/id_ed25519`, `project/src`, `outside/notes`. A clone shares the
/// directory but not the settings, so `world.clone().env("K", "V").run(…)` changes only one run.
#[derive(Debug, Clone)]
pub struct World {
    root: Arc<Root>,
    binary: PathBuf,
    cwd: PathBuf,
    env: BTreeMap<OsString, OsString>,
    /// User of commands, if it differs from that of the test.
    user: Option<u32>,
    /// Namespaces of commands, if they differ from those of the test.
    namespace: Option<Arc<Namespace>>,
}

impl World {
    /// Creates a world for the binary under test: `$AGENT_SANDBOX_BIN`, else the one that cargo built beside this test.
    pub fn new() -> Self {
        Self::with_binary(setting("AGENT_SANDBOX_BIN").map_or_else(built_binary, PathBuf::from))
    }

    /// Creates a world below `/tmp`, which sandboxes of other worlds do not see. For tests that create files that every
    /// sandbox on the machine inspects, such as sockets.
    pub fn unseen() -> Self {
        let binary = setting("AGENT_SANDBOX_BIN").map_or_else(built_binary, PathBuf::from);
        Self::at(Root::below(Path::new("/tmp")), binary)
    }

    /// Creates a world for another binary.
    pub fn with_binary(binary: impl Into<PathBuf>) -> Self {
        Self::at(Root::new(), binary.into())
    }

    /// Creates a world in another directory, for another binary.
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

    /// Writes a file, and creates its parent directories.
    #[track_caller]
    pub fn file(self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// Writes a file between two runs: see [`World::file`].
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.with_parents(path.as_ref());
        done(fs::write(&path, text), "write", &path);
    }

    /// Writes a program: a script with its `#!` line.
    #[track_caller]
    pub fn exec_file(self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Self {
        let path = self.with_parents(path.as_ref());
        // Another process writes it: a child of a parallel test could inherit a descriptor that is open for writing
        // here, and running the file would then fail with ETXTBSY, see execve(2).
        let mut cat = Command::new("/bin/sh");
        cat.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut child = cat.spawn().expect("cannot start `/bin/sh`");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin.write_all(text.as_ref()).expect("cannot write to `sh`");
        drop(stdin);
        assert!(child.wait().expect("`sh` ends").success(), "cannot write `{}`", path.display());
        self
    }

    /// Creates a directory and its parents.
    #[track_caller]
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        let path = self.path(path);
        done(fs::create_dir_all(&path), "create", &path);
        self
    }

    /// Creates a symbolic link at `path`. The target is used unchanged.
    #[track_caller]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let path = self.with_parents(path.as_ref());
        done(symlink(target, &path), "link", &path);
        self
    }

    /// Creates a repository in a directory. Its files are the first commit, on `main`.
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

    /// Runs commands as another user. Requires root.
    pub fn as_user(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }

    /// Returns the uid of commands.
    pub(crate) fn uid(&self) -> u32 {
        self.user.unwrap_or_else(|| rustix::process::getuid().as_raw())
    }

    /// Uses another program as the binary, such as a tracer that starts it.
    pub fn with_program(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Runs commands in these namespaces.
    pub fn within(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(Arc::new(namespace));
        self
    }

    /// Returns true when commands run in other namespaces than the test.
    pub(crate) fn is_within(&self) -> bool {
        self.namespace.is_some()
    }

    /// Returns the path by which this process reaches a path that commands see.
    pub fn reach(&self, path: &Path) -> PathBuf {
        self.namespace.as_ref().map_or_else(|| path.to_owned(), |namespace| namespace.path(path))
    }

    /// Sets the working directory of runs. Default: `project`.
    pub fn cwd(mut self, path: impl AsRef<Path>) -> Self {
        self.cwd = self.path(path);
        self
    }

    /// Returns the absolute path of a file in the world.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path)
    }

    /// Returns the binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the content of a file, as seen by the host.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        done(fs::read_to_string(&path), "read", &path)
    }

    /// Returns true when the host sees a file at this path, even a dangling link.
    #[track_caller]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        let path = self.path(path);
        match fs::symlink_metadata(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => panic!("cannot inspect `{}`: {error}", path.display()),
        }
    }

    /// Runs the binary with these arguments, without input, and waits for its exit.
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

    /// Runs a command without the sandbox, as the control of a denial.
    #[track_caller]
    pub fn host<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Run {
        Process::start(&self.line(command)).wait()
    }

    /// Runs the binary under strace(1), which kills it, or one of its children, at the `nth` of these system calls.
    #[track_caller]
    pub fn killed_at(&self, calls: &str, nth: usize, args: &[&str]) -> Run {
        self.killed_with(&["-f"], calls, nth, args)
    }

    /// Version of [`World::killed_at`] with flags for strace(1).
    #[track_caller]
    pub fn killed_with(&self, flags: &[&str], calls: &str, nth: usize, args: &[&str]) -> Run {
        let (strace, binary) =
            (need("strace").display().to_string(), self.binary.display().to_string());
        let trace = format!("trace={calls}");
        let inject = format!("inject={calls}:signal=KILL:when={nth}");
        let how = ["-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, &binary];
        self.host([&[strace.as_str()], flags, &how, args].concat())
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

    /// Starts the binary on a new terminal, with job control.
    #[track_caller]
    pub fn terminal<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Terminal {
        Terminal::start(&self.sandbox_line(args))
    }

    /// Starts a command without the sandbox on a new terminal, such as the shell of a user.
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

/// Returns the value. Panics on an error, because the world cannot be created.
#[track_caller]
fn done<T>(result: io::Result<T>, verb: &str, path: &Path) -> T {
    result.unwrap_or_else(|error| panic!("cannot {verb} `{}`: {error}", path.display()))
}

/// Returns the binary that cargo built. Tests are in `deps`, next to the binaries of their package.
fn built_binary() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().and_then(Path::parent).expect("this test lies in `deps`");
    folder.join("agent-sandbox")
}

/// Returns the environment of a login shell with an identity for commits, independent of the developer's shell.
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
