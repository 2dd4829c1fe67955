//! A whole sandbox, really started: the same chain as a run, around the shortest command there is.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_linux::process::{self, Change, Program};
use sandbox_linux::root::{Base, Failure, Step, Taken};
use sandbox_linux::{fd, seccomp};

use crate::backend::bwrap::{Arguments, enclosure};
use crate::backend::own::{Root, Veiling};
use crate::exec::{Rendering, concrete, confine, prepare};
use crate::host::{Host, RUNTIME_BINARY, RUNTIME_DIR};
use crate::plan::{Proc, cgroup_namespaces};

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    /// The command ran.
    Works,
    /// Our own part failed: a run tries the next rendering.
    NotPrepared(String),
    /// bubblewrap failed: a run ends here.
    Refused(String),
}

/// The child's exit code when bubblewrap was not reached.
const NOT_PREPARED: i32 = 125;

/// Starts a sandbox by these means, in which this binary prints its version to nobody.
pub(super) fn run(host: &Host, bwrap: &Path, rendering: Rendering) -> Trial {
    attempt(host, bwrap, rendering)
        .unwrap_or_else(|error| Trial::NotPrepared(format!("start a trial: {error}")))
}

fn attempt(host: &Host, bwrap: &Path, rendering: Rendering) -> io::Result<Trial> {
    let own = match rendering {
        Rendering::Own(veiling) => Some(root(host, veiling)),
        Rendering::Plain => None,
    };
    let (words, data) = concrete(&arguments(host, own.is_some()))?;
    let command = ["--", RUNTIME_BINARY, "--version"].map(OsString::from);
    let argv = [OsString::from("bwrap")].into_iter().chain(words).chain(command);
    let program = Program::new(argv, &host.env)?;
    let filter = own.is_some().then(|| cgroup_namespaces(host));
    let bwrap = OwnedFd::from(File::open(bwrap)?);
    let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    let (mut reader, writer) = io::pipe()?;
    let (parent, mut writer) = (process::pid(), OwnedFd::from(writer));
    // The child's end of the pipe moves into the closure, so that ours is closed after the fork.
    let child = process::fork(move || {
        let prepared = speak_to(&null, &writer)
            .map_err(|error| Failure { what: "redirect the output".into(), error })
            .and_then(|()| prepare(own.as_ref(), parent))
            .and_then(|()| confine(filter, data.iter()));
        let failure = match prepared {
            Ok(()) => {
                Failure { what: "start bwrap".into(), error: program.exec_file(bwrap.as_fd()) }
            }
            Err(failure) => failure,
        };
        // If nobody hears it, the exit code still tells.
        let _ = write!(File::from(std::mem::replace(&mut writer, null)), "{failure}");
        NOT_PREPARED
    })?;
    let mut words = String::new();
    // What a program prints is for people; whether it works is told by its exit code.
    let _ = reader.read_to_string(&mut words);
    let words = words.trim().trim_start_matches("bwrap: ").to_owned();
    Ok(match child.wait()? {
        Change::Exited(0) => Trial::Works,
        Change::Exited(NOT_PREPARED) => Trial::NotPrepared(words),
        Change::Killed(signal) => Trial::Refused(format!("killed by signal {signal}")),
        Change::Exited(_) | Change::Stopped => Trial::Refused(words),
    })
}

fn speak_to(null: &OwnedFd, listener: &OwnedFd) -> io::Result<()> {
    fd::replace(0, null)?;
    fd::replace(1, null)?;
    fd::replace(2, listener)
}

fn arguments(host: &Host, own: bool) -> Arguments {
    let proc = Proc::of(host);
    let mut bwrap = enclosure(&proc, host.uid == 0);
    if own {
        bwrap.flags(["--dev-bind", "/", "/"]);
        bwrap.proc(&proc);
        return bwrap;
    }
    bwrap.flags(["--ro-bind", "/", "/", "--dev", "/dev"]);
    bwrap.proc(&proc);
    bwrap.flags(["--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", RUNTIME_DIR]);
    bwrap.pair("--ro-bind", &host.exe, Path::new(RUNTIME_BINARY));
    bwrap.flags(["--remount-ro", "/run", "--seccomp"]);
    bwrap.data("the system call filter", seccomp::program(cgroup_namespaces(host)));
    bwrap
}

/// The root that every plan starts from, with an overlay on the home directory.
fn root(host: &Host, veiling: Veiling) -> Root {
    let dir = |path: &str| Step::Dir { target: path.into(), mode: 0o755 };
    let tmpfs = |path: &str| Step::Tmpfs { target: path.into(), mode: 0o755, size: None };
    let file = |path: &str| Step::File { target: path.into(), mode: 0o644, content: Vec::new() };
    let bind = |from: &Path, to: &str, devices: bool| Step::Bind {
        source: from.to_path_buf(),
        target: to.into(),
        read_only: false,
        devices,
    };
    let mut steps = vec![dir("/proc"), bind(Path::new("/proc"), "/proc", false)];
    steps.extend([dir("/dev"), tmpfs("/dev"), file("/dev/null")]);
    steps.push(bind(Path::new("/dev/null"), "/dev/null", true));
    steps.extend([dir("/dev/pts"), Step::Terminals { target: "/dev/pts".into() }]);
    let home = host.home.as_ref().and_then(|home| home.canonicalize().ok());
    if let Some(home) = home.filter(|home| veiling == Veiling::Overlay && *home != Path::new("/")) {
        steps.push(Step::Veil { dir: home, hidden: Vec::new() });
    }
    steps.extend([dir("/run"), tmpfs("/run"), dir(RUNTIME_DIR), file(RUNTIME_BINARY)]);
    let exe = host.exe.canonicalize().unwrap_or_else(|_| host.exe.clone());
    steps.push(bind(&exe, RUNTIME_BINARY, false));
    steps.extend(["/run", "/"].map(|target| Step::Seal { target: target.into() }));
    let own = ["proc", "dev", "run"].map(str::to_owned).to_vec();
    Root { base: Base { writable: false, taken: Taken::Without(own) }, steps }
}
