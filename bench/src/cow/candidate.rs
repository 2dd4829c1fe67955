//! Candidates: a plain directory, our engines, and other filesystems.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use sandbox_policy::Host;
use testkit::{Engine, Layered, User, user};

use super::fixture::Fixture;
use crate::BenchError;

/// Column of the table.
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    /// Prefix of its directory names.
    pub(crate) short: &'static str,
    pub(crate) engine: Engine,
    /// Uid that runs the tasks, if it is not the current user. It cannot access the compiler.
    pub(crate) user: Option<u32>,
}

/// Overflow uid, a user without files and rights.
const OVERFLOW_UID: u32 = 65_534;

/// Returns the candidates that work here, and prints the reason for others.
pub(crate) fn available(fixture: &Fixture) -> Vec<Candidate> {
    let candidate = |name, short, engine, user| Candidate { name, short, engine, user };
    let mut candidates = vec![candidate("native", "native", Engine::Native, None)];
    if user() == User::Root {
        candidates.push(candidate("bare overlay", "bare", Engine::BareOverlay, None));
        candidates.push(candidate("overlay, root", "root", Engine::Overlay, None));
        candidates.push(candidate("overlay, user", "user", Engine::Overlay, Some(OVERFLOW_UID)));
    } else {
        candidates.push(candidate("overlay, user", "user", Engine::Overlay, None));
    }
    if fixture.world.run(["fs", "--help"]).status().success() {
        candidates.push(candidate("agentfs engine", "agentfs", Engine::AgentFs, None));
    } else {
        println!("skipped: agentfs engine (this binary has no `fs`)");
    }
    for (name, short, engine, program) in [
        ("bare FUSE", "bare-fuse", Engine::BareFuse, "passthrough_ll"),
        ("fuse-overlayfs", "fuse", Engine::FuseOverlayfs, "fuse-overlayfs"),
        ("Turso's agentfs", "turso", Engine::Turso, "agentfs"),
    ] {
        if Host::read().search_path().iter().any(|dir| dir.join(program).is_file()) {
            candidates.push(candidate(name, short, engine, None));
        } else {
            println!("skipped: {name} (`{program}` is not installed)");
        }
    }
    candidates
}

impl Candidate {
    /// Creates a tree. Each user has a separate base.
    pub(crate) fn tree(&self, fixture: &Fixture, name: &str) -> Layered {
        let world = fixture.world.clone();
        let Some(uid) = self.user else {
            let base = world.path("base");
            return Layered::new(&world.symlink(format!("{name}/base"), base), name, self.engine);
        };
        let own = format!(
            "[ -d base-{uid} ] || {{ cp -a base base-{uid}; chown -R {uid}:{uid} base-{uid}; }}
             mkdir -p {name}/upper {name}/work {name}/mnt; ln -s ../base-{uid} {name}/base; chown -hR {uid}:{uid} {name}"
        );
        world.clone().cwd("").host(["sh", "-euc", &own]).succeeds();
        Layered::new(&world.as_user(uid), name, self.engine)
    }

    /// Returns the run time of a command in a tree.
    pub(crate) fn time(&self, tree: &Layered, words: &[OsString]) -> Result<Duration, BenchError> {
        let before = Instant::now();
        let run = tree.start(words).wait_up_to(Duration::from_secs(600));
        let time = before.elapsed();
        if run.status().success() {
            return Ok(time);
        }
        Err(BenchError::Fails(format!("{} ({words:?})", self.name), run.messages()))
    }
}

/// Drops the kernel's dentry and inode caches (`proc_sys_vm(5)`). Only works as root.
pub(crate) fn drop_caches() {
    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
}

/// Returns the peak resident memory of a tree's daemon in MB.
pub(crate) fn peak(tree: &Layered) -> Option<f64> {
    let pid = tree.daemon()?.pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
