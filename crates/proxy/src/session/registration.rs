//! Registration of sessions: the request, and its conversion into a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use sandbox_policy::catalog::Provider;
use sandbox_policy::catalog::provider::{Header, Upstream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ending::Ending;
use super::error::RegistrationError;
use super::key::Key;
use super::{Limits, ProxySession, State};
use crate::credential::{Placement, Secret, SecretRef, Source};
use crate::headers;
use crate::route::Routes;
use crate::server_tools::ServerTools;
use crate::token::{Token, TokenHash};
use crate::upstream::{Target, TargetError};

/// Request to register a session. In JSON, `token`, `api_key` and the terms are siblings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Registration {
    /// Token for the sandbox.
    pub token: Token,
    /// The key, unless `terms.secret` refers to one.
    pub api_key: Option<Secret>,
    /// Everything else, which is saved on disk.
    pub terms: Terms,
}

/// Properties of a session that are not secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Name of the provider.
    pub provider: String,
    /// Reference to the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretRef>,
    /// Server, if it is not the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_url: Option<String>,
    /// ID of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Placement of the key, if it is not the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Placement>,
    /// Headers that are added to every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Allowed methods and paths, if they are not the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<String>>,
    /// Allowed server-side tools, such as `web_search`. `None` allows all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_tools: Option<Vec<String>>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
}

impl TryFrom<Map<String, Value>> for Registration {
    type Error = String;

    fn try_from(mut map: Map<String, Value>) -> Result<Self, String> {
        let token = map.remove("token").ok_or("`token` is missing")?;
        let token = serde_json::from_value(token).map_err(|error| error.to_string())?;
        let api_key =
            map.remove("api_key").map(serde_json::from_value::<Option<Secret>>).transpose();
        // serde's error message would contain the value.
        let api_key = api_key.map_err(|_| "`api_key` is not a string")?.flatten();
        let terms =
            serde_json::from_value(Value::Object(map)).map_err(|error| error.to_string())?;
        Ok(Self { token, api_key, terms })
    }
}

impl Registration {
    /// Returns the request as JSON. It contains the key.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(&self.terms)?;
        value["token"] = Value::String(self.token.text().to_string());
        if let Some(key) = &self.api_key {
            value["api_key"] = Value::String(key.expose().to_owned());
        }
        Ok(value)
    }
}

impl ProxySession {
    /// Creates a session.
    pub(super) fn new(
        hash: TokenHash,
        terms: &Terms,
        key: Option<Secret>,
        bound: bool,
        state: Arc<State>,
        source: &Arc<dyn Source>,
    ) -> Result<Self, RegistrationError> {
        let provider = Provider::named(&terms.provider)?;
        let target = target(provider, terms)?;
        check_id(terms)?;
        if let Some(placement) = &terms.credential {
            placement.check()?;
        }
        let needs_key =
            terms.credential.clone().unwrap_or_else(|| provider.key.into()) != Placement::None;
        let key = Key::new(key, terms.secret.clone(), needs_key, source)?;
        let routes = match &terms.routes {
            Some(routes) => Routes::parse(routes.iter().map(String::as_str))?,
            None => Routes::parse(provider.routes.iter().copied())?,
        };
        let server_tools = match &terms.server_tools {
            Some(names) => ServerTools::parse(names)?,
            None => None,
        };
        let session = Self {
            hash,
            id: hash.short(),
            provider,
            host: target.host_header().ok_or_else(|| TargetError::Url(target.url()))?,
            target: Arc::new(target),
            sandbox: terms.sandbox_id.clone(),
            bound,
            routes,
            server_tools,
            limits: terms.limits.clone(),
            ending: Ending::of(&terms.limits, None),
            headers: set_headers(&terms.headers)?,
            placement: terms.credential.clone(),
            key,
            state,
        };
        session.key.check(&session)?;
        Ok(session)
    }

    /// Returns the placement of the key, and the headers that it needs.
    pub(super) fn shape(&self, key: &str) -> (Placement, &'static [Header]) {
        let provider = self.provider.for_key(key);
        (self.placement.clone().unwrap_or_else(|| provider.key.into()), provider.headers)
    }
}

fn target(provider: &Provider, terms: &Terms) -> Result<Target, RegistrationError> {
    match (&terms.upstream_url, provider.upstream) {
        (Some(url), _) => Ok(Target::named(url)?),
        (None, Upstream::Configured) => Err(RegistrationError::NoUpstream(provider.name.into())),
        (None, Upstream::Local(url)) => Ok(Target::named(url)?),
        (None, Upstream::Public(url)) => Ok(Target::public(url)?),
    }
}

fn check_id(terms: &Terms) -> Result<(), RegistrationError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let fits = |id: &String| (1..=128).contains(&id.len()) && id.bytes().all(plain);
    if terms.sandbox_id.as_ref().is_none_or(fits) {
        Ok(())
    } else {
        Err(RegistrationError::SandboxId)
    }
}

fn set_headers(
    wanted: &BTreeMap<String, String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, RegistrationError> {
    let mut set = Vec::new();
    for (name, value) in wanted {
        let wrong = || RegistrationError::Header(name.clone());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        if headers::is_connection_bound(&name) || headers::is_credential(&name) {
            return Err(wrong());
        }
        set.push((name, HeaderValue::from_str(value).map_err(|_| wrong())?));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandbox_policy::config as policy;

    use super::*;

    /// Random texts that resemble values of a secret's configuration keys.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "GET",
            "POST",
            "get",
            "*",
            " ",
            "/",
            "/v1",
            "/**",
            "/*",
            "[",
            "]",
            "{",
            "}",
            "{}",
            "\\",
            "http",
            "https",
            "HTTPS",
            "ftp",
            "://",
            ":",
            "8080",
            "0",
            "99999",
            "host",
            "[::1]",
            "127.0.0.1",
            "@",
            "u:p@",
            "?",
            "#",
            "..",
            "/..",
            "/./",
            ";",
            "%2e",
            "%41",
            "%",
            "%00",
            "é",
            "\n",
            "\t",
            "\0",
            "x-key",
            "Host",
            "te",
            "Bearer ",
            "web_search",
            "a",
            "-",
            "_",
            ".",
            "+",
            "",
        ]);
        prop::collection::vec(pieces, 0..7).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// The configuration accepts nothing that a session would refuse later.
        #[test]
        fn sessions_accept_what_the_configuration_accepts(text in texts()) {
            let one = [text.clone()];
            let header = |name: &str, format: &str| {
                Placement::Header { name: name.to_owned(), format: format.to_owned() }.check()
            };
            if policy::RouteText::new(&text).is_ok() {
                prop_assert!(Routes::parse([text.as_str()]).is_ok(), "route {text:?}");
            }
            if policy::UpstreamUrl::new(&text).is_ok() {
                let target = Target::named(&text);
                prop_assert!(target.is_ok_and(|target| target.host_header().is_some()), "URL {text:?}");
            }
            if policy::HeaderText::new(&text).is_ok() {
                prop_assert!(header(&text, "{}").is_ok(), "header {text:?}");
            }
            if policy::FormatText::new(&text).is_ok() {
                prop_assert!(header("x-key", &text).is_ok(), "format {text:?}");
            }
            if policy::QueryText::new(&text).is_ok() {
                prop_assert!(Placement::Query { name: text.clone() }.check().is_ok(), "query {text:?}");
            }
            if policy::BasicUser::new(&text).is_ok() {
                prop_assert!(Placement::Basic { user: text.clone() }.check().is_ok(), "user {text:?}");
            }
            if policy::ToolText::new(&text).is_ok() {
                prop_assert!(ServerTools::parse(&one).is_ok(), "tool {text:?}");
            }
            if policy::StoredName::new(&text).is_ok() {
                prop_assert!(crate::secret::Name::parse(&text).is_ok(), "name {text:?}");
            }
        }

        /// The configuration refuses nothing that a session would accept.
        #[test]
        fn configuration_accepts_what_sessions_accept(text in texts()) {
            let one = [text.clone()];
            let header = |name: &str, format: &str| {
                Placement::Header { name: name.to_owned(), format: format.to_owned() }.check().is_ok()
            };
            prop_assert_eq!(Routes::parse([text.as_str()]).is_ok(), policy::RouteText::new(&text).is_ok());
            prop_assert_eq!(header(&text, "{}"), policy::HeaderText::new(&text).is_ok());
            prop_assert_eq!(header("x-key", &text), policy::FormatText::new(&text).is_ok());
            let query = Placement::Query { name: text.clone() };
            prop_assert_eq!(query.check().is_ok(), policy::QueryText::new(&text).is_ok());
            prop_assert_eq!(ServerTools::parse(&one).is_ok(), policy::ToolText::new(&text).is_ok());
            prop_assert_eq!(crate::secret::Name::parse(&text).is_ok(), policy::StoredName::new(&text).is_ok());
        }
    }

    #[test]
    fn every_provider_has_a_valid_server() {
        for provider in sandbox_policy::catalog::PROVIDERS {
            let terms = Terms { provider: provider.name.into(), ..Terms::default() };
            match target(provider, &terms) {
                Err(RegistrationError::NoUpstream(name)) => assert_eq!(name, "custom"),
                target => assert!(target.is_ok(), "{}: {target:?}", provider.name),
            }
        }
    }
}
