//! Conversion of a configured secret into a session of the proxy.

use std::num::NonZeroU32;

use sandbox_policy::Host;
use sandbox_policy::catalog::Provider;
use sandbox_policy::catalog::provider::{OwnTools, Upstream};
use sandbox_policy::config::{self, ModelText, RouteText, ToolText};
use sandbox_proxy::credential::{Placement, Secret, SecretRef, SourceError};
use sandbox_proxy::secret::{Lasting, Location, Name, StoreError};
use sandbox_proxy::session::{Limits, Registration, Terms};
use sandbox_proxy::token::Token;

use super::{CredentialError, store};

/// Denies a provider's server-side tools when the network is closed, because they would bypass that. Custom providers
/// have none.
pub(super) fn close(session: &mut Registration, closed: bool) {
    let has_tools = |provider: &Provider| provider.tools.own == OwnTools::Some;
    if closed && Provider::named(&session.terms.provider).is_ok_and(has_tools) {
        session.terms.server_tools.get_or_insert_default();
    }
}

/// Returns the proxy session for a configured secret.
pub fn registration(
    name: &str,
    secret: &config::Secret,
    host: &Host,
) -> Result<Registration, CredentialError> {
    let provider = provider(name, secret)?;
    let (api_key, reference) = match location(name, secret, host)? {
        // A variable of this process is sent by value. The proxy resolves every other location itself.
        Location::Env(variable) => (Some(variable_of(name, &variable, host)?), None),
        location => (None, serde_json::to_value(&location).ok().map(SecretRef)),
    };
    let terms = Terms {
        provider: provider.name.to_owned(),
        secret: reference,
        upstream_url: secret.upstream_url.as_ref().map(|url| url.as_str().to_owned()),
        credential: placement(secret),
        routes: texts(secret.routes.as_ref(), RouteText::as_str),
        server_tools: texts(secret.server_tools.as_ref(), ToolText::as_str),
        limits: Limits {
            requests_per_minute: secret.requests_per_minute.map(NonZeroU32::get),
            max_parallel: secret.max_parallel.map(NonZeroU32::get),
            token_budget: secret.token_budget,
            models: texts(secret.models.as_ref(), ModelText::as_str),
            ..Limits::default()
        },
        ..Terms::default()
    };
    let token = Token::generate().map_err(CredentialError::Listen)?;
    Ok(Registration { token, api_key, terms })
}

/// Returns the provider of a secret. Only `secret test` can name a secret without one.
pub(super) fn provider(
    name: &str,
    secret: &config::Secret,
) -> Result<&'static Provider, CredentialError> {
    let unknown = || CredentialError::NoProvider(name.to_owned());
    secret.provider().ok_or_else(unknown)
}

pub(super) fn addresses(
    name: &str,
    secret: &config::Secret,
    provider: &Provider,
) -> Result<Vec<(String, &'static str)>, CredentialError> {
    let usual = provider.addresses.iter();
    let mut all: Vec<_> =
        usual.map(|(variable, behind)| ((*variable).to_owned(), *behind)).collect();
    all.extend(secret.base_url_var.as_ref().map(|variable| (variable.as_str().to_owned(), "")));
    if all.is_empty() && provider.upstream == Upstream::Configured {
        return Err(CredentialError::NoAddress(name.to_owned()));
    }
    Ok(all)
}

fn texts<T>(list: Option<&Vec<T>>, text: fn(&T) -> &str) -> Option<Vec<String>> {
    list.map(|list| list.iter().map(|word| text(word).to_owned()).collect())
}

fn placement(secret: &config::Secret) -> Option<Placement> {
    let format = secret.format.as_ref().map(|format| format.as_str().to_owned());
    match (&secret.header, &secret.query, &secret.basic_user) {
        (Some(name), _, _) => Some(Placement::Header {
            name: name.as_str().to_owned(),
            format: format.unwrap_or_else(|| "{}".to_owned()),
        }),
        (None, Some(name), _) => Some(Placement::Query { name: name.as_str().to_owned() }),
        (None, None, Some(user)) => Some(Placement::Basic { user: user.as_str().to_owned() }),
        (None, None, None) => {
            format.map(|format| Placement::Header { name: "authorization".into(), format })
        }
    }
}

/// Returns the location of a secret: the configured one, else the store, else the caller's environment.
pub(super) fn location(
    name: &str,
    secret: &config::Secret,
    host: &Host,
) -> Result<Location, CredentialError> {
    let failed = |error| CredentialError::Store { name: name.to_owned(), error };
    let variable = secret.env_var.as_str().to_owned();
    Ok(match secret {
        config::Secret { from_store: Some(name), .. } => {
            Location::Store(Name::parse(name.as_str()).map_err(failed)?)
        }
        config::Secret { from_env: Some(name), .. } => Location::Env(name.as_str().to_owned()),
        config::Secret { from_file: Some(path), .. } => Location::File(path.as_str().into()),
        config::Secret { from_env_file: Some(path), .. } => {
            Location::EnvFile { path: path.as_str().into(), name: variable }
        }
        config::Secret { from_command: Some(argv), lasting, .. } => {
            let argv = argv.iter().map(|word| word.as_str().to_owned()).collect();
            Location::Command { argv, lasting: lasting.map(Lasting).unwrap_or_default() }
        }
        config::Secret { from_login: Some(login), .. } => Location::Login(login),
        _ => match Name::parse(name) {
            Ok(stored) if is_stored(&stored, host).map_err(failed)? => Location::Store(stored),
            _ => Location::Env(variable),
        },
    })
}

fn is_stored(name: &Name, host: &Host) -> Result<bool, StoreError> {
    store(host).map_or(Ok(false), |store| store.has(name))
}

pub(super) fn variable_of(
    name: &str,
    variable: &str,
    host: &Host,
) -> Result<Secret, CredentialError> {
    let value = host.var(variable).and_then(|value| value.to_str());
    value.map(|value| Secret::from(value.to_owned())).ok_or_else(|| CredentialError::Source {
        name: name.to_owned(),
        error: SourceError {
            message: format!("variable `{variable}` is not set"),
            hint: format!("run `agent-sandbox secret set {name}`"),
        },
    })
}
