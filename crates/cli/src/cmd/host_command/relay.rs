//! `host-command relay`: in a container, under a user of its own, between the shims and the host's sshd. It holds the
//! key, so that the agent need not.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sandbox_core::Host;
use sandbox_core::host_command::route::Ssh;

use super::pump::Client;
use super::request::{self, Ending, Prepared};
use super::{broker, shim};
use crate::args::host_command::Relay;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// As many as sshd lets in by default before it begins to drop connections.
const PARALLEL: u32 = 10;
/// The host's own limit is the one that counts.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Serves until it is told to end.
pub(super) fn run(relay: &Relay, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let Some((user, name)) = relay.target.split_once('@') else {
        return Err(Failed::usage("the host is written USER@HOST"));
    };
    let ssh = Ssh {
        user: user.into(),
        host: name.into(),
        port: relay.port,
        key: relay.key.clone(),
        known_hosts: relay.known_hosts.clone(),
        accept_new: relay.accept_new,
    };
    // Not one of our own stand-ins: what the agent may do by that name is no matter here.
    let Some(program) = shim::own_program("ssh".as_ref()) else {
        return Err(Failed {
            error: "there is no `ssh` to reach the host by".into(),
            hint: Some(
                "install an SSH client in the image, or leave `host_commands.transport` out".into(),
            ),
            code: 1,
        });
    };
    let env: Vec<(OsString, OsString)> = ["PATH", "HOME", "USER"]
        .into_iter()
        .filter_map(|name| Some((name.into(), host.var(name)?.to_owned())))
        .collect();
    broker::listen(&relay.listen, PARALLEL, io, &|socket| {
        pass_on(socket, |line| Prepared {
            program: program.clone(),
            argv: ssh.words(line),
            env: env.clone(),
            timeout: LONGEST,
            output: u64::MAX,
        })
    })
}

fn pass_on(socket: UnixStream, prepare: impl Fn(&str) -> Prepared) -> i32 {
    let Ok(client) = socket.try_clone().map(Client::new) else { return 1 };
    let Ok(request) = broker::ask(&socket) else { return 1 };
    match shim::request_line(&request.cwd, &request.argv) {
        Ok(line) => {
            let prepared = prepare(&line);
            let finished = broker::carry_out(&prepared, socket, &client);
            let Ending { code, reason, .. } = request::ending(&prepared, finished);
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
