//! Relay of a container, under a user of its own, between the shims and the host's sshd. It holds the key, so that the
//! agent need not.

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

/// Multicall word of this program: the relay of a session.
pub const RELAY: &str = "@relay";
/// As many as sshd lets in by default before it begins to drop connections.
const PARALLEL: u32 = 10;
/// The host's own limit is the one that counts.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Settings of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Options {
    /// Socket to listen at.
    pub listen: PathBuf,
    /// Connection to the host.
    pub ssh: Ssh,
}

/// Reason why requests are not passed on.
#[derive(Debug, Error)]
pub enum RelayError {
    /// There is no SSH client.
    #[error("there is no `ssh` to reach the host by")]
    NoClient,
    /// Clients cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl Hint for RelayError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoClient => Some(
                "install an SSH client in the image, or leave `host_commands.transport` out".into(),
            ),
            Self::Serve(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

impl Options {
    /// Returns the words that make this program a relay.
    pub(crate) fn words(&self) -> [String; 2] {
        [RELAY.into(), serde_json::to_string(self).unwrap_or_default()]
    }

    /// Reads what [`Self::words`] wrote.
    pub(crate) fn of_words(words: &[OsString]) -> Option<Self> {
        let [word, options] = words else { return None };
        if word != RELAY {
            return None;
        }
        serde_json::from_slice(options.as_encoded_bytes()).ok()
    }
}

/// Passes requests on until told to end. `listening` is called once clients can connect.
pub fn run(
    options: &Options,
    host: &Host,
    listening: &mut dyn FnMut(&Path),
) -> Result<(), RelayError> {
    // Not a shim: which commands the agent may run by that name does not matter here.
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
            let text = format!("agent-sandbox: this command cannot be sent by SSH: {error}\n");
            broker::say(&client, &text, 125);
        }
    }
    0
}
