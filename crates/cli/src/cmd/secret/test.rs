//! `secret test`: tests a secret with a call to its provider, through a session of the proxy as in a sandbox.

use sandbox_launch::credentials::{self, Tested};
use sandbox_policy::Host;
use sandbox_policy::catalog::provider::TestRequest;
use sandbox_protocol::ExitCode;
use sandbox_proxy::check::{Answer, CheckError, check};
use sandbox_proxy::client::Client;
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::session::Registration;

use super::SecretError;
use crate::args::Flags;
use crate::args::secret::Test;
use crate::cmd::{self, json};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// Tests a secret. Returns 1 when the provider rejects it.
pub(super) fn run(flags: &Flags, asked: &Test, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let config = cmd::load(host, &cmd::request(flags, Vec::new(), host)?, io)?;
    let Test { name, provider, upstream_url } = asked;
    let tested = Tested {
        name,
        configured: config.secrets.get(name).map(|secret| &secret.value),
        provider: provider.as_deref(),
        upstream_url: upstream_url.as_deref(),
    };
    let (provider, session) = credentials::test_session(&tested, host)?;
    let answer = ask(session, &provider.test, host)?;
    if flags.json {
        let accepted = answer.accepted();
        json(
            &serde_json::json!({ "name": name, "taken": accepted, "status": answer.status, "message": answer.message }),
            io,
        );
        return Ok(ExitCode::failed_if(!accepted).code());
    }
    let status = answer.status;
    if answer.accepted() {
        let text = format!("{} accepts secret `{name}` (HTTP {status})", provider.api);
        io.labelled(Tone::Good, "ok", &text);
        return Ok(0);
    }
    let sender = if answer.ours { "the proxy" } else { provider.api };
    let text = format!("{sender} sent HTTP {status}: {}", one_line(&answer.message));
    io.labelled(Tone::Bad, "refused", &text);
    Ok(ExitCode::Failure.code())
}

fn ask(session: Registration, test: &TestRequest, host: &Host) -> Result<Answer, Failed> {
    let place = ProxyDirs::of(host).ok_or(SecretError::NoHome)?;
    let client = Client::new(&place);
    client.ensure(&host.exe).map_err(CheckError::Proxy)?;
    Ok(check(&client, session, test)?)
}
