//! Directory trees over a base directory, served by one of several filesystems.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::caller::need;
use crate::process::Process;
use crate::run::Run;
use crate::world::World;
use crate::world::namespace::Namespace;

/// Filesystem that serves a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Copy of the base in a plain directory. The control for all others.
    Native,
    /// Plain directory, seen from the namespaces of a sandbox.
    NativeInside,
    /// overlayfs, mounted in the namespaces of a sandbox.
    Overlay,
    /// `agent-sandbox fs mount`.
    AgentFs,
    /// overlayfs, mounted by root without a sandbox. A peer.
    BareOverlay,
    /// `fuse-overlayfs`. A peer.
    FuseOverlayfs,
    /// libfuse's example `passthrough_ll` over a copy of the base, to measure the cost of FUSE.
    BareFuse,
    /// The `agentfs` tool. A peer.
    Turso,
}

/// Mounted tree. It is in one directory of a [`World`]: `base`, which must not change, the mount point `mnt`, and the data
/// of the filesystem.
#[derive(Debug)]
pub struct Layered {
    world: World,
    dir: PathBuf,
    engine: Engine,
    serving: Serving,
}

#[derive(Debug)]
enum Serving {
    Unserved,
    Inside(Namespace),
    Daemon(Process),
}

impl Layered {
    /// Mounts a tree over `DIR/base`, which the test may have filled.
    #[track_caller]
    pub fn new(world: &World, dir: impl AsRef<Path>, engine: Engine) -> Self {
        let mut tree = Self::unmounted(world, dir, engine);
        tree.mount();
        tree
    }

    /// Creates everything that a mount needs.
    #[track_caller]
    pub fn unmounted(world: &World, dir: impl AsRef<Path>, engine: Engine) -> Self {
        let dir = world.path(dir);
        for part in ["base", "mnt", "upper", "work"] {
            make(&world.reach(&dir.join(part)));
        }
        let tree = Self { world: world.clone(), dir, engine, serving: Serving::Unserved };
        match engine {
            Engine::Native | Engine::NativeInside => tree.copy_base("mnt"),
            Engine::BareFuse => tree.copy_base("upper"),
            Engine::AgentFs => drop(tree.fs(["init", "--base", "base", "tree"]).succeeds()),
            Engine::Turso => {
                let init = ["agentfs", "init", "--base", "base", "tree"];
                tree.world.clone().cwd(&tree.dir).host(init).succeeds();
            }
            Engine::Overlay | Engine::BareOverlay | Engine::FuseOverlayfs => tree.prepare_upper(),
        }
        tree
    }

    /// Mounts a tree that already exists in a directory.
    #[track_caller]
    pub fn found(world: &World, dir: impl AsRef<Path>, engine: Engine) -> Self {
        let dir = world.path(dir);
        let mut tree = Self { world: world.clone(), dir, engine, serving: Serving::Unserved };
        tree.mount();
        tree
    }

    /// Returns the tree's path for this process.
    pub fn path(&self) -> PathBuf {
        let mnt = self.dir.join("mnt");
        match &self.serving {
            Serving::Inside(namespace) => namespace.path(&mnt),
            Serving::Unserved | Serving::Daemon(_) => self.world.reach(&mnt),
        }
    }

    /// Returns the tree's path for commands that [`Layered::run`] starts.
    pub fn seen(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Returns the base directory.
    pub fn base(&self) -> PathBuf {
        self.dir.join("base")
    }

    /// Returns the directory that contains everything of this tree.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the filesystem.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Returns the database of [`Engine::AgentFs`].
    pub fn database(&self) -> PathBuf {
        self.dir.join(".agentfs/tree.db")
    }

    /// Returns the process that serves the tree, if any.
    pub fn daemon(&self) -> Option<&Process> {
        match &self.serving {
            Serving::Daemon(process) => Some(process),
            Serving::Unserved | Serving::Inside(_) => None,
        }
    }

    /// Runs a command in the tree.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Run {
        self.start(command).wait()
    }

    /// Starts a command in the tree.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Process {
        let mut words: Vec<OsString> = match &self.serving {
            Serving::Inside(namespace) => namespace.words(),
            Serving::Unserved | Serving::Daemon(_) => Vec::new(),
        };
        let cd = ["sh", "-c", "cd \"$0\" && exec \"$@\""].map(OsString::from);
        words.extend(cd.into_iter().chain([self.seen().into_os_string()]));
        words.extend(command.into_iter().map(|word| word.as_ref().to_owned()));
        self.world.start(words)
    }

    /// Runs `agent-sandbox fs` in the directory of the tree.
    #[track_caller]
    pub fn fs<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let words = [OsString::from("fs")].into_iter();
        let words = words.chain(args.into_iter().map(|word| word.as_ref().to_owned()));
        self.world.clone().cwd(&self.dir).run(words)
    }

    /// Unmounts the tree and waits for its daemon.
    #[track_caller]
    pub fn unmount(&mut self) {
        if let Serving::Daemon(process) = std::mem::replace(&mut self.serving, Serving::Unserved) {
            // Programs that inspect new mounts may keep this one busy for a moment.
            let mut tries = 0;
            while !self.detach(&[]).status().success() && tries < 50 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                tries += 1;
            }
            process.wait().succeeds();
        }
    }

    /// Unmounts the tree. Does not need the setuid helper when this process has root's capabilities.
    fn detach(&self, flags: &[&str]) -> Run {
        let helper = if self.world.is_within() {
            [need("busybox").into_os_string(), "umount".into()]
        } else {
            [need("fusermount3").into_os_string(), "-u".into()]
        };
        let flags = flags.iter().map(OsString::from);
        self.world.host(helper.into_iter().chain(flags).chain([self.seen().into_os_string()]))
    }

    /// Mounts the tree after it was unmounted or its daemon died.
    #[track_caller]
    pub fn mount(&mut self) {
        self.serving = match self.engine {
            Engine::Native => Serving::Unserved,
            Engine::NativeInside => Serving::Inside(Namespace::new(&self.world, "")),
            // Nested namespaces cannot be set up here, and only the mount matters.
            Engine::Overlay if self.world.is_within() => {
                Serving::Inside(Namespace::of_root(&self.world, &self.overlay(",userxattr")))
            }
            Engine::Overlay => {
                Serving::Inside(Namespace::new(&self.world, &self.overlay(",userxattr")))
            }
            Engine::BareOverlay => {
                Serving::Inside(Namespace::of_root(&self.world, &self.overlay("")))
            }
            Engine::Turso => self
                .daemon_of(["agentfs", "mount", "-f", "tree", "mnt"].map(OsString::from).to_vec()),
            Engine::AgentFs => self.daemon_of(self.agentfs()),
            Engine::FuseOverlayfs => self.daemon_of(self.fuse_overlayfs()),
            Engine::BareFuse => self.daemon_of(Self::bare_fuse()),
        };
    }

    /// Unmounts and mounts the tree, which clears the caches of the mount.
    #[track_caller]
    pub fn remount(&mut self) {
        self.unmount();
        self.mount();
    }

    /// Kills the daemon and removes the dead mount.
    #[track_caller]
    pub fn kill(&mut self) {
        if let Serving::Daemon(process) = std::mem::replace(&mut self.serving, Serving::Unserved) {
            drop(process);
            self.detach(&[if self.world.is_within() { "-l" } else { "-z" }]);
        }
    }

    #[track_caller]
    fn copy_base(&self, to: &str) {
        let (from, to) = (self.base().join("."), self.dir.join(to));
        let copy = [OsStr::new("cp"), "-a".as_ref(), from.as_os_str(), to.as_os_str()];
        self.world.host(copy).succeeds();
    }

    /// Copies mode, owner and times of the base, because the root of an overlay takes them from the upper directory.
    #[track_caller]
    fn prepare_upper(&self) {
        let (base, upper) = (self.base(), self.dir.join("upper"));
        for tool in ["chmod", "chown", "touch"] {
            self.world
                .host([
                    OsStr::new(tool),
                    "--reference".as_ref(),
                    base.as_os_str(),
                    upper.as_os_str(),
                ])
                .succeeds();
        }
    }

    fn overlay(&self, more: &str) -> String {
        let dir = self.dir.display();
        format!(
            "mount -t overlay overlay -o lowerdir={dir}/base,upperdir={dir}/upper,workdir={dir}/work{more} {dir}/mnt"
        )
    }

    fn agentfs(&self) -> Vec<OsString> {
        let mut words = vec![self.world.binary().as_os_str().to_owned()];
        words.extend(["fs", "mount", "-f"].map(OsString::from));
        if rustix::process::getuid().is_root() {
            words.push("--system".into());
        }
        words.extend([OsString::from("tree"), self.seen().into_os_string()]);
        words
    }

    fn fuse_overlayfs(&self) -> Vec<OsString> {
        let dir = self.dir.display();
        let options = format!("lowerdir={dir}/base,upperdir={dir}/upper,workdir={dir}/work");
        let mut words = vec![need("fuse-overlayfs").into_os_string()];
        words.extend(["-f", "-o", &options].map(OsString::from));
        words.push(self.seen().into_os_string());
        words
    }

    fn bare_fuse() -> Vec<OsString> {
        // `passthrough_ll` keeps a descriptor open for every inode that the kernel has cached.
        let script =
            "ulimit -n $(ulimit -H -n); exec passthrough_ll -f -o source=upper,cache=always mnt";
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    /// Starts a daemon and waits until the mount point is on another filesystem.
    #[track_caller]
    fn daemon_of(&self, words: Vec<OsString>) -> Serving {
        let before = device(&self.world.reach(&self.dir));
        let mut process = self.world.clone().cwd(&self.dir).start(words);
        while device(&self.world.reach(&self.seen())) == before {
            assert!(process.is_running(), "no mount\n{}", process.wait());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Serving::Daemon(process)
    }
}

impl Drop for Layered {
    fn drop(&mut self) {
        if matches!(self.serving, Serving::Daemon(_)) {
            drop(self.detach(&[if self.world.is_within() { "-l" } else { "-z" }]));
        }
    }
}

fn make(dir: &Path) {
    fs::create_dir_all(dir)
        .unwrap_or_else(|error| panic!("cannot create `{}`: {error}", dir.display()));
}

/// Returns the device of a directory, or `None` while a mount is changing.
fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|metadata| metadata.dev())
}
