//! The tasks, in the order in which a tree sees them, and what the AgentFS engine should reach.

use std::ffi::OsString;

use super::ground::Ground;

pub(crate) struct Task {
    pub(crate) name: &'static str,
    /// At most so many times as long as in a plain directory; for the AgentFS engine.
    pub(crate) target: Option<f64>,
    /// The kernel forgets before what it knew of the tree.
    pub(crate) forgotten: bool,
    /// And the tree is mounted again.
    pub(crate) cold: bool,
    pub(crate) compiles: bool,
    pub(crate) words: fn(&Ground) -> Vec<OsString>,
}

impl Task {
    const fn forgotten(mut self) -> Self {
        self.forgotten = true;
        self
    }

    const fn cold(mut self) -> Self {
        self.cold = true;
        self.forgotten()
    }

    const fn compiles(mut self) -> Self {
        self.compiles = true;
        self
    }
}

const fn task(
    name: &'static str,
    target: Option<f64>,
    words: fn(&Ground) -> Vec<OsString>,
) -> Task {
    Task { name, target, forgotten: false, cold: false, compiles: false, words }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

pub(crate) const TASKS: [Task; 16] = [
    task("extract an archive", Some(3.0), |_| {
        words(["sh", "-c", "mkdir out && tar xf files.tar -C out"])
    }),
    task("create small files", Some(3.0), |ground| ground.own("create", ground.size.small)),
    // Bare FUSE holds a descriptor for each file that the kernel knows, and cannot hold all of them.
    task("git clone", Some(2.0), |_| {
        words(["git", "clone", "-q", "--no-hardlinks", "repo", "clone"])
    })
    .forgotten(),
    task("git status, cold", Some(2.0), |_| words(["git", "-C", "repo", "status", "--short"]))
        .cold(),
    task("git status, warm", Some(2.0), |_| words(["git", "-C", "repo", "status", "--short"])),
    task("ripgrep", Some(2.0), |_| words(["rg", "--count", "needle13$", "repo"])),
    task("stat storm", Some(1.5), |ground| ground.own("stat", 10)),
    task("sequential write", Some(2.0), |ground| ground.own("write", ground.size.large)),
    // Before anybody has read it: what a database holds may have to be taken out first.
    task("first write of 4 KiB, cold", None, |ground| ground.own("random-write", 1)).cold(),
    task("sequential read, cold", None, |ground| ground.own("read", 0)).cold(),
    task("sequential read, warm", Some(1.2), |ground| ground.own("read", 0)),
    task("random reads of 4 KiB", None, |ground| ground.own("random-read", ground.size.random)),
    task("random writes of 4 KiB", Some(2.0), |ground| {
        ground.own("random-write", ground.size.random)
    }),
    task("synced writes of 4 KiB", None, |ground| ground.own("synced", ground.size.synced)),
    task("cargo build", None, |_| {
        words(["cargo", "build", "--quiet", "--manifest-path", "crate/Cargo.toml"])
    })
    .compiles(),
    task("rm -rf of what was made", Some(2.0), |_| words(["rm", "-rf", "out", "small", "clone"])),
];
