//! Credentials of a run. Decides what the command holds and what the proxy holds for it.
//!
//! A secret in mode `inject` becomes a variable. A secret in mode `proxy` stays outside the sandbox. Its variable gets
//! a token that is valid for this secret and this run, and the provider's base URL is set to the proxy's.

mod covered;
mod agents;
mod container;
mod registration;
mod test_session;

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use sandbox_core::plan::{Decided, Environment, Inputs};
use sandbox_policy::Host;
use sandbox_policy::config::{self, Config, Network, SecretMode, Sourced};
use sandbox_policy::network::PROXY_PORT;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::credential::{Secret, SourceError};
use sandbox_proxy::secret::{Location, Sources, Store, StoreError};
use sandbox_proxy::session::Registration;
use thiserror::Error;

pub use container::{ContainerCredentials, for_container};
pub use registration::registration;
pub use test_session::{TestError, Tested, test_session};

/// Failure to provide a secret.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// There is no home directory.
    #[error("cannot find the secret store: there is no home directory")]
    NoHome,
    /// The secret's source failed.
    #[error("cannot read secret `{name}`: {}", error.message)]
    Source {
        /// The secret.
        name: String,
        /// The reason.
        error: SourceError,
    },
    /// The secret's name or the store is not usable.
    #[error("cannot use secret `{name}`")]
    Store {
        /// The secret.
        name: String,
        /// The reason.
        #[source]
        error: StoreError,
    },
    /// The SSH key of host commands is not in the store.
    #[error("cannot use secret `{name}`")]
    SshKey {
        /// The secret.
        name: String,
        /// The reason.
        #[source]
        error: StoreError,
    },
    /// A proxied secret without a provider.
    #[error("secret `{0}` has no provider")]
    NoProvider(String),
    /// A custom provider whose address has no variable.
    #[error("secret `{0}` has no variable for the proxy's address")]
    NoAddress(String),
    /// A secret that does not fit into a variable.
    #[error("secret `{0}` contains a NUL byte")]
    Nul(String),
    /// No socket or no random number for the command.
    #[error("cannot listen for the command")]
    Listen(#[source] io::Error),
}

impl Hint for CredentialError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME`".into()),
            Self::Source { error, .. } => Some(error.hint.clone()),
            Self::SshKey { name, error: StoreError::Missing(_) } => Some(format!(
                "store the key with `agent-sandbox secret set {name} < KEY`, or remove `ssh_key_secret` to get a generated key for each session"
            )),
            Self::Store { error, .. } | Self::SshKey { error, .. } => error.hint(),
            Self::NoProvider(name) => {
                Some(format!("set `secrets.{name}.provider`, for example to \"anthropic\""))
            }
            Self::NoAddress(name) => Some(format!("set `secrets.{name}.base_url_var`")),
            Self::Nul(_) | Self::Listen(_) => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if matches!(self, Self::NoHome) { ExitCode::Failure } else { ExitCode::Setup }
    }
}

/// Opens the user's store.
pub fn store(host: &Host) -> Result<Store, CredentialError> {
    let data = host.data_dir().ok_or(CredentialError::NoHome)?;
    Ok(Store::at(data.join("secrets")))
}

/// Returns every location a secret of the user can come from.
pub fn sources(host: &Host) -> Result<Sources, CredentialError> {
    let home = host.home.clone().ok_or(CredentialError::NoHome)?;
    Ok(Sources::new(store(host)?, home))
}

/// Receiver of a secret's variables.
trait Holder {
    /// Sets a variable.
    fn set(&mut self, name: &str, value: String, secret: &Sourced<config::Secret>);

    /// Removes all other variables whose value contains a key that the command must not hold.
    fn hide(&mut self, _: &Secret) {}

    /// Returns a variable that is already set.
    fn get(&self, name: &str) -> Option<String>;
}

impl Holder for Environment {
    fn set(&mut self, name: &str, value: String, secret: &Sourced<config::Secret>) {
        let value = OsString::from(value);
        self.set.insert(name.into(), value.clone());
        self.hidden.retain(|hidden| hidden.name != name);
        self.own.insert(name.to_owned(), Sourced::new(value, secret.origin.clone()));
    }

    fn get(&self, name: &str) -> Option<String> {
        let value = self.set.get(OsStr::new(name))?;
        value.to_str().map(str::to_owned)
    }

    fn hide(&mut self, key: &Secret) {
        // Shorter texts occur in other values by chance.
        const SHORTEST: usize = 8;
        let key = key.expose();
        let holds = |value: &OsString| {
            *value == *key || key.len() >= SHORTEST && value.to_string_lossy().contains(key)
        };
        self.set.retain(|_, value| !holds(value));
    }
}

/// Part of a run's secrets that the proxy handles.
#[derive(Default)]
pub(crate) struct Credentials {
    /// Proxy sessions, one for each secret.
    pub(crate) sessions: Vec<Registration>,
    /// Listener for a command that shares the host's network.
    pub(crate) listener: Option<OwnedFd>,
    /// Placeholder files for agents' settings. Dropping them removes the unused ones.
    settings: Vec<covered::Placeholder>,
}

impl Credentials {
    /// Resolves the policy's secrets and sets the command's variables. Inside a sandbox they are already set.
    pub(crate) fn resolve(
        host: &Host,
        decided: &Decided,
        mut inputs: Inputs,
        agent_at: usize,
    ) -> Result<(Self, Inputs), CredentialError> {
        let mut made = Self::default();
        let config = decided.config();
        if config.secrets.is_empty() || host.inside {
            return Ok((made, inputs));
        }
        let sources = sources(host)?;
        let address = made.address(config)?;
        for (name, secret) in &config.secrets {
            match secret.value.mode {
                SecretMode::Inject => {
                    inject(&mut inputs.environment, name, secret, &sources, host)?;
                }
                SecretMode::Proxy => {
                    let mut session =
                        replace(&mut inputs.environment, name, secret, &address, host)?;
                    registration::close(&mut session, config.network.value != Network::On);
                    let told = agents::Told {
                        provider: registration::provider(name, &secret.value)?,
                        address: &address,
                        variable: secret.value.env_var.as_str(),
                    };
                    made.settings.extend(agents::settings(
                        host,
                        decided,
                        &mut inputs,
                        agent_at,
                        &told,
                    ));
                    agents::flags(&mut inputs.command, agent_at, &told);
                    made.sessions.push(session);
                }
            }
        }
        Ok((made, inputs))
    }

    /// Returns the proxy's address as the command sees it. In a separate network namespace, that is the egress port.
    fn address(&mut self, config: &Config) -> Result<String, CredentialError> {
        if !config.uses_proxy() || config.network.value != Network::On {
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
    let value = match registration::location(name, &secret.value, host)? {
        Location::Env(variable) => registration::variable_of(name, &variable, host)?,
        location => {
            let failed = |error| CredentialError::Source { name: name.to_owned(), error };
            sources.at(&location).map_err(failed)?.value
        }
    };
    if value.expose().contains('\0') {
        return Err(CredentialError::Nul(name.to_owned()));
    }
    holder.set(secret.value.env_var.as_str(), value.expose().to_owned(), secret);
    Ok(())
}

/// Gives the command a token instead of the secret. Returns the proxy session of the token.
fn replace(
    holder: &mut impl Holder,
    name: &str,
    secret: &Sourced<config::Secret>,
    address: &str,
    host: &Host,
) -> Result<Registration, CredentialError> {
    let provider = registration::provider(name, &secret.value)?;
    let session = registration::registration(name, &secret.value, host)?;
    if let Some(key) = &session.api_key {
        holder.hide(key);
    }
    holder.set(secret.value.env_var.as_str(), session.token.text().to_string(), secret);
    for (variable, behind) in registration::addresses(name, &secret.value, provider)? {
        holder.set(&variable, format!("{address}{behind}"), secret);
    }
    agents::tell(holder, provider, address, secret);
    Ok(session)
}
