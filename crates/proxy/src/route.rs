//! Route rules: the methods and paths that a session may use.

use globset::{GlobBuilder, GlobMatcher};
use hyper::Method;
use thiserror::Error;

/// List of rules. A request that matches none is refused.
#[derive(Debug, Clone)]
pub struct Routes(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    /// `None` matches every method.
    method: Option<Method>,
    path: GlobMatcher,
    /// True when the path has no wildcard and is compared as text.
    plain: bool,
}

/// Invalid rule.
#[derive(Debug, Error)]
pub enum RouteError {
    /// The rule is not a method and a path.
    #[error("invalid route `{0}`: use `METHOD /path`, `/path`, or `*` for everything")]
    Shape(String),
    /// The path is not a valid glob.
    #[error("invalid path pattern in route `{0}`")]
    Pattern(String, #[source] globset::Error),
}

impl Routes {
    /// Parses `METHOD /path`, `* /path`, `/path` and `*`. `*` in a path matches within a segment, `**` across segments.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, RouteError> {
        texts.into_iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true when everything is allowed and no path needs to be checked.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.iter().any(|rule| rule.method.is_none() && rule.path.glob().glob() == "/**")
    }

    /// Returns true when a rule allows the request. A rule for `GET` includes `HEAD`.
    pub fn allow(&self, method: &Method, plain_path: &str) -> bool {
        let asked = if method == Method::HEAD { &Method::GET } else { method };
        self.0.iter().any(|rule| {
            rule.method.as_ref().is_none_or(|method| method == asked) && rule.covers(plain_path)
        })
    }
}

fn rule(text: &str) -> Result<Rule, RouteError> {
    let wrong = || RouteError::Shape(text.to_owned());
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (method, path) = match words[..] {
        ["*"] => ("*", "/**"),
        [path] => ("*", path),
        [method, path] => (method, path),
        _ => return Err(wrong()),
    };
    if !path.starts_with('/') {
        return Err(wrong());
    }
    let method = match method {
        "*" => None,
        name if name.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            Some(Method::from_bytes(name.as_bytes()).map_err(|_| wrong())?)
        }
        _ => return Err(wrong()),
    };
    let glob = GlobBuilder::new(path).literal_separator(true).build();
    let glob = glob.map_err(|error| RouteError::Pattern(text.to_owned(), error))?;
    let plain = !path.contains(['*', '?', '[', '{', '\\']);
    Ok(Rule { method, path: glob.compile_matcher(), plain })
}

impl Rule {
    fn covers(&self, path: &str) -> bool {
        if self.plain { self.path.glob().glob() == path } else { self.path.is_match(path) }
    }
}

#[cfg(test)]
mod tests {
    use sandbox_policy::catalog::{PROVIDERS, Provider, UnknownProvider};

    use super::*;
    use crate::credential::Placement;

    #[test]
    fn routes_allow_what_a_rule_names_and_nothing_else() {
        let routes =
            Routes::parse(["POST /v1/messages", "GET /v1/models/*", "/v1/audio/**"]).unwrap();
        for (method, path, allowed) in [
            (Method::POST, "/v1/messages", true),
            (Method::GET, "/v1/messages", false),
            (Method::POST, "/v1/messages/batches", false),
            (Method::GET, "/v1/models/a", true),
            (Method::HEAD, "/v1/models/a", true),
            (Method::GET, "/v1/models/a/b", false),
            (Method::GET, "/v1/models", false),
            (Method::DELETE, "/v1/audio/x/y", true),
            (Method::GET, "/v1/files", false),
            (Method::GET, "/V1/MODELS/a", false),
        ] {
            assert_eq!(routes.allow(&method, path), allowed, "{method} {path}");
        }
    }

    #[test]
    fn an_empty_list_allows_nothing_and_a_star_everything() {
        assert!(!Routes::parse([]).unwrap().allow(&Method::GET, "/"));
        let all = Routes::parse(["*"]).unwrap();
        assert!(all.is_everything() && all.allow(&Method::DELETE, "/a/b"));
        assert!(!Routes::parse(["GET /**"]).unwrap().is_everything());
    }

    #[test]
    fn parse_rejects_invalid_rules() {
        for text in ["", "GET", "get /x", "GET x", "GET /a /b", "GET /[", "v1/messages"] {
            assert!(Routes::parse([text]).is_err(), "{text}");
        }
    }

    #[test]
    fn every_provider_has_valid_routes_and_placement() {
        for provider in PROVIDERS {
            assert_eq!(Provider::named(provider.name).unwrap(), provider);
            assert_eq!(Placement::from(provider.key).check(), Ok(()), "{}", provider.name);
            Routes::parse(provider.routes.iter().copied()).unwrap();
        }
        assert_eq!(Provider::named("antropic"), Err(UnknownProvider("antropic".into())));
    }

    #[test]
    fn agents_reach_models_and_not_the_account() {
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
}
