//! `fs` and `agentfs`: filesystems in a file, with real mounts.

mod files;
#[cfg(feature = "setup")]
mod mount;
#[cfg(feature = "setup")]
mod daemon;
mod transfer;
#[cfg(feature = "setup")]
mod damage;
mod agentfs;
mod overlay;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use testkit::{Run, World, need};

/// A world with a base of a few files, and a filesystem `one` over it.
fn world() -> World {
    let world = World::new()
        .file("base/read.me", "from the base\n")
        .file("base/src/deep/main.rs", "fn main() {}\n")
        .file("base/gone", "soon\n")
        .symlink("base/link", "read.me")
        .dir("mnt");
    world.run(["fs", "init", "--base", "../base", "one"]).succeeds();
    world
}

/// Mount that is removed at the end of the test.
struct Mount {
    world: World,
    at: PathBuf,
}

impl Mount {
    /// Mounts `one` at `mnt`.
    #[track_caller]
    fn new(world: &World, flags: &[&str]) -> Self {
        need("fusermount3");
        let mount = Self::guard(world);
        world.run(["fs", "mount"].iter().chain(flags).chain(&["one", "../mnt"])).succeeds();
        mount
    }

    /// Returns a guard that only unmounts.
    fn guard(world: &World) -> Self {
        Self { world: world.clone(), at: world.path("mnt") }
    }

    /// Runs a script in the mount.
    #[track_caller]
    fn sh(&self, script: &str) -> Run {
        self.world.clone().cwd("mnt").host(["sh", "-c", script])
    }

    #[track_caller]
    fn end(self) {
        self.world.run(["fs", "unmount", "one"]).succeeds();
    }

    /// Returns true when no process serves the mount.
    fn is_dead(&self) -> bool {
        self.world.host(["stat", "-f", "../mnt"]).status().code() != Some(0)
    }

    fn is_there(&self) -> bool {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a list of mounts");
        table.contains(&format!(" {} ", self.at.display()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.is_there() {
            return;
        }
        for words in [vec!["umount", "-l"], vec!["fusermount3", "-u", "-z"]] {
            let _ = Command::new(words[0])
                .args(&words[1..])
                .arg(&self.at)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Runs SQL on the database of `one`, as another program would.
#[track_caller]
fn sql(world: &World, statement: &str) -> Run {
    need("sqlite3");
    world.host(["sqlite3", ".agentfs/one.db", statement]).succeeds()
}
