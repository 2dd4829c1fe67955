//! The columns of an agent's row.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::{AGENTS, TOOLS};

/// A coding agent that a sandbox starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub title: &'static str,
    /// Its commands.
    pub programs: &'static [&'static str],
    /// How it works without asking before each step.
    pub unattended: Unattended,
    /// What it writes in the home directory; `@agents` makes it writable.
    pub state: &'static [State],
    /// Variables that reach it although they have the name of a secret; `*` ends a pattern.
    pub passed_variables: &'static [&'static str],
    /// Providers whose keys its files can hold.
    pub providers: &'static [&'static str],
    /// Files that hold logins and keys, and nothing that it needs without them.
    pub logins: &'static [AgentFile],
    /// The login that `from_login` can use.
    pub login: LoginUse,
    /// Files that it needs, and that can hold keys or name programs.
    pub settings: &'static [SettingsFile],
    /// Files and directories of a project that it obeys.
    pub obeys: &'static [Obeyed],
    /// How the address of the proxy is named to it.
    pub proxy: ProxyNaming,
    /// Its row in the guide to the proxy.
    pub guide: Guide,
}

/// A program that stands beside agents: an editor with an agent in it, or a keeper of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub title: &'static str,
    /// Providers whose keys its files can hold.
    pub providers: &'static [&'static str],
    /// Files that hold logins and keys.
    pub logins: &'static [AgentFile],
    /// Files and directories of a project that it obeys.
    pub obeys: &'static [Obeyed],
}

/// How an agent works without asking before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattended {
    /// With these flags.
    Flags(&'static str),
    /// With these settings.
    Settings(&'static str),
    /// Unknown.
    Unknown,
}

/// A path that an agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The path.
    pub path: &'static str,
    /// What is done about it where the agent has never run.
    pub on_first_run: OnFirstRun,
    /// The preset that makes it writable.
    pub preset: Preset,
}

/// What is done about a path in a home directory where its agent has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFirstRun {
    /// It is created before the agent starts.
    Created(Initial),
    /// Nothing: the agent starts, and remembers its settings, without it.
    NotNeeded,
}

/// The first content of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// An empty directory.
    Dir,
    /// A file with this text.
    File(&'static str),
}

/// The preset that makes a path writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// `@agents`.
    Agents,
    /// `@caches`, which names the path itself.
    Caches,
}

/// A file of an agent, in the home directory unless a variable moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentFile {
    /// The variable that moves its directory.
    pub moved: Moved,
    /// The directory below the home directory.
    pub dir: &'static str,
    /// The file's name.
    pub name: &'static str,
}

/// The variable that moves a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// None does.
    Never,
    /// This one.
    By {
        /// Its name.
        variable: &'static str,
        /// The directory below its value.
        below: &'static str,
    },
}

/// A file of settings that an agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file.
    pub file: AgentFile,
    /// Whether it names programs that the agent runs, outside a sandbox too.
    pub runs: Runs,
    /// Words that stand before a key in it.
    pub keys: &'static [&'static str],
}

/// What a file of settings starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Programs: a change is reported after a run.
    Programs,
    /// Nothing, or it changes too often for a report to be read.
    Nothing,
}

/// Something in a project that an agent obeys when it is started there, with the reason to report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obeyed {
    /// A file of this name.
    File(&'static str, &'static str),
    /// Everything in a directory of this name.
    Dir(&'static str, &'static str),
}

/// How the address of the proxy is named to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyNaming {
    /// By the variables of the provider.
    Variables,
    /// By flags where it is the command itself, else by a provider in its settings (Codex).
    FlagsOrToml(AgentFile),
    /// By settings in this variable (opencode).
    JsonVariable(&'static str),
    /// By the variables of the provider, with settings that select the kind of key (Gemini CLI).
    JsonKeyKind(AgentFile),
}

/// A row in the guide to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guide {
    /// What the agent needs, in Markdown.
    Row(&'static str),
    /// Nothing has been tried.
    Nothing,
}

/// The login that `from_login` can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginUse {
    /// None.
    None,
    /// This one.
    FromLogin(Login),
}

/// A login on this machine that the proxy uses and renews.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// Its name in configurations.
    pub name: &'static str,
    /// The agent, as messages name it.
    pub owner: &'static str,
    /// The provider that accepts its token.
    pub provider: &'static str,
    /// The file that holds it.
    pub file: AgentFile,
    /// How that file is written.
    pub format: LoginFormat,
    /// How a user makes a new one.
    pub remedy: &'static str,
    /// Where it is renewed.
    pub renewal: Renewal,
}

/// The format of a file with a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginFormat {
    /// `claudeAiOauth` with `accessToken`, `refreshToken` and `expiresAt` in milliseconds.
    ClaudeCode,
    /// `tokens` with `access_token`, `refresh_token`, `id_token` and `account_id`.
    Codex,
}

/// A server that renews a login, by OAuth's `refresh_token` grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Its address.
    pub server: &'static str,
    /// The path of the request.
    pub path: &'static str,
    /// The agent's public client identifier.
    pub client: &'static str,
    /// The scope of the new token.
    pub scope: Scope,
}

/// The scope of a renewed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The scope that the login has.
    Granted,
    /// This scope, in the request.
    Requested(&'static str),
}

impl Agent {
    /// Returns the agent that a command starts.
    pub fn of_command(program: &OsStr) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.programs.iter().any(|name| program == *name))
    }
}

/// Returns the state that an agent needs at its start, each with its first content.
pub fn created_on_first_run(program: &OsStr) -> impl Iterator<Item = (&'static str, Initial)> {
    let state = Agent::of_command(program).map_or(&[][..], |agent| agent.state);
    state.iter().filter_map(|state| match state.on_first_run {
        OnFirstRun::Created(initial) => Some((state.path, initial)),
        OnFirstRun::NotNeeded => None,
    })
}

/// Returns the paths that `@agents` makes writable.
pub fn writable() -> impl Iterator<Item = &'static str> {
    let state = AGENTS.iter().flat_map(|agent| agent.state);
    state.filter(|state| state.preset == Preset::Agents).map(|state| state.path)
}

/// Returns the files that hold logins to a provider.
pub fn logins(provider: &str) -> impl Iterator<Item = &'static AgentFile> {
    let agents = AGENTS.iter().map(|agent| (agent.providers, agent.logins));
    let tools = TOOLS.iter().map(|tool| (tool.providers, tool.logins));
    agents
        .chain(tools)
        .filter(move |(providers, _)| providers.contains(&provider))
        .flat_map(|(_, logins)| logins)
}

/// Returns the settings that can hold keys of a provider.
pub fn settings(provider: &str) -> impl Iterator<Item = &'static SettingsFile> {
    let agents = AGENTS.iter().filter(move |agent| agent.providers.contains(&provider));
    agents.flat_map(|agent| agent.settings).filter(|settings| !settings.keys.is_empty())
}

/// Returns the settings that name programs, wherever an agent is started.
pub fn running_settings() -> impl Iterator<Item = &'static SettingsFile> {
    let settings = AGENTS.iter().flat_map(|agent| agent.settings);
    settings.filter(|settings| settings.runs == Runs::Programs)
}

/// Returns everything in a project that an agent obeys.
pub fn obeyed() -> impl Iterator<Item = &'static Obeyed> {
    let tools = TOOLS.iter().flat_map(|tool| tool.obeys);
    AGENTS.iter().flat_map(|agent| agent.obeys).chain(tools)
}

impl AgentFile {
    /// Returns its path below the home directory.
    pub fn in_home(&self) -> PathBuf {
        Path::new(self.dir).join(self.name)
    }

    /// Returns its path where a variable moves it, and where none does.
    pub fn moved(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        match self.moved {
            Moved::Never => None,
            Moved::By { variable: name, below } => {
                Some(variable(name)?.join(below).join(self.name))
            }
        }
    }

    /// Returns the paths that it can have: below a home directory, and where a variable moves it.
    pub fn paths(
        &self,
        home: Option<&Path>,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Vec<PathBuf> {
        let in_home = home.map(|home| home.join(self.in_home()));
        in_home.into_iter().chain(self.moved(variable)).collect()
    }
}

impl Login {
    /// Returns every login that `from_login` can name.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        AGENTS.iter().filter_map(|agent| match &agent.login {
            LoginUse::FromLogin(login) => Some(login),
            LoginUse::None => None,
        })
    }

    /// Returns the login of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|login| login.name == name)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static Login {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static NAMES: std::sync::LazyLock<Vec<&str>> =
            std::sync::LazyLock::new(|| Login::all().map(|login| login.name).collect());
        let name = String::deserialize(deserializer)?;
        Login::named(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

impl Serialize for Login {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl JsonSchema for Login {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Login".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::all().map(|login| login.name).collect();
        json_schema!({
            "description": "An agent whose login on this machine can be used.",
            "type": "string",
            "enum": names,
        })
    }
}
