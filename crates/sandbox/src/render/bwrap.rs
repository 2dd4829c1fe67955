//! Rendering of a plan as bubblewrap arguments. Total and pure: nothing is left to decide.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{RUNTIME_BINARY, RUNTIME_DIR, runtime};

use crate::plan::{AGENT_ID, Identity, Mount, Plan, Proc, Store, Through, View};
use crate::wrapper::{Cover, CoverBy, Package};
use sandbox_policy::config::{Network, Tmp};
use sandbox_policy::network::RESOLVER_CONFIGURATION;

/// Argument list in which some words are placeholders for descriptors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The words.
    pub words: Vec<Word>,
    /// Content of the descriptors; [`Word::Data`] is an index into this list.
    pub data: Vec<Data>,
}

/// One word of the argument list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A literal.
    Text(OsString),
    /// The number of the descriptor that holds this data.
    Data(usize),
}

/// Data that bubblewrap reads from a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Description, shown by `--debug`.
    pub name: String,
    /// The bytes.
    pub content: Vec<u8>,
}

/// Returns the arguments for the namespaces of every command, and for its user.
pub(crate) fn enclosure(proc: &Proc, as_agent: bool) -> Arguments {
    let mut bwrap = Arguments::default();
    bwrap.flags(["--unshare-user", "--unshare-ipc", "--unshare-uts"]);
    if *proc != Proc::Outer {
        // The PID namespace must match `/proc`. bubblewrap looks up its child in `/proc` by PID, so a nested
        // bubblewrap would find the wrong process.
        bwrap.flags(["--unshare-pid"]);
    }
    bwrap.flags(["--die-with-parent"]);
    if as_agent {
        // Root outside is an ordinary user inside. Without capabilities, user 0 could not create the namespaces of a
        // nested sandbox: user_namespaces(7), on mapping user 0.
        let id = AGENT_ID.to_string();
        bwrap.flags(["--cap-drop", "ALL", "--uid", &id, "--gid", &id]);
    }
    bwrap
}

/// Renders a whole plan, except the command.
pub fn arguments(plan: &Plan) -> Arguments {
    let mut bwrap = enclosure(&plan.runtime.proc, plan.runtime.identity.is_some());
    if plan.config.network.value != Network::On {
        bwrap.flags(["--unshare-net"]);
    }
    if !plan.runtime.nested {
        // An outer sandbox's seccomp filter refuses a cgroup namespace.
        bwrap.flags(["--unshare-cgroup-try"]);
    }
    bwrap.root(plan);
    bwrap.flags(["--dev", "/dev"]);
    bwrap.proc(&plan.runtime.proc);
    bwrap.flags(["--perms", "0755", "--tmpfs", "/run"]);
    if plan.config.tmp.value == Tmp::Private {
        bwrap.flags(["--perms", "1777", "--tmpfs", "/tmp"]);
    }
    bwrap.mounts(plan);
    bwrap.runtime(plan);
    // bubblewrap creates mount points in these directories, so they are made read-only last.
    for mount in plan.mounts.iter().filter(|mount| mount.view == View::EmptyDir) {
        bwrap.path(["--remount-ro"], &mount.target);
    }
    bwrap.flags(["--remount-ro", "/run"]);
    bwrap.flags(["--seccomp"]);
    bwrap.data("the system call filter", sandbox_linux::seccomp::program(plan.cgroups));
    bwrap.path(["--chdir"], &plan.config.cwd);
    bwrap
}

impl Arguments {
    pub(crate) fn flags<const N: usize>(&mut self, words: [&str; N]) {
        self.words.extend(words.map(|word| Word::Text(word.into())));
    }

    pub(crate) fn path<const N: usize>(&mut self, words: [&str; N], path: &Path) {
        self.flags(words);
        self.words.push(Word::Text(path.into()));
    }

    /// Mounts `/proc`, after the root, which may contain one.
    pub(crate) fn proc(&mut self, proc: &Proc) {
        match proc {
            Proc::New => self.flags(["--proc", "/proc"]),
            Proc::Guarded(names) => {
                self.flags(["--proc", "/proc"]);
                for path in names {
                    self.pair("--ro-bind", path, path);
                }
            }
            Proc::Outer => self.flags(["--bind", "/proc", "/proc"]),
        }
    }

    pub(crate) fn pair(&mut self, flag: &str, source: &Path, target: &Path) {
        self.path([flag], source);
        self.words.push(Word::Text(target.into()));
    }

    pub(crate) fn data(&mut self, name: &str, content: Vec<u8>) {
        self.words.push(Word::Data(self.data.len()));
        self.data.push(Data { name: name.to_owned(), content });
    }

    /// Mounts the host's root, name by name if a mount needs a new top-level directory.
    fn root(&mut self, plan: &Plan) {
        let flag = if plan.root_writable { "--bind" } else { "--ro-bind" };
        if plan.top_level.is_empty() {
            return self.flags([flag, "/", "/"]);
        }
        for (name, link) in &plan.top_level {
            let path = Path::new("/").join(name);
            match link {
                Some(link) => self.pair("--symlink", link, &path),
                None => self.pair(flag, &path, &path),
            }
        }
    }

    fn mounts(&mut self, plan: &Plan) {
        for mount in &plan.mounts {
            if let Some((flag, source)) = copy_on_write(plan, mount) {
                self.pair(flag, &source, &mount.target);
                continue;
            }
            match mount.view {
                View::ReadWrite | View::Pin => self.pair("--bind", &mount.source, &mount.target),
                View::ReadOnly => self.pair("--ro-bind", &mount.source, &mount.target),
                View::Device => self.pair("--dev-bind", &mount.source, &mount.target),
                View::EmptyDir => self.path(["--perms", "0555", "--tmpfs"], &mount.target),
                View::EmptyFile => self.empty_file(&mount.target),
            }
        }
        for socket in &plan.sockets {
            self.empty_file(socket);
        }
    }

    /// Mounts an empty file. `/dev/null` would not do: opening a device fails on a `nodev` mount, mount(2).
    fn empty_file(&mut self, target: &Path) {
        self.flags(["--perms", "0444", "--ro-bind-data"]);
        self.data("an empty file", Vec::new());
        self.words.push(Word::Text(target.into()));
    }

    fn runtime(&mut self, plan: &Plan) {
        let runtime = &plan.runtime;
        let dir = Path::new(RUNTIME_DIR);
        self.path(["--perms", "0700", "--tmpfs"], &runtime.user_dir);
        self.path(["--perms", "0755", "--dir"], dir);
        for name in runtime::DIRS {
            self.path(["--perms", "0755", "--dir"], &dir.join(name));
        }
        if runtime.nested {
            self.pair("--ro-bind", dir, &dir.join(runtime::OUTER));
        }
        self.pair("--ro-bind", &runtime.binary, Path::new(RUNTIME_BINARY));
        for (name, real) in &runtime.commands.bins {
            self.pair("--ro-bind", real, &dir.join(runtime::BIN).join(name));
        }
        for Package { name, dir: package, script } in &runtime.commands.packages {
            self.pair("--ro-bind", package, &dir.join(runtime::REAL).join(name));
            self.pair(
                "--symlink",
                &Path::new("../real").join(name).join(script),
                &dir.join(runtime::BIN).join(name),
            );
        }
        for file in &runtime.commands.files {
            self.flags(["--perms", &format!("{:04o}", file.mode), "--ro-bind-data"]);
            self.data(&file.path().display().to_string(), file.content.clone());
            self.words.push(Word::Text(dir.join(file.path()).into()));
        }
        if !runtime.policy.is_empty() {
            self.flags(["--perms", "0444", "--ro-bind-data"]);
            self.data("the policy for `why`", runtime.policy.clone());
            self.words.push(Word::Text(dir.join(runtime::POLICY).into()));
        }
        for cover in &runtime.commands.covers {
            self.cover(cover, &runtime.binary);
        }
        for (path, content) in runtime.identity.iter().flat_map(Identity::files) {
            self.flags(["--perms", "0444", "--ro-bind-data"]);
            self.data(path, content.to_vec());
            self.flags([path]);
        }
        if let Some(resolver) = &runtime.resolver {
            self.flags(["--perms", "0444", "--ro-bind-data"]);
            self.data("the resolver configuration", RESOLVER_CONFIGURATION.into());
            self.words.push(Word::Text(resolver.target.clone().into()));
        }
        for name in runtime::DIRS {
            self.path(["--chmod", "0111"], &dir.join(name));
        }
        self.path(["--chmod", "0111"], dir);
    }

    fn cover(&mut self, cover: &Cover, binary: &Path) {
        match &cover.how {
            CoverBy::Launcher => self.pair("--ro-bind", binary, &cover.target),
            CoverBy::Shim(shim) => {
                self.flags(["--perms", "0555", "--ro-bind-data"]);
                self.data("a shim", shim.clone().into_bytes());
                self.words.push(Word::Text(cover.target.clone().into()));
            }
        }
    }
}

/// Returns the bubblewrap option and the source for a mount that is copy-on-write. bubblewrap cannot mount our overlay,
/// so the host's files are then read-only.
fn copy_on_write(plan: &Plan, mount: &Mount) -> Option<(&'static str, PathBuf)> {
    let cow = plan.cow.as_ref()?;
    let Through::Store(number, below) = cow.through(mount) else { return None };
    Some(match cow.stores.get(number) {
        Some(Store::Path(path)) => ("--bind", joined(path, below)),
        Some(Store::Overlay(_)) | None => ("--ro-bind", mount.source.clone()),
    })
}

/// Joins two paths. `Path::join` with an empty path would add a trailing slash, which is invalid for a file.
pub(super) fn joined(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { path.to_path_buf() } else { path.join(below) }
}
