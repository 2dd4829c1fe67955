//! Proxy session for the test of one secret.

use sandbox_policy::Host;
use sandbox_policy::catalog::{PROVIDERS, Provider, UnknownProvider};
use sandbox_policy::config;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::credential::SecretRef;
use sandbox_proxy::secret::{Location, Name, StoreError};
use sandbox_proxy::session::{Limits, Registration, Terms};
use sandbox_proxy::token::Token;
use thiserror::Error;

use super::{CredentialError, registration, store};

/// Secret to test.
#[derive(Debug, Clone, Copy)]
pub struct Tested<'t> {
    /// Name in the configuration, else in the store.
    pub name: &'t str,
    /// Configuration of the secret.
    pub configured: Option<&'t config::Secret>,
    /// Provider that overrides the configured one.
    pub provider: Option<&'t str>,
    /// Server that overrides the configured one.
    pub upstream_url: Option<&'t str>,
}

/// Failure to prepare the test of a secret.
#[derive(Debug, Error)]
pub enum TestError {
    /// Neither the caller nor the name tells the provider.
    #[error("secret `{0}` has no provider")]
    NoProvider(Name),
    /// The provider does not exist.
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    /// The secret cannot be provided.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The store cannot be read, or does not have the secret.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Hint for TestError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoProvider(name) => {
                Some(format!("agent-sandbox secret test {name} --provider anthropic"))
            }
            Self::Provider(_) => {
                let known = PROVIDERS.iter().map(|provider| provider.name);
                Some(format!("known providers: {}", known.collect::<Vec<_>>().join(", ")))
            }
            Self::Credential(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Credential(error) => error.exit_code(),
            Self::Store(error) => error.exit_code(),
            Self::NoProvider(_) | Self::Provider(_) => ExitCode::Failure,
        }
    }
}

/// Returns the proxy session for a test, with the secret's provider. It has no limits, because those are for sandboxes.
pub fn test_session(
    tested: &Tested<'_>,
    host: &Host,
) -> Result<(&'static Provider, Registration), TestError> {
    let mut session = match tested.configured {
        Some(secret) => registration(tested.name, secret, host)?,
        None => stored(tested, host)?,
    };
    if let Some(provider) = tested.provider {
        session.terms.provider = Provider::named(provider)?.name.into();
    }
    if let Some(url) = tested.upstream_url {
        session.terms.upstream_url = Some(url.to_owned());
    }
    (session.terms.routes, session.terms.limits) = (None, Limits::default());
    Ok((Provider::named(&session.terms.provider)?, session))
}

fn stored(tested: &Tested<'_>, host: &Host) -> Result<Registration, TestError> {
    let name = Name::parse(tested.name)?;
    // Fails before the caller starts a proxy, if the store does not have the secret.
    drop(store(host)?.get(&name)?);
    let provider = tested.provider.unwrap_or(name.as_str());
    if tested.provider.is_none() && Provider::named(provider).is_err() {
        return Err(TestError::NoProvider(name));
    }
    let terms = Terms {
        provider: provider.to_owned(),
        secret: serde_json::to_value(Location::Store(name)).ok().map(SecretRef),
        ..Terms::default()
    };
    let token = Token::generate().map_err(CredentialError::Listen)?;
    Ok(Registration { token, api_key: None, terms })
}
