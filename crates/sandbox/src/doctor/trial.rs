//! Trial start of a complete sandbox: takes the steps of a run, with a trivial command.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_linux::process::{self, Change, Child, Program};
use sandbox_linux::root::{Base, Failure, Step, Taken};
use sandbox_linux::{enclosure, fd, seccomp};
use sandbox_protocol::ExitCode;
use sandbox_protocol::layout::{RUNTIME_BINARY, RUNTIME_DIR};

use crate::plan::{AGENT_ID, Proc, cgroup_namespaces};
use crate::render::bwrap::{self, Arguments};
use crate::render::own::{self, Hiding, Root};
use crate::run::first_process::Entry;
use crate::run::{Rendering, concrete, confine, follow};
use sandbox_policy::host::Host;

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    /// The command ran.
    Works,
    /// Preparing the sandbox failed. A run then tries the next rendering.
    NotPrepared(String),
    /// The command did not run. A run then fails.
    Refused(String),
}

/// Exit code of the child when preparing the sandbox failed.
const NOT_PREPARED: i32 = ExitCode::Setup as i32;

/// Starts a sandbox with a rendering, in which this binary prints its version to `/dev/null`.
pub(super) fn run(host: &Host, bwrap: &Path, rendering: Rendering) -> Trial {
    attempt(host, bwrap, rendering)
        .unwrap_or_else(|error| Trial::NotPrepared(format!("start a trial sandbox: {error}")))
}

fn attempt(host: &Host, bwrap: &Path, rendering: Rendering) -> io::Result<Trial> {
    let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    let (mut reader, writer) = io::pipe()?;
    let writer = OwnedFd::from(writer);
    let child = match rendering {
        Rendering::Own(hiding) => start_own(host, hiding, &null, &writer)?,
        Rendering::Bubblewrap => start_bwrap(host, bwrap, &null, &writer)?,
    };
    drop(writer);
    let mut output = String::new();
    // The output is only for the message. The exit code decides.
    let _ = reader.read_to_string(&mut output);
    let output = output.trim().trim_start_matches("bwrap: ").to_owned();
    Ok(match child.wait()? {
        Change::Exited(0) => Trial::Works,
        Change::Exited(NOT_PREPARED) => Trial::NotPrepared(output),
        Change::Killed(signal) => Trial::Refused(format!("killed by signal {signal}")),
        Change::Exited(_) | Change::Stopped(_) => Trial::Refused(output),
    })
}

fn start_own(host: &Host, hiding: Hiding, null: &OwnedFd, writer: &OwnedFd) -> io::Result<Child> {
    let own = root(host, hiding);
    let entry = Entry::of(&own)?;
    let program = Program::new([RUNTIME_BINARY, "--version"].map(OsString::from), &host.env)?;
    enclosure::start(own.enclosure, || {
        exec(null, writer, || {
            entry.build(&own, Path::new("/"))?;
            entry.close(cgroup_namespaces(host))?;
            let error = program.exec_path(RUNTIME_BINARY.as_ref());
            Err(Failure { what: format!("execute {RUNTIME_BINARY}"), error })
        })
    })
}

fn start_bwrap(host: &Host, bwrap: &Path, null: &OwnedFd, writer: &OwnedFd) -> io::Result<Child> {
    let (words, data) = concrete(&arguments(host))?;
    let command = ["--", RUNTIME_BINARY, "--version"].map(OsString::from);
    let argv = [OsString::from("bwrap")].into_iter().chain(words).chain(command);
    let program = Program::new(argv, &host.env)?;
    let bwrap = OwnedFd::from(File::open(bwrap)?);
    let parent = process::pid();
    process::fork(|| {
        exec(null, writer, || {
            follow(parent)?;
            confine(None, data.iter())?;
            Err(Failure { what: "start bwrap".into(), error: program.exec_file(bwrap.as_fd()) })
        })
    })
}

/// Redirects the output of the child to `output`, and calls `body`, which executes a program or fails.
fn exec(
    null: &OwnedFd,
    output: &OwnedFd,
    body: impl FnOnce() -> Result<Infallible, Failure>,
) -> i32 {
    let result = redirect(null, output)
        .map_err(|error| Failure { what: "redirect the output".into(), error })
        .and_then(|()| body());
    let Err(failure) = result;
    // If the message is lost, the exit code still reports the failure.
    let _ = write!(io::stderr(), "{failure}");
    NOT_PREPARED
}

fn redirect(null: &OwnedFd, output: &OwnedFd) -> io::Result<()> {
    fd::replace(0, null)?;
    fd::replace(1, null)?;
    fd::replace(2, output)
}

fn arguments(host: &Host) -> Arguments {
    let proc = Proc::of(host);
    let mut bwrap = bwrap::enclosure(&proc, host.uid == 0);
    bwrap.flags(["--ro-bind", "/", "/", "--dev", "/dev"]);
    bwrap.proc(&proc);
    bwrap.flags(["--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", RUNTIME_DIR]);
    bwrap.pair("--ro-bind", &host.exe, Path::new(RUNTIME_BINARY));
    bwrap.flags(["--remount-ro", "/run", "--seccomp"]);
    bwrap.data("the system call filter", seccomp::program(cgroup_namespaces(host)));
    bwrap
}

/// Returns the root that every plan starts from, with an overlay on the home directory.
fn root(host: &Host, hiding: Hiding) -> Root {
    let dir = |path: &str| Step::Dir { target: path.into(), mode: 0o755 };
    let tmpfs = |path: &str| Step::Tmpfs { target: path.into(), mode: 0o755 };
    let file = |path: &str| Step::File { target: path.into(), mode: 0o644, content: Vec::new() };
    let bind = |from: &Path, to: &str, devices: bool| Step::Bind {
        source: from.to_path_buf(),
        target: to.into(),
        read_only: false,
        devices,
    };
    let proc = Proc::of(host);
    let mut steps = vec![dir("/proc"), own::processes(&proc)];
    steps.extend([dir("/dev"), tmpfs("/dev"), file("/dev/null")]);
    steps.push(bind(Path::new("/dev/null"), "/dev/null", true));
    steps.extend([dir("/dev/pts"), Step::Terminals { target: "/dev/pts".into() }]);
    let home = host.home.as_ref().and_then(|home| home.canonicalize().ok());
    if let Some(home) = home.filter(|home| hiding == Hiding::Overlay && *home != Path::new("/")) {
        steps.push(Step::HidingOverlay { dir: home, hidden: Vec::new() });
    }
    steps.extend([dir("/run"), tmpfs("/run"), dir(RUNTIME_DIR), file(RUNTIME_BINARY)]);
    let exe = host.exe.canonicalize().unwrap_or_else(|_| host.exe.clone());
    steps.push(bind(&exe, RUNTIME_BINARY, false));
    steps.extend(["/run", "/"].map(|target| Step::Seal { target: target.into() }));
    let own = ["proc", "dev", "run"].map(str::to_owned).to_vec();
    Root {
        enclosure: own::enclosure(&proc, false),
        seen_as: (host.uid == 0).then_some(AGENT_ID),
        base: Base { writable: false, taken: Taken::Without(own) },
        steps,
    }
}
