//! Keys of sessions: settings for containers, the proxy and the host bridge.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::container::{AgentUser, ProgramText, RepositoryText, RevisionText};
use super::cow::CowEngine;
use super::credential::{
    ArgumentText, BasicUser, FormatText, HeaderText, ModelText, QueryText, RouteText, StoredName,
    ToolText, UpstreamUrl,
};
use super::word::{EnvName, FilePath, InsidePath, Invalid, Scalar, scalar};
use crate::catalog::provider::Upstream;
use crate::catalog::{Login, Provider};
use crate::text::shown;

/// Settings of a credential, never with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct Secret {
    /// `"inject"` gives it to the agent, `"proxy"` lets the proxy add it to requests. Default: `"inject"`.
    #[serde(default)]
    pub mode: SecretMode,
    /// The variable that contains it, or the session's token in its place.
    pub env_var: EnvName,
    /// The provider: `"anthropic"`, `"openai"`, `"gemini"`, `"ollama"` or `"custom"`. Default: the provider of the
    /// variable.
    pub provider: Option<&'static Provider>,
    /// The server to which the proxy sends requests.
    pub upstream_url: Option<UpstreamUrl>,
    /// Reads it from the store, under this name. Without a `from_…` key, it is read from the store under the name of
    /// this secret, else from the caller's variable `env_var`.
    pub from_store: Option<StoredName>,
    /// Reads it from this variable of the caller.
    pub from_env: Option<EnvName>,
    /// Reads it from this file, which contains nothing else.
    pub from_file: Option<FilePath>,
    /// Reads it from the line `ENV_VAR=…` of this file.
    pub from_env_file: Option<FilePath>,
    /// Reads it from the output of this command on the host: a program and its arguments.
    pub from_command: Option<Vec<ArgumentText>>,
    /// Number of seconds for which the output of `from_command` is used. Default: 300.
    pub lasting: Option<u64>,
    /// Reads it from the login of an agent on this machine.
    pub from_login: Option<&'static Login>,
    /// The variable that gets the proxy's address, for `provider = "custom"`.
    pub base_url_var: Option<EnvName>,
    /// The header that contains it, for `provider = "custom"`.
    pub header: Option<HeaderText>,
    /// The value of that header, with `{}` as the placeholder for the secret.
    pub format: Option<FormatText>,
    /// The query parameter that contains it.
    pub query: Option<QueryText>,
    /// The user of basic authentication. The secret is the password.
    pub basic_user: Option<BasicUser>,
    /// Requests that are allowed, such as `"POST /v1/messages"`. Default: the usual requests to the provider.
    pub routes: Option<Vec<RouteText>>,
    /// Tools that the provider may run on its servers, by type: `"web_search"`, `"mcp"`, `"url"` for URLs that it
    /// fetches, `"files"`, or `"*"`. Default: all in a sandbox with an open network, otherwise none.
    pub server_tools: Option<Vec<ToolText>>,
    /// Maximum number of requests per minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum number of parallel requests.
    pub max_parallel: Option<NonZeroU32>,
    /// Maximum number of tokens per run.
    pub token_budget: Option<u64>,
    /// Models that are allowed. `*` matches any text.
    pub models: Option<Vec<ModelText>>,
}

impl Secret {
    /// Returns the provider: the configured one, else that of the login, else that of the variable.
    pub fn provider(&self) -> Option<&'static Provider> {
        let login = || self.from_login.and_then(|login| Provider::named(login.provider).ok());
        let custom = || self.base_url_var.as_ref().and_then(|_| Provider::custom());
        let variable = || Provider::of_variable(self.env_var.as_str());
        self.provider.or_else(login).or_else(custom).or_else(variable)
    }

    /// Checks that the keys are consistent with each other and with the mode.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.env_var.carries_a_value()?;
        self.base_url_var.as_ref().map_or(Ok(()), EnvName::carries_a_value)?;
        let name = self.env_var.as_str();
        if self.base_url_var.as_ref() == Some(&self.env_var) || name.ends_with("_BASE_URL") {
            let message =
                format!("the variable {} is for an address and cannot hold a secret", shown(name));
            return Err(Invalid::new(message));
        }
        let sources = [
            self.from_store.is_some(),
            self.from_env.is_some(),
            self.from_file.is_some(),
            self.from_env_file.is_some(),
            self.from_command.is_some(),
            self.from_login.is_some(),
        ];
        if sources.into_iter().filter(|source| *source).count() > 1 {
            return Err(
                Invalid::new("the secret has more than one source").hint("keep one `from_…` key")
            );
        }
        let program = self.from_command.as_ref().map(|words| words.first());
        if program.is_some_and(|program| program.is_none_or(|word| word.as_str().is_empty())) {
            return Err(Invalid::new("`from_command` has no program")
                .hint("write `from_command = [\"pass\", \"show\", \"key\"]`"));
        }
        if self.lasting.is_some() && self.from_command.is_none() {
            return Err(Invalid::new("`lasting` has no effect without `from_command`")
                .hint("remove it, or add `from_command`"));
        }
        self.check_placement()?;
        match self.mode {
            SecretMode::Inject => self.check_injected(),
            SecretMode::Proxy => self.check_proxied(),
        }
    }

    /// Checks that the secret has only one place in a request.
    fn check_placement(&self) -> Result<(), Invalid> {
        let places = [
            ("header", self.header.is_some()),
            ("query", self.query.is_some()),
            ("basic_user", self.basic_user.is_some()),
        ];
        let mut used = places.into_iter().filter(|(_, set)| *set).map(|(key, _)| key);
        if let (Some(first), Some(second)) = (used.next(), used.next()) {
            return Err(Invalid::new(format!("`{first}` and `{second}` cannot be combined"))
                .hint("keep one of `header`, `query` and `basic_user`"));
        }
        if self.format.is_some() && (self.query.is_some() || self.basic_user.is_some()) {
            return Err(Invalid::new("`format` applies only to a header")
                .hint("remove it, or use `header`"));
        }
        Ok(())
    }

    fn check_injected(&self) -> Result<(), Invalid> {
        let proxied = [
            ("upstream_url", self.upstream_url.is_some()),
            ("routes", self.routes.is_some()),
            ("server_tools", self.server_tools.is_some()),
            ("token_budget", self.token_budget.is_some()),
            ("models", self.models.is_some()),
            ("requests_per_minute", self.requests_per_minute.is_some()),
            ("max_parallel", self.max_parallel.is_some()),
            ("from_login", self.from_login.is_some()),
        ];
        let idle = proxied.into_iter().find(|(_, set)| *set);
        idle.map_or(Ok(()), |(key, _)| {
            Err(Invalid::new(format!("`{key}` has no effect without `mode = \"proxy\"`"))
                .hint("add `mode = \"proxy\"`"))
        })
    }

    fn check_proxied(&self) -> Result<(), Invalid> {
        let Some(provider) = self.provider() else {
            let variable = shown(self.env_var.as_str());
            return Err(Invalid::new(format!("no provider is known for the variable {variable}"))
                .hint("add `provider = \"…\"`, such as \"anthropic\""));
        };
        if provider.upstream != Upstream::Configured {
            return Ok(());
        }
        if self.upstream_url.is_none() {
            return Err(Invalid::new("the provider `custom` needs a server")
                .hint("add `upstream_url = \"https://…\"`"));
        }
        if self.base_url_var.is_none() {
            return Err(Invalid::new(
                "the provider `custom` needs a variable for the proxy's address",
            )
            .hint("add `base_url_var = \"…\"`"));
        }
        Ok(())
    }
}

/// Way in which a credential is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretMode {
    /// The agent gets it in its environment.
    #[default]
    Inject,
    /// The proxy adds it to requests, and the agent gets a token of its session.
    Proxy,
}

/// The agent of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
#[schemars(rename = "Agent")]
pub struct AgentConfig {
    /// The program. Without one, a session only waits for `exec`.
    pub command: Option<ProgramText>,
    /// Its arguments.
    pub args: Option<Vec<ArgumentText>>,
    /// The user inside a container, by name or uid. Default: `"agent"`, with the uid of the user who starts the
    /// session, so that you own the files.
    pub user: Option<AgentUser>,
    /// The working directory. Default: `"/workspace"`.
    pub workdir: Option<InsidePath>,
    /// Role of PID 1 in a container. Default: what the session needs.
    pub init: Option<AgentInit>,
}

impl AgentConfig {
    /// Merges with an earlier layer. The keys of this one win.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self {
            command: self.command.or(earlier.command),
            args: self.args.or(earlier.args),
            user: self.user.or(earlier.user),
            workdir: self.workdir.or(earlier.workdir),
            init: self.init.or(earlier.init),
        }
    }
}

/// Role of PID 1 in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentInit {
    /// It becomes the agent.
    Exec,
    /// It starts the agent and stays.
    Supervise,
}

/// The credential proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Proxy {
    /// Address on which `agent-sandbox proxy` listens without `--listen`. `":8090"` is a port on loopback. Sandboxes
    /// and sessions do not need it.
    pub addr: Option<Listen>,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Listen {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let found = match text.strip_prefix(':') {
            // Other programs listen on every address of the machine here. A proxy with keys must not.
            Some(port) => {
                port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()
            }
            None => text.parse().ok(),
        };
        found.map(Self).ok_or_else(|| {
            Invalid::new(format!("invalid listen address {}", shown(text)))
                .hint("write `\":8090\"` for a port on loopback, or an address with a port")
        })
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(Invalid::into_serde)
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": [":8090", "127.0.0.1:8090"] })
    }
}

/// The working copy that a container session gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Workspace {
    /// A directory or a repository.
    pub path: Option<RepositoryText>,
    /// The commit to check out.
    pub commit: Option<RevisionText>,
    /// Copy-on-write: changes go into a layer until they are applied.
    pub cow: Option<CowEngine>,
}

impl Workspace {
    /// Merges with an earlier layer. The keys of this one win.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self {
            path: self.path.or(earlier.path),
            commit: self.commit.or(earlier.commit),
            cow: self.cow.or(earlier.cow),
        }
    }
}

/// The home that a container session gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Home {
    /// The template that a new home is copied from.
    pub template: Option<FilePath>,
    /// The directory that stores it.
    pub data: Option<FilePath>,
}

impl Home {
    /// Merges with an earlier layer. The keys of this one win.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self { template: self.template.or(earlier.template), data: self.data.or(earlier.data) }
    }
}

/// Services that run beside the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Services {
    /// A Docker daemon for this session.
    pub dockerd: Dockerd,
}

/// `services.dockerd`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dockerd {
    /// No daemon.
    #[default]
    Off,
    /// A daemon, if it can run.
    Auto,
    /// A daemon. If it cannot run, the session fails.
    Required,
}

impl<'de> Deserialize<'de> for Dockerd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "`false`, `\"auto\"` or `\"required\"`";
        match scalar(deserializer, expecting)? {
            Scalar::Switch(false) => Ok(Self::Off),
            Scalar::Switch(true) => {
                Err(de::Error::invalid_type(de::Unexpected::Bool(true), &expecting))
            }
            Scalar::Word(word) => match word.as_str() {
                "auto" => Ok(Self::Auto),
                "required" => Ok(Self::Required),
                _ => Err(de::Error::unknown_variant(&word, &["auto", "required"])),
            },
        }
    }
}

impl JsonSchema for Dockerd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dockerd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [false, "auto", "required"] })
    }
}
