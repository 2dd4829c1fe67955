//! The keys of sessions: what containers, the proxy and the host bridge are told.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::cow::CowEngine;
use super::credential::{
    ArgumentText, BasicUser, FormatText, HeaderText, ModelText, QueryText, RouteText, StoredName,
    ToolText, UpstreamUrl,
};
use super::word::{EnvName, Invalid, Scalar, scalar};
use crate::catalog::provider::Upstream;
use crate::catalog::{Login, Provider};
use crate::text::shown;

/// A credential: never its value, only how it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct Secret {
    /// Whether the agent holds it, or a proxy adds it on the way; `"inject"` when left out.
    #[serde(default)]
    pub mode: SecretMode,
    /// The variable that carries it, or its stand-in.
    pub env_var: EnvName,
    /// Whose it is: `"anthropic"`, `"openai"`, `"gemini"`, `"ollama"` or `"custom"`. Found by the
    /// variable where it is left out.
    pub provider: Option<&'static Provider>,
    /// Where the proxy sends requests that use it.
    pub upstream_url: Option<UpstreamUrl>,
    /// Takes it from the store, under this name. Without any `from_…`: from the store if it has one of
    /// this secret's name, else from the caller's variable `env_var`.
    pub from_store: Option<StoredName>,
    /// Takes it from this variable of the caller.
    pub from_env: Option<EnvName>,
    /// Takes it from this file, which holds nothing else.
    pub from_file: Option<String>,
    /// Takes it from the line `ENV_VAR=…` of this file.
    pub from_env_file: Option<String>,
    /// Takes it from what this command prints on the host: a program and its arguments.
    pub from_command: Option<Vec<ArgumentText>>,
    /// How many seconds the answer of `from_command` is good for; 300 when left out.
    pub lasting: Option<u64>,
    /// Takes it from the login of an agent on this machine.
    pub from_login: Option<&'static Login>,
    /// The variable that gets the proxy's address, for `provider = "custom"`.
    pub base_url_var: Option<EnvName>,
    /// The header that carries it, for `provider = "custom"`.
    pub header: Option<HeaderText>,
    /// What that header says; `{}` is the secret.
    pub format: Option<FormatText>,
    /// The query parameter that carries it.
    pub query: Option<QueryText>,
    /// The user of basic authentication; the secret is the password.
    pub basic_user: Option<BasicUser>,
    /// What may be asked for, such as `"POST /v1/messages"`; the provider's usual calls when left out.
    pub routes: Option<Vec<RouteText>>,
    /// What the provider may do on its own when it is asked to: types of its tools, such as `"web_search"`,
    /// `"mcp"`, `"url"` for what it fetches, `"files"`, or `"*"`. When left out: everything in a sandbox with an
    /// open network, and nothing in any other.
    pub server_tools: Option<Vec<ToolText>>,
    /// Requests in a minute.
    pub requests_per_minute: Option<u32>,
    /// Requests at a time.
    pub max_parallel: Option<u32>,
    /// Tokens in all, of one run.
    pub token_budget: Option<u64>,
    /// Models that may be asked; `*` stands for any text.
    pub models: Option<Vec<ModelText>>,
}

impl Secret {
    /// The provider: as it is written, else that of the login, else by the variable.
    pub fn provider(&self) -> Option<&'static Provider> {
        let login = || self.from_login.and_then(|login| Provider::named(login.provider).ok());
        let custom = || self.base_url_var.as_ref().and_then(|_| Provider::custom());
        let variable = || Provider::of_variable(self.env_var.as_str());
        self.provider.or_else(login).or_else(custom).or_else(variable)
    }

    /// Checks that the keys fit each other and the mode.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.env_var.carries_a_value()?;
        self.base_url_var.as_ref().map_or(Ok(()), EnvName::carries_a_value)?;
        let name = self.env_var.as_str();
        if self.base_url_var.as_ref() == Some(&self.env_var) || name.ends_with("_BASE_URL") {
            let message = format!("{} carries an address, and cannot carry a secret", shown(name));
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
                Invalid::new("a secret has one place").hint("keep one of the keys `from_…`")
            );
        }
        let program = self.from_command.as_ref().map(|words| words.first());
        if program.is_some_and(|program| program.is_none_or(|word| word.as_str().is_empty())) {
            return Err(Invalid::new("a command has at least a program")
                .hint("write `from_command = [\"pass\", \"show\", \"key\"]`"));
        }
        if self.lasting.is_some() && self.from_command.is_none() {
            return Err(Invalid::new("`lasting` is about the answer of `from_command`")
                .hint("remove it, or add `from_command`"));
        }
        self.check_placement()?;
        match self.mode {
            SecretMode::Inject => self.check_injected(),
            SecretMode::Proxy => self.check_proxied(),
        }
    }

    /// Checks that the proxy puts it into one place of a request.
    fn check_placement(&self) -> Result<(), Invalid> {
        let places = [
            ("header", self.header.is_some()),
            ("query", self.query.is_some()),
            ("basic_user", self.basic_user.is_some()),
        ];
        let mut used = places.into_iter().filter(|(_, set)| *set).map(|(key, _)| key);
        if let (Some(first), Some(second)) = (used.next(), used.next()) {
            return Err(Invalid::new(format!("`{first}` and `{second}` exclude each other"))
                .hint("keep one of `header`, `query` and `basic_user`"));
        }
        if self.format.is_some() && (self.query.is_some() || self.basic_user.is_some()) {
            return Err(
                Invalid::new("`format` is the text of a header").hint("remove it, or use `header`")
            );
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
            Err(Invalid::new(format!("`{key}` is the proxy's, and this secret does not go by it"))
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
            return Err(Invalid::new("the provider `custom` has no server")
                .hint("add `upstream_url = \"https://…\"`"));
        }
        if self.base_url_var.is_none() {
            return Err(Invalid::new(
                "the provider `custom` has no variable for the proxy's address",
            )
            .hint("add `base_url_var = \"…\"`"));
        }
        Ok(())
    }
}

/// How a credential reaches its use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretMode {
    /// In the agent's environment.
    #[default]
    Inject,
    /// By the proxy; the agent holds a token of its session.
    Proxy,
}

/// The agent of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Agent {
    /// The program. Without one, a session waits and serves `exec`.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// The user inside a container, by name or number; `"agent"` when left out, who has the number of
    /// whoever starts the session, so that files belong to you.
    pub user: Option<String>,
    /// The directory it starts in; `"/workspace"` when left out.
    pub workdir: Option<String>,
    /// What PID 1 of a container does; chosen by the session's needs where it is not given.
    pub init: Option<AgentInit>,
}

impl Agent {
    /// The keys of a later layer over these.
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

/// What PID 1 of a container does.
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
    /// Where `agent-sandbox proxy` lets clients in when `--listen` does not say: `":8090"` is a port of this machine
    /// alone. Sandboxes and sessions find it without.
    pub addr: Option<Listen>,
}

/// An address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Listen {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let found = match text.strip_prefix(':') {
            // Elsewhere this means every address of the machine. A proxy with keys is not for them all.
            Some(port) => {
                port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()
            }
            None => text.parse().ok(),
        };
        found.map(Self).ok_or_else(|| {
            Invalid::new(format!("{} is no address to listen at", shown(text)))
                .hint("write a port of this machine as `\":8090\"`, or an address and a port")
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
    pub path: Option<String>,
    /// The commit to check out.
    pub commit: Option<String>,
    /// Keeps changes apart.
    pub cow: Option<CowEngine>,
}

impl Workspace {
    /// The keys of a later layer over these.
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
    /// What it starts from.
    pub template: Option<String>,
    /// Where it lives on.
    pub data: Option<String>,
}

impl Home {
    /// The keys of a later layer over these.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self { template: self.template.or(earlier.template), data: self.data.or(earlier.data) }
    }
}

/// What runs beside the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Services {
    /// A Docker daemon of the session's own.
    pub dockerd: Dockerd,
}

/// `services.dockerd`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dockerd {
    /// None.
    #[default]
    Off,
    /// One, where it can run.
    Auto,
    /// One, or no session.
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
