//! Start of a proxy in the background.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::client::Client;
use crate::dirs::ProxyDirs;

/// Failure to start a proxy in the background.
#[derive(Debug, Error)]
pub enum DetachError {
    /// The process did not start.
    #[error("cannot start the proxy in the background")]
    Start(#[from] io::Error),
    /// The process exited. The second part is its log.
    #[error("the background proxy exited ({0}): {1}")]
    Ended(String, String),
    /// The process does not answer.
    #[error("the background proxy does not respond")]
    Silent,
}

/// Longest wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `program` with `arguments` as a proxy in the background, unless one is running. Returns when it answers.
pub fn detach(dirs: &ProxyDirs, program: &Path, arguments: &[String]) -> Result<(), DetachError> {
    let client = Client::new(dirs);
    if client.health().is_ok() {
        return Ok(());
    }
    dirs.prepare()?;
    let mut child = spawn(dirs, program, arguments)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if client.health().is_ok() {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            // It may have lost a race with another proxy, which answers soon.
            if answers_within(&client, Duration::from_secs(1)) {
                return Ok(());
            }
            let log = std::fs::read_to_string(dirs.log()).unwrap_or_default();
            return Err(DetachError::Ended(status.to_string(), log.trim().to_owned()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(DetachError::Silent)
}

fn answers_within(client: &Client, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if client.health().is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn spawn(dirs: &ProxyDirs, program: &Path, arguments: &[String]) -> io::Result<Child> {
    // The proxy outlives the caller and must not inherit its descriptors.
    sandbox_linux::fd::close_all_on_exec()?;
    let log =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(dirs.log())?;
    let mut command = sandbox_linux::process::command(program);
    command.args(arguments).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}
