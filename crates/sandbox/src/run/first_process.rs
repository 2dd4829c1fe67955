//! First process of a native sandbox: sets up the root in the new namespaces and starts the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_linux::enclosure::{self, Ids};
use sandbox_linux::namespace::Inside;
use sandbox_linux::process::{self, Child, ProcessHandle};
use sandbox_linux::root::{self, Failure};
use sandbox_linux::seccomp::CgroupNamespaces;
use sandbox_linux::{channel, clock, fd, signal};
use sandbox_protocol::ExitCode;
use sandbox_protocol::report;

use super::command::become_command;
use super::{confine, egress, report_failure};
use crate::plan::Plan;
use crate::render::own::Root;

/// Starts the first process of the sandbox that a plan describes.
pub(super) fn start(plan: &Plan, own: &Root, sender: &OwnedFd) -> io::Result<Child> {
    let entry = Entry::of(own)?;
    let mut environment = plan.environment.set.clone();
    environment.insert("PWD".into(), plan.config.cwd.clone().into());
    let environment: Vec<_> = environment.into_iter().collect();
    let recorded = clock::monotonic();
    enclosure::start(own.enclosure, || {
        let first = First { plan, own, sender, environment: &environment, recorded };
        first.run(&entry).unwrap_or_else(|failure| {
            report_failure(sender, &failure);
            ExitCode::Setup.into()
        })
    })
}

/// Values that the child cannot determine itself, taken in the parent.
pub(crate) struct Entry {
    ids: Ids,
    parent: ProcessHandle,
}

impl Entry {
    pub(crate) fn of(own: &Root) -> io::Result<Self> {
        let parent = ProcessHandle::open(process::pid())?;
        Ok(Self { ids: Ids::own(own.seen_as), parent })
    }

    /// Builds the command's root and enters its working directory.
    pub(crate) fn build(&self, own: &Root, cwd: &Path) -> Result<(), Failure> {
        self.ids.map().map_err(failed("map the user in a namespace"))?;
        root::read_only_stdin().map_err(failed("reopen standard input"))?;
        root::build(&own.base, &own.steps)?;
        if own.enclosure.network {
            enclosure::raise_loopback().map_err(failed("bring up the loopback device"))?;
        }
        std::env::set_current_dir(cwd)
            .map_err(|error| Failure { what: format!("enter {}", cwd.display()), error })
    }

    /// Drops the privileges that [`Entry::build`] needed.
    pub(crate) fn close(&self, cgroups: CgroupNamespaces) -> Result<(), Failure> {
        enclosure::drop_capabilities().map_err(failed("drop capabilities"))?;
        confine(Some(cgroups), std::iter::empty())?;
        enclosure::die_with(&self.parent).map_err(failed("follow the parent process"))
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { what: what.to_owned(), error }
}

/// First process inside, with its inputs.
struct First<'p> {
    plan: &'p Plan,
    own: &'p Root,
    sender: &'p OwnedFd,
    environment: &'p [(OsString, OsString)],
    /// Monotonic time after the record of the run was complete.
    recorded: u64,
}

impl First<'_> {
    /// Starts the command, waits for it and returns its exit code.
    fn run(&self, entry: &Entry) -> Result<i32, Failure> {
        entry.build(self.own, &self.plan.config.cwd)?;
        if self.plan.egress.is_some() {
            enclosure::die_with(&entry.parent).map_err(failed("follow the parent process"))?;
            egress::send(self.sender.as_fd()).map_err(failed("open the proxy's sockets"))?;
        }
        let watched = !self.plan.watched.is_empty();
        let inside =
            watched.then(Inside::own).transpose().map_err(failed("open the namespaces"))?;
        entry.close(self.plan.cgroups)?;
        // Before the command starts: this memory is a copy of the caller's, and the command could read it.
        enclosure::hide_memory().map_err(failed("hide the memory of the process"))?;
        let first = process::pid();
        let command = process::fork(|| self.command(inside.as_ref(), first))
            .map_err(failed("start a process"))?;
        drop(inside);
        let sender = self.sender.try_clone().and_then(fd::keep_only);
        let sender = sender.map_err(failed("close unneeded descriptors"))?;
        Ok(enclosure::attend(&command, |signal| {
            // If this fails, the caller does not stop with the command. SIGCONT still resumes the command.
            let _ = channel::send(
                sender.as_fd(),
                &[report::STOPPED, u8::try_from(signal).unwrap_or(0)],
            );
        }))
    }

    /// Becomes the command. Returns only on failure, with the exit code.
    fn command(&self, inside: Option<&[OwnedFd; 3]>, first: i32) -> i32 {
        // In a separate PID namespace, the kernel kills every process when PID 1 ends: pid_namespaces(7).
        let follow = if self.own.enclosure.pids { Ok(()) } else { process::die_with_parent(first) };
        let started = follow.and_then(|()| match inside {
            Some(inside) => channel::send_with(
                self.sender.as_fd(),
                &[report::STARTED],
                &inside.each_ref().map(AsFd::as_fd),
            ),
            None => channel::send(self.sender.as_fd(), &[report::STARTED]),
        });
        let (code, why) =
            match started.and_then(|()| signal::unblock()).and_then(|()| signal::restore_pipe()) {
                Ok(()) => {
                    // Any later change has a later timestamp than files that changed before the run.
                    clock::wait_for_timestamps(self.recorded);
                    become_command(&self.plan.command, self.environment)
                }
                Err(error) => (ExitCode::Setup, format!("cannot start the command: {error}")),
            };
        // If this fails, the exit code still shows the failure.
        let _ = channel::send(self.sender.as_fd(), &report::message(report::FAILED, &why));
        code.into()
    }
}
