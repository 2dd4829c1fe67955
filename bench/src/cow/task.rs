//! Tasks, in the order in which they run in a tree, with targets of the AgentFS engine.

use std::ffi::OsString;

use super::fixture::Fixture;

pub(crate) struct Task {
    pub(crate) name: &'static str,
    /// Highest allowed ratio of the AgentFS engine to a plain directory.
    pub(crate) target: Option<f64>,
    /// Drop the kernel's caches first.
    pub(crate) drop_caches: bool,
    /// Remount the tree first.
    pub(crate) cold: bool,
    pub(crate) compiles: bool,
    pub(crate) words: fn(&Fixture) -> Vec<OsString>,
}

impl Task {
    const fn drop_caches(mut self) -> Self {
        self.drop_caches = true;
        self
    }

    const fn cold(mut self) -> Self {
        self.cold = true;
        self.drop_caches()
    }

    const fn compiles(mut self) -> Self {
        self.compiles = true;
        self
    }
}

const fn task(
    name: &'static str,
    target: Option<f64>,
    words: fn(&Fixture) -> Vec<OsString>,
) -> Task {
    Task { name, target, drop_caches: false, cold: false, compiles: false, words }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

pub(crate) const TASKS: [Task; 16] = [
    task("extract an archive", Some(3.0), |_| {
        words(["sh", "-c", "mkdir out && tar xf files.tar -C out"])
    }),
    task("create small files", Some(3.0), |fixture| fixture.own("create", fixture.size.small)),
    // `passthrough_ll` holds a descriptor for each inode in the kernel's cache and would run out of them.
    task("git clone", Some(2.0), |_| {
        words(["git", "clone", "-q", "--no-hardlinks", "repo", "clone"])
    })
    .drop_caches(),
    task("git status, cold", Some(2.0), |_| words(["git", "-C", "repo", "status", "--short"]))
        .cold(),
    task("git status, warm", Some(2.0), |_| words(["git", "-C", "repo", "status", "--short"])),
    task("ripgrep", Some(2.0), |_| words(["rg", "--count", "needle13$", "repo"])),
    task("stat storm", Some(1.5), |fixture| fixture.own("stat", 10)),
    task("sequential write", Some(2.0), |fixture| fixture.own("write", fixture.size.large)),
    // Runs before the first read, because the content may have to be copied out of a database first.
    task("first write of 4 KiB, cold", None, |fixture| fixture.own("random-write", 1)).cold(),
    task("sequential read, cold", None, |fixture| fixture.own("read", 0)).cold(),
    task("sequential read, warm", Some(1.2), |fixture| fixture.own("read", 0)),
    task("random reads of 4 KiB", None, |fixture| fixture.own("random-read", fixture.size.random)),
    task("random writes of 4 KiB", Some(2.0), |fixture| {
        fixture.own("random-write", fixture.size.random)
    }),
    task("synced writes of 4 KiB", None, |fixture| fixture.own("synced", fixture.size.synced)),
    task("cargo build", None, |_| {
        words(["cargo", "build", "--quiet", "--manifest-path", "crate/Cargo.toml"])
    })
    .compiles(),
    task("rm -rf of the new files", Some(2.0), |_| words(["rm", "-rf", "out", "small", "clone"])),
];
