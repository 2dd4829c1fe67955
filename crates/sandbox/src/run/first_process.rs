//! First process of a sandbox that we make: from the new namespaces to the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_linux::enclosure::{self, Ids};
use sandbox_linux::namespace::Inside;
use sandbox_linux::process::{self, Child, ProcessHandle};
use sandbox_linux::root::{self, Failure};
use sandbox_linux::seccomp::CgroupNamespaces;
use sandbox_linux::{channel, fd, signal};
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
    enclosure::start(own.enclosure, || {
        let first = First { plan, own, sender, environment: &environment };
        first.run(&entry).unwrap_or_else(|failure| {
            report_failure(sender, &failure);
            ExitCode::Setup.into()
        })
    })
}

/// What the parent knows that its child will need.
pub(crate) struct Entry {
    ids: Ids,
    parent: ProcessHandle,
}

impl Entry {
    pub(crate) fn of(own: &Root) -> io::Result<Self> {
        let parent = ProcessHandle::open(process::pid())?;
        Ok(Self { ids: Ids::own(own.seen_as), parent })
    }

    /// Makes the root that the command will see, and goes to its working directory.
    pub(crate) fn build(&self, own: &Root, cwd: &Path) -> Result<(), Failure> {
        self.ids.map().map_err(failed("map the user in a namespace"))?;
        root::read_only_stdin().map_err(failed("reopen standard input"))?;
        root::build(&own.base, &own.steps)?;
        if own.enclosure.network {
            enclosure::raise_loopback().map_err(failed("switch the loopback device on"))?;
        }
        std::env::set_current_dir(cwd)
            .map_err(|error| Failure { what: format!("enter {}", cwd.display()), error })
    }

    /// Gives up everything that building needed.
    pub(crate) fn close(&self, cgroups: CgroupNamespaces) -> Result<(), Failure> {
        enclosure::drop_capabilities().map_err(failed("give up capabilities"))?;
        confine(Some(cgroups), std::iter::empty())?;
        enclosure::die_with(&self.parent).map_err(failed("follow the parent process"))
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { what: what.to_owned(), error }
}

/// The first process inside, and what it needs for the command.
struct First<'p> {
    plan: &'p Plan,
    own: &'p Root,
    sender: &'p OwnedFd,
    environment: &'p [(OsString, OsString)],
}

impl First<'_> {
    /// Returns the exit code of the command.
    fn run(&self, entry: &Entry) -> Result<i32, Failure> {
        entry.build(self.own, &self.plan.config.cwd)?;
        if self.plan.egress.is_some() {
            enclosure::die_with(&entry.parent).map_err(failed("follow the parent process"))?;
            egress::send(self.sender.as_fd()).map_err(failed("open the way out"))?;
        }
        let watched = !self.plan.watched.is_empty();
        let inside = watched.then(Inside::own).transpose().map_err(failed("look at the mounts"))?;
        entry.close(self.plan.cgroups)?;
        // Before anybody is there to look: this memory is a copy of the caller's.
        enclosure::hide_memory().map_err(failed("close the memory to others"))?;
        let first = process::pid();
        let command = process::fork(|| self.command(inside.as_ref(), first))
            .map_err(failed("start a process"))?;
        drop(inside);
        let sender = self.sender.try_clone().and_then(fd::keep_only);
        let sender = sender.map_err(failed("close what is not needed"))?;
        Ok(enclosure::attend(&command, |signal| {
            // If it cannot be told, the caller stays awake, and the command can be woken as ever.
            let _ = channel::send(
                sender.as_fd(),
                &[report::STOPPED, u8::try_from(signal).unwrap_or(0)],
            );
        }))
    }

    /// Becomes the command. Returns the exit code of failure.
    fn command(&self, inside: Option<&[OwnedFd; 3]>, first: i32) -> i32 {
        // With process numbers of its own, a sandbox ends with its first process anyway.
        let follow = if self.own.enclosure.pids { Ok(()) } else { process::die_with_parent(first) };
        let begun = follow.and_then(|()| match inside {
            Some(inside) => channel::send_with(
                self.sender.as_fd(),
                &[report::STARTED],
                &inside.each_ref().map(AsFd::as_fd),
            ),
            None => channel::send(self.sender.as_fd(), &[report::STARTED]),
        });
        let (code, why) =
            match begun.and_then(|()| signal::unblock()).and_then(|()| signal::restore_pipe()) {
                Ok(()) => become_command(&self.plan.command, self.environment),
                Err(error) => (ExitCode::Setup, format!("cannot begin: {error}")),
            };
        // If nobody hears it, the exit code still tells.
        let _ = channel::send(self.sender.as_fd(), &report::message(report::FAILED, &why));
        code.into()
    }
}
