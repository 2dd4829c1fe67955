//! The relay for host commands by SSH. It has the SSH key and runs as a separate user, so that the agent can connect to
//! its socket but cannot read the key.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandbox_linux::process::{Program, fork};
use sandbox_protocol::ExitCode;
use sandbox_protocol::layout::SEARCH_PATH;
use zeroize::Zeroizing;

use super::signals;
use super::step::{StepError, file};
use super::supervisor::{Event, Supervisor};
use crate::environment::Environment;
use crate::identity;
use crate::user::User;
use sandbox_linux::error::chain;

const READY: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Initial and maximum back-off between restarts.
const SOON: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_secs(10);

/// Settings of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelaySettings {
    /// Its uid and gid.
    pub(crate) user: u32,
    /// Path of the original key, which only root can read.
    pub(crate) key: PathBuf,
    /// Path of its copy of the key.
    pub(crate) place: PathBuf,
    /// Path of its socket.
    pub(crate) socket: PathBuf,
    /// Its program and arguments.
    pub(crate) words: Vec<String>,
}

/// Parses `[USER, KEY, PLACE, SOCKET, [PROGRAM, WORD, …]]`.
pub(crate) fn wanted(text: &[u8]) -> Option<RelaySettings> {
    let (user, key, place, socket, words) = serde_json::from_slice(text).ok()?;
    let wanted = RelaySettings { user, key, place, socket, words };
    let paths = [&wanted.key, &wanted.place, &wanted.socket];
    let is_whole = paths.iter().all(|path| path.is_absolute() && path.parent().is_some());
    let is_whole = is_whole && wanted.words.first().is_some_and(|program| program.starts_with('/'));
    (is_whole && wanted.user != 0 && wanted.user != u32::MAX).then_some(wanted)
}

/// A relay that is running or will be restarted.
pub(crate) struct Relay {
    wanted: RelaySettings,
    running: Option<i32>,
    again: Instant,
    pause: Duration,
}

impl Relay {
    /// Gives the relay its key, starts it, and waits until it listens. The relay's uid must differ from that of the
    /// agent.
    pub(crate) fn open(
        wanted: &RelaySettings,
        agent: u32,
        supervisor: &mut Supervisor,
    ) -> Result<Self, StepError> {
        if wanted.user == agent {
            let hint = "run the agent with another uid".to_owned();
            let what = "the agent has the uid of the relay and could read the SSH key";
            return Err(StepError::Said(what.into(), Some(hint)));
        }
        hand_over(wanted)?;
        let pid = start(wanted)?;
        listens(&wanted.socket, pid, supervisor)?;
        let now = Instant::now();
        Ok(Self { wanted: wanted.clone(), running: Some(pid), again: now, pause: SOON })
    }

    /// Returns the time of the next restart, if the relay has ended.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.running.is_none().then_some(self.again)
    }

    /// Restarts the relay if it has ended, unless the container is stopping.
    pub(crate) fn look_after(&mut self, event: Event, ending: bool) {
        if let (Event::Ended(pid, _), Some(running)) = (event, self.running)
            && pid == running
        {
            super::LOG.warn(format_args!("the relay for host commands ended"));
            self.running = None;
            self.again = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(LATE);
        }
        if self.running.is_some() || Instant::now() < self.again {
            return;
        }
        self.again = Instant::now() + self.pause;
        if ending {
            return;
        }
        match start(&self.wanted) {
            Ok(pid) => self.running = Some(pid),
            Err(error) => {
                super::LOG.warn(format_args!("cannot restart the relay: {}", chain(&error)));
            }
        }
    }
}

/// Creates the directory of the relay's socket, and a copy of the key that only the relay can read.
fn hand_over(wanted: &RelaySettings) -> Result<(), StepError> {
    let RelaySettings { user, key, place, socket, .. } = wanted;
    let bytes = Zeroizing::new(fs::read(key).map_err(file("read", key))?);
    let (room, shelf) = (parent(socket), parent(place));
    for dir in [room, shelf] {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(file("create", dir))?;
    }
    chown(room, Some(*user), Some(*user)).map_err(file("change the owner of", room))?;
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file("replace", place)(error));
        }
        _ => {}
    }
    let mut copy = OpenOptions::new();
    let opened = copy.write(true).create_new(true).mode(0o400).open(place);
    let mut copy = opened.map_err(file("create", place))?;
    copy.write_all(&bytes).map_err(file("write", place))?;
    fchown(&copy, Some(*user), Some(*user)).map_err(file("change the owner of", place))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn start(wanted: &RelaySettings) -> Result<i32, StepError> {
    let program = Path::new(&wanted.words[0]);
    let mut environment = Environment::default();
    environment.put("HOME", b"/nonexistent");
    // Not the agent's `PATH`: a program from a directory that the agent can write must not run as the relay's user.
    environment.put("PATH", SEARCH_PATH.as_bytes());
    let parent = sandbox_linux::process::pid();
    let child = fork(|| {
        let error = match prepare(wanted, &environment, parent) {
            Ok(ready) => file("execute", program)(ready.exec_path(program.as_os_str())),
            Err(error) => error,
        };
        super::LOG.error(&error);
        ExitCode::NotFound.into()
    })?;
    Ok(child.pid())
}

fn prepare(
    wanted: &RelaySettings,
    environment: &Environment,
    parent: i32,
) -> Result<Program, StepError> {
    rustix::process::setsid().map_err(io::Error::from)?;
    let null: OwnedFd = OpenOptions::new().read(true).open("/dev/null")?.into();
    sandbox_linux::fd::replace(0, &null)?;
    identity::become_user(&User {
        name: None,
        uid: wanted.user,
        gid: wanted.user,
        home: "/".into(),
        shell: "/sbin/nologin".into(),
    })?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(io::Error::from)?;
    if rustix::process::getppid().is_none_or(|now| now.as_raw_pid() != parent) {
        return Err(StepError::Asked(signals::TERM));
    }
    let words = wanted.words.iter().map(OsString::from);
    let ready = Program::with_entries(words, environment.entries())?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()?;
    Ok(ready)
}

fn listens(socket: &Path, pid: i32, supervisor: &mut Supervisor) -> Result<(), StepError> {
    let until = Instant::now() + READY;
    while !socket.try_exists().unwrap_or(false) {
        match supervisor.next(Some(Instant::now() + LOOK_AGAIN))? {
            Event::Ended(ended, ending) if ended == pid => {
                let how = format!("exited with code {}", ending.code());
                return Err(StepError::Said(format!("the relay {how}"), None));
            }
            Event::Signal(signal) if signals::action(signal) == signals::Action::End => {
                return Err(StepError::Asked(signal));
            }
            _ if Instant::now() > until => return Err(StepError::Late("agent-sandbox")),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_is_read_whole_or_not_at_all() {
        let read = wanted(br#"[65530, "/a/k", "/b/k", "/c/s", ["/x", "y z"]]"#).unwrap();
        assert_eq!((read.user, read.words), (65530, vec!["/x".to_owned(), "y z".into()]));
        for text in [
            "",
            "[]",
            r#"[0, "/a/k", "/b/k", "/c/s", ["/x"]]"#,
            r#"[4294967295, "/a/k", "/b/k", "/c/s", ["/x"]]"#,
            r#"[1, "a/k", "/b/k", "/c/s", ["/x"]]"#,
            r#"[1, "/a/k", "/b/k", "/", ["/x"]]"#,
            r#"[1, "/a/k", "/b/k", "/c/s", "/x"]"#,
            r#"[1, "/a/k", "/b/k", "/c/s", ["x"]]"#,
            r#"[1, "/a/k", "/b/k", "/c/s", []]"#,
        ] {
            assert_eq!(wanted(text.as_bytes()), None, "{text}");
        }
    }
}
