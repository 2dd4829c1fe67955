//! The keys of sessions: what containers, the proxy and the host bridge are told.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::schema::CowEngine;
use super::word::{EnvName, Invalid, Scalar, scalar};
use crate::config::text::shown;

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
    pub provider: Option<String>,
    /// Where the proxy sends requests that use it.
    pub upstream_url: Option<String>,
    /// Takes it from the store, under this name. Without any `from_…`: from the store if it has one of
    /// this secret's name, else from the caller's variable `env_var`.
    pub from_store: Option<String>,
    /// Takes it from this variable of the caller.
    pub from_env: Option<EnvName>,
    /// Takes it from this file, which holds nothing else.
    pub from_file: Option<String>,
    /// Takes it from the line `ENV_VAR=…` of this file.
    pub from_env_file: Option<String>,
    /// Takes it from what this command prints on the host: a program and its arguments.
    pub from_command: Option<Vec<String>>,
    /// How many seconds the answer of `from_command` is good for; 300 when left out.
    pub lasting: Option<u64>,
    /// Takes it from the login of an agent on this machine.
    pub from_login: Option<Login>,
    /// The variable that gets the proxy's address, for `provider = "custom"`.
    pub base_url_var: Option<EnvName>,
    /// The header that carries it, for `provider = "custom"`.
    pub header: Option<String>,
    /// What that header says; `{}` is the secret.
    pub format: Option<String>,
    /// The query parameter that carries it.
    pub query: Option<String>,
    /// The user of basic authentication; the secret is the password.
    pub basic_user: Option<String>,
    /// What may be asked for, such as `"POST /v1/messages"`; the provider's usual calls when left out.
    pub routes: Option<Vec<String>>,
    /// What the provider may do on its own when it is asked to: types of its tools, such as `"web_search"`,
    /// `"mcp"`, `"url"` for what it fetches, `"files"`, or `"*"`. When left out: everything in a sandbox with an
    /// open network, and nothing in any other.
    pub server_tools: Option<Vec<String>>,
    /// Requests in a minute.
    pub requests_per_minute: Option<u32>,
    /// Requests at a time.
    pub max_parallel: Option<u32>,
    /// Tokens in all, of one run.
    pub token_budget: Option<u64>,
    /// Models that may be asked; `*` stands for any text.
    pub models: Option<Vec<String>>,
}

/// An agent whose login on this machine can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Login {
    /// Claude Code's.
    Claude,
    /// Codex's.
    Codex,
}

impl Login {
    /// Where the agent keeps it.
    pub fn file(self) -> &'static str {
        match self {
            Self::Claude => "~/.claude/.credentials.json",
            Self::Codex => "~/.codex/auth.json",
        }
    }
}

impl Secret {
    /// Whether it says one thing about where it is, and nothing that its mode makes no use of.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
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
        if self.from_command.as_ref().is_some_and(Vec::is_empty) {
            return Err(Invalid::new("a command has at least a program")
                .hint("write `from_command = [\"pass\", \"show\", \"key\"]`"));
        }
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
        let idle = proxied.into_iter().find(|(_, set)| *set && self.mode == SecretMode::Inject);
        idle.map_or(Ok(()), |(key, _)| {
            Err(Invalid::new(format!("`{key}` is the proxy's, and this secret does not go by it"))
                .hint("add `mode = \"proxy\"`"))
        })
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

/// Limits of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Resources {
    /// Memory: `"512m"`, `"2g"`, or bytes.
    pub memory: Option<Memory>,
    /// Processors: `"1.5"` or `2`.
    pub cpus: Option<Cpus>,
    /// Processes.
    pub pids: Option<u32>,
}

impl Resources {
    /// The keys of a later layer over these.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self {
            memory: self.memory.or(earlier.memory),
            cpus: self.cpus.or(earlier.cpus),
            pids: self.pids.or(earlier.pids),
        }
    }
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub u64);

/// Processors, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus(pub u32);

impl Memory {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(format!("{} is no amount of memory", shown(text)))
                .hint("write a number and `k`, `m` or `g`, such as `\"512m\"`")
        };
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(['b', 'i', 'k', 'm', 'g']);
        let unit: u64 = match &lower[digits.len()..] {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(wrong()),
        };
        let amount: u64 = digits.parse().map_err(|_| wrong())?;
        amount.checked_mul(unit).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}

impl Cpus {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(format!("{} is no number of processors", shown(text)))
                .hint("write a number such as `\"1.5\"`")
        };
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > 3 {
            return Err(wrong());
        }
        let thousandths = format!("{whole}{rest:0<3}").parse().map_err(|_| wrong())?;
        if thousandths == 0 { Err(wrong()) } else { Ok(Self(thousandths)) }
    }
}

/// Reads an amount that is written as a text or as a number.
fn amount<'de, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
) -> Result<String, D::Error> {
    struct Visitor(&'static str);

    impl de::Visitor<'_> for Visitor {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }

    deserializer.deserialize_any(Visitor(expecting))
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = amount(deserializer, "an amount such as `\"512m\"`")?;
        Self::parse(&text).map_err(Invalid::into_serde)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = amount(deserializer, "a number such as `\"1.5\"`")?;
        Self::parse(&text).map_err(Invalid::into_serde)
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "examples": ["512m", "2g"] })
    }
}

impl JsonSchema for Cpus {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "examples": ["1", "1.5"] })
    }
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
