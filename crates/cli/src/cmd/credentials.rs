//! The secrets of a run: what the command holds itself, and what the proxy holds for it.
//!
//! A secret in mode `inject` becomes a variable. One in mode `proxy` stays outside: its variable gets a
//! token that is made for this secret of this run, and the provider's address becomes the proxy's.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;

use sandbox_control::backend::bwrap::server;
use sandbox_control::backend::docker as container;
use sandbox_core::Host;
use sandbox_core::config::{
    self, Config, ContainerNetwork, Network, SecretMode, Sourced, Transport,
};
use sandbox_core::network::PROXY_PORT;
use sandbox_core::plan::Plan;
use sandbox_proxy::credential::{Placement, Secret, SecretRef, SourceError};
use sandbox_proxy::provider::Provider;
use sandbox_proxy::secret::{Lasting, Login, Name, Place, Sources, StoreError};
use sandbox_proxy::session::{Limits, Registration, Terms};
use sandbox_proxy::token::Token;
use thiserror::Error;

use super::secret::{sources, store};
use crate::run::Failed;

/// Which variable names a provider's address, and what stands behind the address there.
const ADDRESSES: &[(&str, &[(&str, &str)])] = &[
    ("anthropic", &[("ANTHROPIC_BASE_URL", "")]),
    ("anthropic-subscription", &[("ANTHROPIC_BASE_URL", "")]),
    ("openai", &[("OPENAI_BASE_URL", "/v1"), ("OPENAI_API_BASE", "/v1")]),
    ("openai-subscription", &[]),
    ("ollama", &[("OLLAMA_HOST", "")]),
    ("gemini", &[("GOOGLE_GEMINI_BASE_URL", "")]),
    ("custom", &[]),
];

/// Whose key a variable carries, where the configuration does not say.
const BY_VARIABLE: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "anthropic"),
    ("ANTHROPIC_AUTH_TOKEN", "anthropic"),
    ("CLAUDE_CODE_OAUTH_TOKEN", "anthropic"),
    ("OPENAI_API_KEY", "openai"),
    ("CODEX_API_KEY", "openai"),
    ("GEMINI_API_KEY", "gemini"),
    ("GOOGLE_API_KEY", "gemini"),
];

#[derive(Debug, Error)]
enum CredentialError {
    #[error("the secret `{name}` cannot be had: {}", error.message)]
    Source { name: String, error: SourceError },
    #[error("the secret `{name}` cannot be used")]
    Store {
        name: String,
        #[source]
        error: StoreError,
    },
    #[error("nothing says whose the secret `{0}` is")]
    NoProvider(String),
    #[error("the secret `{0}` has no variable for the proxy's address")]
    NoAddress(String),
    #[error("the secret `{0}` has a NUL in it")]
    Nul(String),
    #[error("cannot listen for the command")]
    Listen(#[source] io::Error),
}

impl From<CredentialError> for Failed {
    fn from(error: CredentialError) -> Self {
        let hint = match &error {
            CredentialError::Source { error, .. } => Some(error.hint.clone()),
            CredentialError::Store { error, .. } => error.hint(),
            CredentialError::NoProvider(name) => {
                Some(format!("write `secrets.{name}.provider`, such as \"anthropic\""))
            }
            CredentialError::NoAddress(name) => {
                Some(format!("write `secrets.{name}.base_url_var`"))
            }
            CredentialError::Nul(_) | CredentialError::Listen(_) => None,
        };
        Self::new(error, hint)
    }
}

/// Who gets the variables of secrets.
trait Holder {
    /// Sets a variable.
    fn set(&mut self, name: &str, value: String, secret: &Sourced<config::Secret>);

    /// No other variable may carry what the command must not hold.
    fn hide(&mut self, _: &Secret) {}

    /// Tells a program where the proxy is that knows no variable for it.
    fn tell_codex(&mut self, _: &str, _: &str) {}
}

/// The variables of a container.
impl Holder for container::Secrets {
    fn set(&mut self, name: &str, value: String, _: &Sourced<config::Secret>) {
        self.env.push((name.to_owned(), value));
    }
}

/// The secrets of a container: its variables, and what the proxy is told.
pub(crate) fn for_container(
    config: &Config,
    address: Ipv4Addr,
    host: &Host,
) -> Result<container::Secrets, Failed> {
    let mut made = container::Secrets { ssh_key: ssh_key(config, host)?, ..Default::default() };
    if config.secrets.is_empty() {
        return Ok(made);
    }
    let sources = sources(host)?;
    let address = format!("http://{address}:{PROXY_PORT}");
    for (name, secret) in &config.secrets {
        match secret.value.mode {
            SecretMode::Inject => inject(&mut made, name, secret, &sources, host)?,
            SecretMode::Proxy => {
                let mut session = replace(&mut made, name, secret, &address, host)?;
                close(&mut session, is_closed(config));
                made.sessions.push(session);
            }
        }
    }
    Ok(made)
}

/// Whether a container reaches nothing, or hosts by name.
fn is_closed(config: &Config) -> bool {
    let network = config.session.network.as_ref().map(|network| &network.value);
    network.is_none_or(|wanted| matches!(wanted, ContainerNetwork::None | ContainerNetwork::Allow))
}

/// Where the network is closed, a provider's own tools would open it again. Who is no provider of models has none.
fn close(session: &mut Registration, closed: bool) {
    if closed && session.terms.provider != "custom" {
        session.terms.server_tools.get_or_insert_default();
    }
}

/// The stored key by which host commands go to the host, if they go by SSH and one is named.
fn ssh_key(config: &Config, host: &Host) -> Result<Option<Secret>, Failed> {
    let asked = config.session.host_commands.as_ref().map(|asked| &asked.value);
    let asked = asked.filter(|asked| asked.enabled && asked.transport == Transport::Ssh);
    let Some(name) = asked.and_then(|asked| asked.ssh_key_secret.as_ref()) else { return Ok(None) };
    let failed = |error| CredentialError::Store { name: name.clone(), error };
    let stored = Name::parse(name).map_err(failed)?;
    let key = store(host)?.get(&stored).map_err(|error| {
        let mut failed = Failed::from(failed(error));
        let hint = failed.hint.take().unwrap_or_default();
        failed.hint = Some(format!(
            "{hint} < KEY; or leave `ssh_key_secret` out: each session then has a key of its own"
        ));
        failed
    })?;
    Ok(Some(key))
}

/// What the proxy is told about a run.
#[derive(Default)]
pub(crate) struct Credentials {
    /// The sessions, one for each secret.
    pub sessions: Vec<Registration>,
    /// Where the command finds the proxy, when it shares the host's network.
    pub listener: Option<OwnedFd>,
}

impl Credentials {
    /// Gives the plan's command the variables of its secrets. Inside a sandbox they are there already.
    pub(crate) fn begin(plan: &mut Plan, host: &Host) -> Result<Self, Failed> {
        let mut made = Self::default();
        if plan.config.secrets.is_empty() || host.inside {
            return Ok(made);
        }
        let sources = sources(host)?;
        let address = made.address(plan)?;
        for (name, secret) in plan.config.secrets.clone() {
            match secret.value.mode {
                SecretMode::Inject => inject(plan, &name, &secret, &sources, host)?,
                SecretMode::Proxy => {
                    let mut session = replace(plan, &name, &secret, &address, host)?;
                    close(&mut session, plan.config.network.value != Network::On);
                    made.sessions.push(session);
                }
            }
        }
        Ok(made)
    }

    /// With a network of its own, the command finds the proxy where it finds the way out.
    fn address(&mut self, plan: &Plan) -> Result<String, CredentialError> {
        if !plan.config.uses_proxy() || plan.config.network.value != Network::On {
            return Ok(format!("http://127.0.0.1:{PROXY_PORT}"));
        }
        let listen = || -> io::Result<_> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            Ok((listener.local_addr()?, OwnedFd::from(listener)))
        };
        let (address, listener) = listen().map_err(CredentialError::Listen)?;
        self.listener = Some(listener);
        Ok(format!("http://{address}"))
    }
}

fn inject(
    holder: &mut impl Holder,
    name: &str,
    secret: &Sourced<config::Secret>,
    sources: &Sources,
    host: &Host,
) -> Result<(), CredentialError> {
    let value = match place(name, &secret.value, host)? {
        Place::Env(variable) => variable_of(name, &variable, host)?,
        place => {
            let failed = |error| CredentialError::Source { name: name.to_owned(), error };
            sources.at(&place).map_err(failed)?.value
        }
    };
    if value.expose().contains('\0') {
        return Err(CredentialError::Nul(name.to_owned()));
    }
    holder.set(secret.value.env_var.as_str(), value.expose().to_owned(), secret);
    Ok(())
}

/// The session of one secret, and the token in its place.
fn replace(
    holder: &mut impl Holder,
    name: &str,
    secret: &Sourced<config::Secret>,
    address: &str,
    host: &Host,
) -> Result<Registration, CredentialError> {
    let provider = provider(name, &secret.value)?;
    let session = session(name, &secret.value, host)?;
    if let Some(key) = &session.api_key {
        holder.hide(key);
    }
    holder.set(secret.value.env_var.as_str(), session.token.text().to_string(), secret);
    for (variable, behind) in addresses(name, &secret.value, provider)? {
        holder.set(&variable, format!("{address}{behind}"), secret);
    }
    if provider.name == "openai" {
        holder.tell_codex(address, secret.value.env_var.as_str());
    }
    Ok(session)
}

/// The session of a secret that the configuration names, as the proxy is told of it.
pub(crate) fn registration(
    name: &str,
    secret: &config::Secret,
    host: &Host,
) -> Result<Registration, Failed> {
    Ok(session(name, secret, host)?)
}

fn session(
    name: &str,
    secret: &config::Secret,
    host: &Host,
) -> Result<Registration, CredentialError> {
    let provider = provider(name, secret)?;
    let (api_key, reference) = match place(name, secret, host)? {
        // What only this process knows is handed over; the rest is asked for where it is.
        Place::Env(variable) => (Some(variable_of(name, &variable, host)?), None),
        place => (None, serde_json::to_value(&place).ok().map(SecretRef)),
    };
    let terms = Terms {
        provider: provider.name.to_owned(),
        secret: reference,
        upstream_url: secret.upstream_url.clone(),
        credential: placement(secret),
        routes: secret.routes.clone(),
        server_tools: secret.server_tools.clone(),
        limits: Limits {
            requests_per_minute: secret.requests_per_minute,
            max_parallel: secret.max_parallel,
            token_budget: secret.token_budget,
            models: secret.models.clone(),
            ..Limits::default()
        },
        ..Terms::default()
    };
    let token = Token::generate().map_err(CredentialError::Listen)?;
    Ok(Registration { token, api_key, terms })
}

fn provider(name: &str, secret: &config::Secret) -> Result<&'static Provider, CredentialError> {
    let by_variable = || {
        let found = BY_VARIABLE.iter().find(|(variable, _)| *variable == secret.env_var.as_str());
        found.map(|(_, provider)| *provider)
    };
    let word = match &secret.provider {
        Some(provider) => Some(provider.as_str()),
        None if secret.base_url_var.is_some() => Some("custom"),
        None => by_variable(),
    };
    let unknown = || CredentialError::NoProvider(name.to_owned());
    Provider::named(word.ok_or_else(unknown)?).map_err(|_| unknown())
}

fn addresses(
    name: &str,
    secret: &config::Secret,
    provider: &Provider,
) -> Result<Vec<(String, &'static str)>, CredentialError> {
    let usual =
        ADDRESSES.iter().find(|(known, _)| *known == provider.name).map_or(&[][..], |row| row.1);
    let mut all: Vec<_> =
        usual.iter().map(|(variable, behind)| ((*variable).to_owned(), *behind)).collect();
    all.extend(secret.base_url_var.as_ref().map(|variable| (variable.as_str().to_owned(), "")));
    if all.is_empty() && provider.name == "custom" {
        return Err(CredentialError::NoAddress(name.to_owned()));
    }
    Ok(all)
}

fn placement(secret: &config::Secret) -> Option<Placement> {
    let format = || secret.format.clone().unwrap_or_else(|| "{}".to_owned());
    match (&secret.header, &secret.query, &secret.basic_user) {
        (Some(name), _, _) => Some(Placement::Header { name: name.clone(), format: format() }),
        (None, Some(name), _) => Some(Placement::Query { name: name.clone() }),
        (None, None, Some(user)) => Some(Placement::Basic { user: user.clone() }),
        (None, None, None) => {
            let format = secret.format.clone()?;
            Some(Placement::Header { name: "authorization".into(), format })
        }
    }
}

/// Where a secret is: as the configuration says, else in the store, else in the caller's environment.
fn place(name: &str, secret: &config::Secret, host: &Host) -> Result<Place, CredentialError> {
    let failed = |error| CredentialError::Store { name: name.to_owned(), error };
    let variable = secret.env_var.as_str().to_owned();
    Ok(match secret {
        config::Secret { from_store: Some(name), .. } => {
            Place::Store(Name::parse(name).map_err(failed)?)
        }
        config::Secret { from_env: Some(name), .. } => Place::Env(name.as_str().to_owned()),
        config::Secret { from_file: Some(path), .. } => Place::File(path.into()),
        config::Secret { from_env_file: Some(path), .. } => {
            Place::EnvFile { path: path.into(), name: variable }
        }
        config::Secret { from_command: Some(argv), lasting, .. } => {
            Place::Command { argv: argv.clone(), lasting: lasting.map(Lasting).unwrap_or_default() }
        }
        config::Secret { from_login: Some(login), .. } => Place::Login(match login {
            config::Login::Claude => Login::Claude,
            config::Login::Codex => Login::Codex,
        }),
        _ => match Name::parse(name) {
            Ok(stored) if is_stored(&stored, host).map_err(failed)? => Place::Store(stored),
            _ => Place::Env(variable),
        },
    })
}

fn is_stored(name: &Name, host: &Host) -> Result<bool, StoreError> {
    store(host).map_or(Ok(false), |store| store.has(name))
}

fn variable_of(name: &str, variable: &str, host: &Host) -> Result<Secret, CredentialError> {
    let value = host.var(variable).and_then(|value| value.to_str());
    value.map(|value| Secret::from(value.to_owned())).ok_or_else(|| CredentialError::Source {
        name: name.to_owned(),
        error: SourceError {
            message: format!("the variable `{variable}` is not set"),
            hint: format!("store it: agent-sandbox secret set {name}"),
        },
    })
}

impl Holder for Plan {
    fn set(&mut self, name: &str, value: String, secret: &Sourced<config::Secret>) {
        let value = OsString::from(value);
        self.environment.set.insert(name.into(), value.clone());
        self.environment.hidden.retain(|hidden| hidden.name != name);
        self.environment.own.insert(name.to_owned(), Sourced::new(value, secret.origin.clone()));
    }

    fn hide(&mut self, key: &Secret) {
        // Shorter texts stand in other values by chance.
        const SHORTEST: usize = 8;
        let key = key.expose();
        let holds = |value: &OsString| {
            *value == *key || key.len() >= SHORTEST && value.to_string_lossy().contains(key)
        };
        self.environment.set.retain(|_, value| !holds(value));
    }

    /// Codex has no variable for its server, and takes no key from a variable for its own provider. It
    /// does both for a provider that its settings describe, which flags can give.
    fn tell_codex(&mut self, address: &str, variable: &str) {
        // In a session the agent's words stand behind those of its server.
        let at = if server::is_in(&self.command) { server::WORDS } else { 0 };
        let is_codex = self
            .command
            .get(at)
            .is_some_and(|word| Path::new(word).file_name().is_some_and(|name| name == "codex"));
        if !is_codex {
            return;
        }
        let provider = format!(
            "model_providers.agent-sandbox={{name=\"OpenAI\",base_url=\"{address}/v1\",env_key=\"{variable}\",wire_api=\"responses\"}}"
        );
        let words = ["-c", "model_provider=agent-sandbox", "-c", &provider].map(OsString::from);
        let behind = at + 1;
        self.command.splice(behind..behind, words);
    }
}
