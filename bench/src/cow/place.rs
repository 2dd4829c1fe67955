//! Where tasks run: a plain directory, our engines, their peers.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use sandbox_policy::Host;
use testkit::{Engine, Layered, User, user};

use super::ground::Ground;
use crate::BenchError;

/// One column of the table.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// The name of its directories.
    pub(crate) short: &'static str,
    pub(crate) engine: Engine,
    /// Another user than the one who measures, who does not reach that one's compiler.
    pub(crate) user: Option<u32>,
}

/// The user `nobody`, who owns nothing and may do nothing.
const NOBODY: u32 = 65_534;

/// Those that work here; of the others it says why not.
pub(crate) fn available(ground: &Ground) -> Vec<Place> {
    let place = |name, short, engine, user| Place { name, short, engine, user };
    let mut places = vec![place("native", "native", Engine::Native, None)];
    if user() == User::Root {
        places.push(place("bare overlay", "bare", Engine::BareOverlay, None));
        places.push(place("overlay, root", "root", Engine::Overlay, None));
        places.push(place("overlay, user", "user", Engine::Overlay, Some(NOBODY)));
    } else {
        places.push(place("overlay, user", "user", Engine::Overlay, None));
    }
    if ground.world.run(["fs", "--help"]).status().success() {
        places.push(place("agentfs engine", "agentfs", Engine::AgentFs, None));
    } else {
        println!("left out: agentfs engine (this binary has no `fs`)");
    }
    for (name, short, engine, program) in [
        ("bare FUSE", "bare-fuse", Engine::BareFuse, "passthrough_ll"),
        ("fuse-overlayfs", "fuse", Engine::FuseOverlayfs, "fuse-overlayfs"),
        ("Turso's agentfs", "turso", Engine::Turso, "agentfs"),
    ] {
        if Host::read().search_path().iter().any(|dir| dir.join(program).is_file()) {
            places.push(place(name, short, engine, None));
        } else {
            println!("left out: {name} (`{program}` is not installed)");
        }
    }
    places
}

impl Place {
    /// A fresh tree. A user has a base of his own.
    pub(crate) fn tree(&self, ground: &Ground, name: &str) -> Layered {
        let world = ground.world.clone();
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

    /// How long a command takes there.
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

/// Makes the kernel forget the directories and inodes that it knows. Only root can.
pub(crate) fn drop_caches() {
    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
}

/// The most memory that the daemon of a tree ever had, in MB.
pub(crate) fn peak(tree: &Layered) -> Option<f64> {
    let pid = tree.daemon()?.pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
