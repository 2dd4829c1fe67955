//! Process that serves a mount.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::process::{self, Change, Child, ProcessHandle};
use sandbox_linux::signal::{self, Signals};
use sandbox_protocol::Hint;

use super::attach::{Detach, abort, attach, detach};
use super::record::{MountRecord, started};
use super::{MountError, Request, table, watch};
use crate::fuse::{Options, serve_on};
use crate::store::Store;
use crate::tree::Owner;

/// Message of the process once the mount answers.
const READY: &[u8] = b"ready";
/// Time limit for users of a mount that is being ended.
const GRACE: Duration = Duration::from_secs(5);

/// Mounts in a background process, and returns as soon as the mount answers. The caller must have a single thread.
pub fn background(request: &Request) -> Result<i32, MountError> {
    let failed = |error| MountError::refused(&request.mountpoint, error);
    let (receiver, sender) = channel::pair().map_err(failed)?;
    let caller = process::pid();
    let child = process::fork(|| match detached(&sender) {
        Ok(sender) => child(request, &sender, caller),
        Err(_) => 1,
    })
    .map_err(failed)?;
    drop(sender);
    loop {
        channel::wait(&[(receiver.as_fd(), Awaited::Data)], None).map_err(failed)?;
        match channel::receive(receiver.as_fd()) {
            Ok(Some(message)) if message.text == READY => return Ok(child.pid()),
            Ok(Some(message)) => return Err(told(&message.text, &child)),
            Ok(None) => return Err(ended(&child)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Mounts, and serves until the mount ends or a signal asks to end it.
pub fn foreground(request: &Request, ready: impl FnOnce() + Send) -> Result<(), MountError> {
    serve(request, None, ready)
}

/// Detaches this process from the session, directory and descriptors of its parent.
fn detached(sender: &OwnedFd) -> io::Result<OwnedFd> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let null: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    for number in 0..=2 {
        sandbox_linux::fd::replace(number, &null)?;
    }
    drop(null);
    sandbox_linux::fd::keep_only(sender.try_clone()?)
}

fn child(request: &Request, sender: &OwnedFd, caller: i32) -> i32 {
    let Ok(owner) = request.owned.then(|| owner(caller)).transpose() else { return 1 };
    let mut said = false;
    let served = serve(request, owner, || {
        said = true;
        let _ = channel::send(sender.as_fd(), READY);
    });
    let Err(error) = served else { return 0 };
    if !said {
        let _ = channel::send(sender.as_fd(), &telling(&error));
    }
    1
}

/// Returns a handle on the parent, which must still be running.
fn owner(caller: i32) -> io::Result<ProcessHandle> {
    let owner = ProcessHandle::open(caller)?;
    // The pid may have been reused before it was opened.
    let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_pid);
    if parent == Some(caller) { Ok(owner) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Encodes an error and its hint as one message. The sources are appended to the first line.
fn telling(error: &MountError) -> Vec<u8> {
    let text = sandbox_linux::error::chain(error);
    // A message has at most 1024 bytes. The reader replaces a truncated character.
    let hint = error.hint().unwrap_or_default();
    let text = &text.as_bytes()[..text.len().min(700)];
    [text, b"\0", &hint.as_bytes()[..hint.len().min(300)]].concat()
}

fn told(text: &[u8], child: &Child) -> MountError {
    let _ = child.wait();
    let text = String::from_utf8_lossy(text);
    let (what, hint) = text.split_once('\0').unwrap_or((&text, ""));
    MountError::Daemon {
        what: what.to_owned(),
        hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
    }
}

fn ended(child: &Child) -> MountError {
    let how = match child.wait() {
        Ok(Change::Killed(signal)) => format!("was killed by signal {signal}"),
        Ok(Change::Exited(code)) => format!("ended with code {code}"),
        Ok(Change::Stopped(_)) | Err(_) => "ended".to_owned(),
    };
    MountError::Daemon { what: format!("the process that serves the mount {how}"), hint: None }
}

/// Serves until the mount or its owner ends, and closes the database.
fn serve(
    request: &Request,
    owner: Option<ProcessHandle>,
    ready: impl FnOnce() + Send,
) -> Result<(), MountError> {
    let failed = |error| MountError::refused(&request.mountpoint, error);
    // Before other threads are started, because they inherit the signal mask.
    let signals = Signals::open().map_err(failed)?;
    signal::unblock_stopping().map_err(failed)?;
    let (store, base) = super::open(&request.database)?;
    let record_base = store.base().map(Path::to_owned);
    let options = options(request, &store)?;
    let device = attach(&request.database, &request.mountpoint, request.access)?;
    let row = table::at(&request.mountpoint).map_err(failed)?;
    let row = row.ok_or_else(|| failed(io::Error::other("it is missing from the mount table")))?;
    let guard = request.auto_unmount.then(|| watch::start(row.clone())).transpose();
    let guard = guard.map_err(failed)?;
    let (over, end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let attendant = Attendant { request, row: &row, signals: &signals, over: &over, owner };
    let record = record(request, record_base, &row);
    let served = std::thread::scope(|scope| {
        let attended = scope.spawn(|| attendant.run(&record, ready));
        let served = serve_on(store, base, device, &options, || {});
        drop(end);
        let attended =
            attended.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        served.map_err(MountError::from).and(attended.map_err(failed))
    });
    if let Some(folder) = &request.records {
        record.remove(folder);
    }
    if served.is_err() && row.is_there() {
        // The error is reported. A mount without a server would only block its mountpoint.
        let _ = detach(&request.mountpoint, Detach::Lazy);
    }
    if let Some(guard) = guard {
        watch::dismiss(&guard);
    }
    served
}

fn options(request: &Request, store: &Store) -> Result<Options, MountError> {
    let mut owner = Owner { uid: request.uid, gid: request.gid };
    let (uid, gid) = (process::uid(), process::gid());
    let root = store.inode(crate::tree::ROOT)?;
    // AgentFS's SDKs record root as the owner of everything, and its own mount shows the user as the owner. Do
    // the same if the filesystem does not belong to the user who mounts it.
    if uid != 0 && root.is_some_and(|root| root.uid != uid) {
        owner = Owner { uid: owner.uid.or(Some(uid)), gid: owner.gid.or(Some(gid)) };
    }
    Ok(Options {
        allow: request.access,
        source: request.database.display().to_string(),
        owner,
        ..Options::default()
    })
}

/// Thread that watches a mount while other threads serve it.
struct Attendant<'a> {
    request: &'a Request,
    row: &'a table::Row,
    signals: &'a Signals,
    /// Descriptor that is closed at its other end when serving has ended.
    over: &'a OwnedFd,
    /// Process whose end ends the mount.
    owner: Option<ProcessHandle>,
}

impl Attendant<'_> {
    /// Calls `ready` once the mount answers, then waits for its end.
    fn run(&self, record: &MountRecord, ready: impl FnOnce()) -> io::Result<()> {
        rustix::fs::statfs(&self.request.mountpoint)?;
        if let Some(folder) = &self.request.records {
            record.save(folder)?;
        }
        ready();
        self.wait()
    }

    /// Detaches the mount, lazily if it is in use.
    fn detach(&self) {
        let at = &self.row.mountpoint;
        if self.row.is_there() && detach(at, Detach::Idle).is_err() {
            let _ = detach(at, Detach::Lazy);
        }
    }

    /// Disconnects remaining users. If that fails, this process kills itself; the database survives that.
    fn cut(&self) -> io::Result<()> {
        if abort(&self.row.device).is_ok() {
            return Ok(());
        }
        Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?)
    }

    /// Waits for the end of serving. A signal or the owner's end requests it: first by unmounting, then by detaching
    /// lazily, finally by aborting the connection.
    fn wait(&self) -> io::Result<()> {
        let mut asked = false;
        loop {
            let time = asked.then(|| u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX));
            let mut fds =
                vec![(self.over.as_fd(), Awaited::Data), (self.signals.as_fd(), Awaited::Data)];
            // An owner that has ended would be reported forever.
            let owner = self.owner.as_ref().filter(|_| !asked);
            fds.extend(owner.map(|owner| (owner.as_fd(), Awaited::Data)));
            let happened = channel::wait(&fds, time)?;
            if happened[0] {
                return Ok(());
            }
            let mut ending = happened.get(2) == Some(&true);
            while let Some(arrived) = self.signals.next()? {
                ending |= sandbox_linux::signal::ENDING.contains(&arrived.signal);
            }
            if ending && !asked {
                asked = true;
                self.detach();
            } else if asked && !happened[1] {
                self.cut()?;
            }
        }
    }
}

fn record(request: &Request, base: Option<PathBuf>, row: &table::Row) -> MountRecord {
    let pid = process::pid();
    MountRecord {
        database: request.database.clone(),
        base,
        mountpoint: request.mountpoint.clone(),
        mount: row.id,
        pid,
        started: started(pid).unwrap_or(0),
        engine: "agentfs".to_owned(),
    }
}
