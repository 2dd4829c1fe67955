//! Providers: where they are, how they take a key, what an agent needs of them. All of it is a table.

use thiserror::Error;

use crate::credential::Placement;

/// What is known about a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its server; empty when a session must name one.
    pub upstream: &'static str,
    /// The header that takes the key, and its format; empty when none is wanted.
    header: (&'static str, &'static str),
    /// Headers that every request needs. One with a list is merged with the client's.
    pub headers: &'static [(&'static str, &'static str)],
    /// What an agent may ask of it unless a session says otherwise.
    pub routes: &'static [&'static str],
}

/// The feature that makes Anthropic take a subscription's token.
const SUBSCRIPTION: (&str, &str) = ("anthropic-beta", "oauth-2025-04-20");

/// Talking to models. Files, batches, fine-tuning and administration of the account are not in it.
const ANTHROPIC_ROUTES: &[&str] = &[
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/complete",
    "GET /v1/models",
    "GET /v1/models/*",
    "GET /",
];
const OPENAI_ROUTES: &[&str] = &[
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "* /v1/responses",
    "* /v1/responses/**",
    "POST /v1/embeddings",
    "POST /v1/moderations",
    "POST /v1/audio/**",
    "POST /v1/images/**",
    "* /v1/realtime",
    "GET /v1/models",
    "GET /v1/models/*",
];
const CODEX_ROUTES: &[&str] = &[
    "* /**/responses",
    "* /**/responses/**",
    "* /responses",
    "* /responses/**",
    "GET /**/models",
    "GET /models",
];
/// Using models that are there. Pulling, pushing, copying and deleting them is not in it.
const OLLAMA_ROUTES: &[&str] = &[
    "POST /api/chat",
    "POST /api/generate",
    "POST /api/embed",
    "POST /api/embeddings",
    "POST /api/show",
    "GET /api/tags",
    "GET /api/ps",
    "GET /api/version",
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /v1/responses",
    "POST /v1/messages",
    "GET /v1/models",
    "GET /v1/models/*",
    "GET /",
];
const GEMINI_ROUTES: &[&str] = &[
    "POST /v1*/models/*",
    "GET /v1*/models",
    "GET /v1*/models/*",
    "POST /v1*/openai/chat/completions",
    "POST /v1*/openai/embeddings",
    "GET /v1*/openai/models",
];

const BEARER: (&str, &str) = ("authorization", "Bearer {}");

/// The providers that need no further description.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        upstream: "https://api.anthropic.com",
        header: ("x-api-key", "{}"),
        headers: &[],
        routes: ANTHROPIC_ROUTES,
    },
    Provider {
        name: "anthropic-subscription",
        upstream: "https://api.anthropic.com",
        header: BEARER,
        headers: &[SUBSCRIPTION],
        routes: ANTHROPIC_ROUTES,
    },
    Provider {
        name: "openai",
        upstream: "https://api.openai.com",
        header: BEARER,
        headers: &[],
        routes: OPENAI_ROUTES,
    },
    Provider {
        name: "openai-subscription",
        upstream: "https://chatgpt.com/backend-api/codex",
        header: BEARER,
        headers: &[],
        routes: CODEX_ROUTES,
    },
    Provider {
        name: "ollama",
        upstream: "http://127.0.0.1:11434",
        header: ("", ""),
        headers: &[],
        routes: OLLAMA_ROUTES,
    },
    Provider {
        name: "gemini",
        upstream: "https://generativelanguage.googleapis.com",
        header: ("x-goog-api-key", "{}"),
        headers: &[],
        routes: GEMINI_ROUTES,
    },
    Provider { name: "custom", upstream: "", header: BEARER, headers: &[], routes: &["*"] },
];

/// A name that no provider has.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown provider `{0}`")]
pub struct UnknownProvider(pub String);

impl Provider {
    /// The provider of this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProvider> {
        PROVIDERS
            .iter()
            .find(|provider| provider.name == name)
            .ok_or_else(|| UnknownProvider(name.to_owned()))
    }

    /// Where it looks for the key.
    pub fn placement(&self) -> Placement {
        match self.header {
            ("", _) => Placement::None,
            (name, format) => Placement::Header { name: name.into(), format: format.into() },
        }
    }

    /// Whether its usual server is on this machine, as nothing else's is.
    pub(crate) fn is_local(&self) -> bool {
        self.upstream.starts_with("http://127.0.0.1")
    }

    /// The same provider, as this key has to be shown to it: a login is told from a key by how it begins.
    pub(crate) fn for_key(&'static self, key: &str) -> &'static Self {
        if self.name == "anthropic" && key.starts_with("sk-ant-oat") {
            return Self::named("anthropic-subscription").unwrap_or(self);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Routes;
    use crate::upstream::Target;

    #[test]
    fn every_provider_can_be_used_as_it_stands() {
        for provider in PROVIDERS {
            assert_eq!(Provider::named(provider.name).unwrap(), provider);
            assert_eq!(provider.placement().check(), Ok(()), "{}", provider.name);
            Routes::parse(provider.routes.iter().copied()).unwrap();
            assert!(provider.upstream.is_empty() || Target::named(provider.upstream).is_ok());
        }
        assert_eq!(Provider::named("antropic"), Err(UnknownProvider("antropic".into())));
    }

    #[test]
    fn agents_reach_models_and_not_the_account() {
        use hyper::Method;
        for (provider, method, path, allowed) in [
            ("anthropic", Method::POST, "/v1/messages", true),
            ("anthropic", Method::POST, "/v1/messages/count_tokens", true),
            ("anthropic", Method::GET, "/v1/organizations/users", false),
            ("anthropic", Method::POST, "/v1/files", false),
            ("openai", Method::POST, "/v1/responses", true),
            ("openai", Method::GET, "/v1/responses", true),
            ("openai", Method::POST, "/v1/files", false),
            ("openai", Method::GET, "/v1/organization/costs", false),
            ("openai", Method::DELETE, "/v1/models/mine", false),
            ("openai-subscription", Method::POST, "/responses", true),
            ("ollama", Method::POST, "/api/chat", true),
            ("ollama", Method::DELETE, "/api/delete", false),
            ("ollama", Method::POST, "/api/pull", false),
            ("gemini", Method::POST, "/v1beta/models/gemini-pro:streamGenerateContent", true),
            ("gemini", Method::POST, "/v1beta/files", false),
            ("custom", Method::DELETE, "/anything", true),
        ] {
            let routes =
                Routes::parse(Provider::named(provider).unwrap().routes.iter().copied()).unwrap();
            assert_eq!(routes.allow(&method, path), allowed, "{provider} {method} {path}");
        }
    }

    #[test]
    fn a_login_is_sent_as_one() {
        let anthropic = Provider::named("anthropic").unwrap();
        assert_eq!(anthropic.for_key("sk-ant-api03-x").name, "anthropic");
        assert_eq!(anthropic.for_key("sk-ant-oat01-x").name, "anthropic-subscription");
        let openai = Provider::named("openai").unwrap();
        assert_eq!(openai.for_key("sk-ant-oat01-x").name, "openai");
    }
}
