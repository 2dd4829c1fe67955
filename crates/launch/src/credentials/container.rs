//! Credentials of a container: its variables, and the proxy's part.

use std::net::Ipv4Addr;

use sandbox_policy::Host;
use sandbox_policy::config::{self, Config, ContainerNetwork, SecretMode, Sourced, Transport};
use sandbox_policy::network::PROXY_PORT;
use sandbox_proxy::credential::Secret;
use sandbox_proxy::secret::Name;
use sandbox_proxy::session::Registration;

use super::{CredentialError, Holder, inject, registration, replace, sources, store};

/// Variables of a container's secrets, and the sessions that the proxy needs for them.
#[derive(Debug, Default)]
pub struct ContainerCredentials {
    /// Variables.
    pub env: Vec<(String, String)>,
    /// Sessions of the proxy.
    pub sessions: Vec<Registration>,
    /// SSH key for host commands, if one is stored.
    pub ssh_key: Option<Secret>,
}

impl Holder for ContainerCredentials {
    fn set(&mut self, name: &str, value: String, _: &Sourced<config::Secret>) {
        self.env.retain(|(set, _)| set != name);
        self.env.push((name.to_owned(), value));
    }

    fn get(&self, name: &str) -> Option<String> {
        self.env.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone())
    }
}

/// Resolves the secrets of a configuration for a container that reaches the proxy at this address.
pub fn for_container(
    config: &Config,
    address: Ipv4Addr,
    host: &Host,
) -> Result<ContainerCredentials, CredentialError> {
    let mut made = ContainerCredentials { ssh_key: ssh_key(config, host)?, ..Default::default() };
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
                registration::close(&mut session, is_closed(config));
                made.sessions.push(session);
            }
        }
    }
    Ok(made)
}

/// Returns true when a container has no network, or only an allow list of hosts.
fn is_closed(config: &Config) -> bool {
    let network = config.session.network.as_ref().map(|network| &network.value);
    network.is_none_or(|wanted| matches!(wanted, ContainerNetwork::None | ContainerNetwork::Allow))
}

/// Returns the stored SSH key for host commands, if they use SSH and the configuration names one.
fn ssh_key(config: &Config, host: &Host) -> Result<Option<Secret>, CredentialError> {
    let asked = config.session.host_commands.as_ref().map(|asked| &asked.value);
    let asked = asked.filter(|asked| asked.enabled && asked.transport == Transport::Ssh);
    let Some(name) = asked.and_then(|asked| asked.ssh_key_secret.as_ref()) else { return Ok(None) };
    let name = name.as_str();
    let invalid = |error| CredentialError::Store { name: name.to_owned(), error };
    let missing = |error| CredentialError::SshKey { name: name.to_owned(), error };
    let stored = Name::parse(name).map_err(invalid)?;
    Ok(Some(store(host)?.get(&stored).map_err(missing)?))
}
