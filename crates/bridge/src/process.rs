//! Background processes of a session: the broker on the host and the relay in the container.
//!
//! Each is this program under a multicall word. A broker outlives the command that started it and is identified by the
//! lock that it holds.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox_linux::holder::{self, Holder};
use sandbox_linux::process;
use sandbox_policy::Host;

use crate::broker::end_left_behind;
use crate::list::HOST_LIST;
use crate::relay::{self, RelayError};
use crate::serve::{self, serve};
use crate::session::{LIST, SOCKET, STATE};

/// Multicall word of a session's broker.
const BROKER: &str = "@broker";
/// Time limit for a broker to start listening.
const READY: Duration = Duration::from_secs(10);

/// Background process of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// Broker on the host. Its working directory is the session's folder.
    Broker(serve::Options),
    /// Relay in the container.
    Relay(relay::Options),
}

impl Process {
    /// Returns the process to run if the first argument is one of the multicall words.
    pub fn of_args(args: &[OsString]) -> Option<Self> {
        let words = args.get(1..)?;
        if words.first()? == BROKER {
            return Some(Self::Broker(broker_options(words.get(1).map(OsString::as_os_str))));
        }
        relay::Options::of_words(words).map(Self::Relay)
    }

    /// Serves until told to end. Calls `listening` once clients can connect. Returns the exit code.
    pub fn run(&self, host: &Host, listening: &mut dyn FnMut(&Path)) -> Result<u8, RelayError> {
        match self {
            Self::Broker(options) => Ok(serve(options, host, listening)?),
            Self::Relay(options) => relay::run(options, host, listening).map(|()| 0),
        }
    }
}

fn broker_options(audit: Option<&OsStr>) -> serve::Options {
    serve::Options {
        list: HOST_LIST.into(),
        listen: Some(SOCKET.into()),
        session_list: Some(LIST.into()),
        state: Some(STATE.into()),
        audit: audit.map(PathBuf::from),
        locked: true,
    }
}

/// Returns the lock file that a session's broker holds while it runs.
fn lock(dir: &Path) -> PathBuf {
    dir.join("broker.lock")
}

/// Starts the broker of a session, unless it is running, and waits until it listens. `program` is the file of this
/// program.
pub fn start_broker(program: &Path, dir: &Path, audit: Option<&Path>) -> io::Result<()> {
    let Some(held) = claim(&lock(dir))? else { return Ok(()) };
    // A killed broker leaves its socket behind.
    match std::fs::remove_file(dir.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let log =
        OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join("broker.log"))?;
    let mut command = process::command(program);
    // It inherits the lock as standard input and signs it, so that it can be found even if this process is killed. It
    // leaves this process group, so that keys typed at the terminal do not reach it.
    command.arg(BROKER).args(audit).current_dir(dir).process_group(0);
    command.stdin(Stdio::from(held)).stdout(Stdio::null()).stderr(Stdio::from(log));
    let mut child = command.spawn()?;
    let end = Instant::now() + READY;
    while !dir.join(SOCKET).try_exists()? {
        if child.try_wait()?.is_some() || Instant::now() > end {
            let log = std::fs::read_to_string(dir.join("broker.log")).unwrap_or_default();
            return Err(io::Error::other(format!("the broker does not listen: {}", log.trim())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Takes the lock; returns `None` if a live broker holds it. A killed broker's request may hold the lock for a moment
/// longer, and a new broker may not have signed it yet.
fn claim(lock: &Path) -> io::Result<Option<OwnedFd>> {
    let end = Instant::now() + READY;
    loop {
        if let Some(held) = holder::take(lock)? {
            return Ok(Some(held));
        }
        let lives = |pid: i32| !process::has_ended(pid);
        if holder::of(lock).and_then(Holder::process).is_some_and(lives) {
            return Ok(None);
        }
        if Instant::now() > end {
            return Err(io::Error::other("its lock is held, but the broker is not running"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the broker of a session and every command that it ran, and waits until they have ended.
pub fn end_broker(dir: &Path) -> io::Result<()> {
    holder::end(&lock(dir)).and(end_left_behind(&dir.join(STATE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Ssh;

    #[test]
    fn a_process_is_known_by_its_multicall_word() {
        let ssh = Ssh {
            user: "runner".into(),
            host: "host".into(),
            port: 22,
            key: "/run/secrets/key".into(),
            known_hosts: "/run/agent-sandbox/bridge/known_hosts".into(),
            accept_new: false,
        };
        let relay = relay::Options { listen: "/run/agent-sandbox/relay/socket".into(), ssh };
        let [word, options] = relay.words();
        let of =
            |words: &[&str]| Process::of_args(&words.iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(of(&["agent-sandbox", &word, &options]), Some(Process::Relay(relay.clone())));
        let logged = broker_options(Some(OsStr::new("/log")));
        assert_eq!(of(&["agent-sandbox", "@broker", "/log"]), Some(Process::Broker(logged)));
        for words in [&["agent-sandbox"][..], &["agent-sandbox", "x"], &["x", "@relay", "{}"]] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
