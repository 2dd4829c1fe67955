//! Relay of a container, between the shims and the host's sshd. It runs under a separate user and holds the SSH key, so
//! that the agent cannot read it.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::request::{Passed, Prepared};
use crate::route::{Ssh, request_line};
use crate::runner::pump::Client;
use crate::runner::{self, Ending};
use crate::server::ServeError;
use crate::{broker, shim};

/// Multicall word of a session's relay.
pub(crate) const RELAY: &str = "@relay";
/// Maximum number of concurrent requests. Above 10 unauthenticated connections, sshd starts to drop some by default
/// (`MaxStartups`).
const PARALLEL: u32 = 10;
/// Maximum time of a request. The host's own limit is normally lower.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Settings of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Options {
    /// Socket to listen on.
    pub listen: PathBuf,
    /// Connection to the host.
    pub ssh: Ssh,
}

/// Reason why the relay cannot run.
#[derive(Debug, Error)]
pub enum RelayError {
    /// SSH client is missing.
    #[error("cannot reach the host: `ssh` is not installed")]
    NoClient,
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl Hint for RelayError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoClient => Some(
                "install an SSH client in the image, or remove `host_commands.transport`".into(),
            ),
            Self::Serve(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

impl Options {
    /// Returns the arguments that start this program as a relay.
    pub(crate) fn words(&self) -> [String; 2] {
        [RELAY.into(), serde_json::to_string(self).unwrap_or_default()]
    }

    /// Parses the output of [`Self::words`].
    pub(crate) fn of_words(words: &[OsString]) -> Option<Self> {
        let [word, options] = words else { return None };
        if word != RELAY {
            return None;
        }
        serde_json::from_slice(options.as_encoded_bytes()).ok()
    }
}

/// Relays requests until told to end. Calls `listening` once clients can connect.
pub fn run(
    options: &Options,
    host: &Host,
    listening: &mut dyn FnMut(&Path),
) -> Result<(), RelayError> {
    // Not a shim: the agent's rules for `ssh` do not apply to the relay.
    let program = shim::own_program("ssh".as_ref()).ok_or(RelayError::NoClient)?;
    let env: Vec<(OsString, OsString)> = ["PATH", "HOME", "USER"]
        .into_iter()
        .filter_map(|name| Some((name.into(), host.var(name)?.to_owned())))
        .collect();
    broker::listen(&options.listen, PARALLEL, listening, &|socket| {
        pass_on(socket, |line| Prepared {
            program: program.clone(),
            argv: options.ssh.words(line),
            env: env.clone(),
            timeout: LONGEST,
            output: u64::MAX,
            signals: Passed::Ending,
        })
    })?;
    Ok(())
}

fn pass_on(socket: UnixStream, prepare: impl Fn(&str) -> Prepared) -> i32 {
    let Ok(client) = socket.try_clone().map(Client::new) else { return 1 };
    let Ok(request) = broker::ask(&socket) else { return 1 };
    match request_line(&request.cwd, &request.argv) {
        Ok(line) => {
            let prepared = prepare(&line);
            let finished = broker::carry_out(&prepared, socket, &client);
            let Ending { code, reason, .. } = runner::ending(&prepared, finished);
            let text =
                reason.map(|reason| format!("agent-sandbox: {reason}\n")).unwrap_or_default();
            broker::say(&client, &text, code);
        }
        Err(error) => {
            let text = format!("agent-sandbox: cannot send this command by SSH: {error}\n");
            broker::say(&client, &text, ExitCode::Setup.code());
        }
    }
    0
}
