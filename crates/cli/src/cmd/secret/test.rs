//! `secret test`: whether a provider takes a secret. The call goes the way of every sandbox's: by a
//! session of the proxy, so that what works here works there.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use sandbox_core::Host;
use sandbox_launch::credentials;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::ERROR_HEADER;
use sandbox_proxy::attach::Attach;
use sandbox_proxy::client::{Client, ClientError};
use sandbox_proxy::credential::SecretRef;
use sandbox_proxy::place::Place as Proxy;
use sandbox_proxy::provider::{Provider, UnknownProvider};
use sandbox_proxy::secret::{Name, Place};
use sandbox_proxy::session::{Limits, Registration, Terms};
use sandbox_proxy::token::Token;
use serde_json::Value;
use thiserror::Error;

use super::SecretError;
use crate::args::Flags;
use crate::args::secret::Test;
use crate::cmd::{self, json};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// How long a provider may think about it.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Error)]
enum TestError {
    #[error("nothing says whose secret `{0}` is")]
    NoProvider(Name),
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    #[error("cannot use the proxy")]
    Proxy(#[source] ClientError),
    #[error("cannot ask the proxy")]
    Io(#[from] io::Error),
    #[error("the proxy's answer makes no sense")]
    Answer,
}

impl Hint for TestError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoProvider(name) => {
                Some(format!("agent-sandbox secret test {name} --provider anthropic"))
            }
            Self::Provider(_) => {
                let known = sandbox_proxy::provider::PROVIDERS.iter().map(|provider| provider.name);
                Some(format!("known are {}", known.collect::<Vec<_>>().join(", ")))
            }
            Self::Proxy(error) => error.hint(),
            Self::Io(_) | Self::Answer => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// A path that every account can ask for and that costs nothing.
fn harmless(provider: &Provider) -> &'static str {
    match provider.name {
        "ollama" => "/api/version",
        "gemini" => "/v1beta/models",
        "openai-subscription" => "/models",
        "custom" => "/",
        _ => "/v1/models",
    }
}

pub(super) fn run(flags: &Flags, asked: &Test, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let session = session(flags, asked, host, io)?;
    let provider = Provider::named(&session.terms.provider).map_err(TestError::from)?;
    let name = &asked.name;
    let answer = ask(session, harmless(provider), host)?;
    if flags.json {
        let taken = answer.taken();
        json(
            &serde_json::json!({ "name": name, "taken": taken, "status": answer.status, "message": answer.message }),
            io,
        );
        return Ok(ExitCode::failed_if(!taken).code());
    }
    let message = one_line(&answer.message);
    if answer.taken() {
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
        secret: serde_json::to_value(Place::Store(name)).ok().map(SecretRef),
        ..Terms::default()
    };
    let token = Token::generate().map_err(TestError::from)?;
    Ok(Registration { token, api_key: None, terms })
}

struct Answer {
    status: u16,
    /// Whether the proxy itself said it.
    ours: bool,
    message: String,
}

impl Answer {
    fn taken(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

fn ask(session: Registration, path: &str, host: &Host) -> Result<Answer, Failed> {
    let place = Proxy::of(host).ok_or(SecretError::NoHome)?;
    let client = Client::new(&place);
    client.ensure(&host.exe).map_err(TestError::Proxy)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(TestError::from)?;
    let address = listener.local_addr().map_err(TestError::from)?;
    let token = session.token.clone();
    let attach = Attach {
        sandbox_id: format!("secret-test-{}", std::process::id()),
        egress: None,
        sessions: vec![session],
    };
    let _attached = client.attach(&attach, &[listener.as_fd()]).map_err(TestError::Proxy)?;
    let exchange = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let token = token.text();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {}\r\nanthropic-version: 2023-06-01\r\n\r\n",
            *token
        )?;
        let mut answer = Vec::new();
        stream.take(1 << 20).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let bytes = exchange().map_err(TestError::from)?;
    Ok(read(&bytes).ok_or(TestError::Answer)?)
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let ours = head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case(ERROR_HEADER))
    });
    // The body may come in chunks, whose sizes stand around it.
    let inner = body.find('{').zip(body.rfind('}')).and_then(|(from, to)| body.get(from..=to));
    let value: Value = inner.and_then(|inner| serde_json::from_str(inner).ok()).unwrap_or_default();
    let said = value["error"]["message"].as_str().or_else(|| value["error"].as_str());
    let hint = value["error"]["hint"].as_str().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(Answer { status, ours, message: format!("{}{hint}", said.unwrap_or("no reason")) })
}
