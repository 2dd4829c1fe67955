//! `host-command relay`: forwards the requests of a container over SSH.

use sandbox_bridge::relay::{self, Options};
use sandbox_bridge::route::Ssh;
use sandbox_policy::Host;

use super::say_listening;
use crate::args::host_command::Relay;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Serves until a signal.
pub(super) fn run(relay: Relay, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let Some((user, name)) = relay.target.split_once('@') else {
        return Err(Failed::usage("invalid host: use USER@HOST"));
    };
    let ssh = Ssh {
        user: user.into(),
        host: name.into(),
        port: relay.port,
        key: relay.key,
        known_hosts: relay.known_hosts,
        accept_new: relay.accept_new,
    };
    let options = Options { listen: relay.listen, ssh };
    relay::run(&options, host, &mut |socket| say_listening(socket, io))?;
    Ok(0)
}
