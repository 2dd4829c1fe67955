//! `secret test`: whether a provider takes a secret. The call goes the way of every sandbox's: by a
//! session of the proxy, so that what works here works there.

use sandbox_launch::credentials;
use sandbox_policy::Host;
use sandbox_policy::catalog::provider::TestRequest;
use sandbox_policy::catalog::{PROVIDERS, Provider, UnknownProvider};
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::check::{Answer, CheckError, check};
use sandbox_proxy::client::Client;
use sandbox_proxy::credential::SecretRef;
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::secret::{Location, Name};
use sandbox_proxy::session::{Limits, Registration, Terms};
use sandbox_proxy::token::Token;
use thiserror::Error;

use super::SecretError;
use crate::args::Flags;
use crate::args::secret::Test;
use crate::cmd::{self, json};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

#[derive(Debug, Error)]
enum TestError {
    #[error("nothing says whose secret `{0}` is")]
    NoProvider(Name),
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
}

impl Hint for TestError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoProvider(name) => {
                Some(format!("agent-sandbox secret test {name} --provider anthropic"))
            }
            Self::Provider(_) => {
                let known = PROVIDERS.iter().map(|provider| provider.name);
                Some(format!("known are {}", known.collect::<Vec<_>>().join(", ")))
            }
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

pub(super) fn run(flags: &Flags, asked: &Test, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let session = session(flags, asked, host, io)?;
    let provider = Provider::named(&session.terms.provider).map_err(TestError::from)?;
    let name = &asked.name;
    let answer = ask(session, &provider.test, host)?;
    if flags.json {
        let accepted = answer.accepted();
        json(
            &serde_json::json!({ "name": name, "taken": accepted, "status": answer.status, "message": answer.message }),
            io,
        );
        return Ok(ExitCode::failed_if(!accepted).code());
    }
    let message = one_line(&answer.message);
    if answer.accepted() {
        io.labelled(
            Tone::Good,
            "taken",
            &format!("{} takes `{name}` ({})", provider.name, answer.status),
        );
        return Ok(0);
    }
    let who = if answer.ours { "the proxy" } else { provider.name };
    io.labelled(Tone::Bad, "refused", &format!("{who} says {}: {message}", answer.status));
    Ok(ExitCode::Failure.code())
}

/// What the configuration says about the secret, else what is stored under this name. Flags win.
fn session(
    flags: &Flags,
    asked: &Test,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<Registration, Failed> {
    let config = cmd::load(host, &cmd::request(flags, Vec::new(), host)?, io)?;
    let mut session = match config.secrets.get(&asked.name) {
        Some(secret) => credentials::registration(&asked.name, &secret.value, host)?,
        None => stored(asked, host)?,
    };
    if let Some(provider) = &asked.provider {
        session.terms.provider = Provider::named(provider).map_err(TestError::from)?.name.into();
    }
    if asked.upstream_url.is_some() {
        session.terms.upstream_url.clone_from(&asked.upstream_url);
    }
    // Limits are for sandboxes. They say nothing about whether the provider takes it.
    (session.terms.routes, session.terms.limits) = (None, Limits::default());
    Ok(session)
}

fn stored(asked: &Test, host: &Host) -> Result<Registration, Failed> {
    let name = Name::parse(&asked.name)?;
    // Looked for first: a proxy is not started for what is not there.
    drop(credentials::store(host)?.get(&name)?);
    let provider = asked.provider.as_deref().unwrap_or(name.as_str());
    if asked.provider.is_none() && Provider::named(provider).is_err() {
        return Err(TestError::NoProvider(name).into());
    }
    let terms = Terms {
        provider: provider.to_owned(),
        secret: serde_json::to_value(Location::Store(name)).ok().map(SecretRef),
        ..Terms::default()
    };
    let token = Token::generate().map_err(CheckError::from)?;
    Ok(Registration { token, api_key: None, terms })
}

fn ask(session: Registration, test: &TestRequest, host: &Host) -> Result<Answer, Failed> {
    let place = ProxyDirs::of(host).ok_or(SecretError::NoHome)?;
    let client = Client::new(&place);
    client.ensure(&host.exe).map_err(CheckError::Proxy)?;
    Ok(check(&client, session, test)?)
}
