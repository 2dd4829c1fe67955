//! Columns of the table of agents.

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
    /// Name of the agent.
    pub title: &'static str,
    /// Commands that start it.
    pub programs: &'static [&'static str],
    /// Way to turn off the agent's own permission prompts.
    pub unattended: Unattended,
    /// Paths in the home directory that it writes.
    pub state: &'static [State],
    /// Variables that reach it although they have the name of a secret. A final `*` matches any text.
    pub passed_variables: &'static [&'static str],
    /// Providers whose keys its files can contain.
    pub providers: &'static [&'static str],
    /// Files with logins and keys. The agent needs nothing else from them.
    pub logins: &'static [AgentFile],
    /// The login that `from_login` can use.
    pub login: LoginUse,
    /// Files that it needs, and that can contain keys or configure programs.
    pub settings: &'static [SettingsFile],
    /// Files and directories of a project that it reads as instructions or configuration.
    pub project_config: &'static [ProjectConfig],
    /// Way to tell it the proxy's address.
    pub proxy: ProxyNaming,
    /// Row in the guide to the proxy.
    pub guide: Guide,
}

/// A program with files that matter to a sandbox: an editor with an agent, or a program that stores keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Name of the program.
    pub title: &'static str,
    /// Providers whose keys its files can contain.
    pub providers: &'static [&'static str],
    /// Files with logins and keys.
    pub logins: &'static [AgentFile],
    /// Files and directories of a project that it reads as instructions or configuration.
    pub project_config: &'static [ProjectConfig],
}

/// Way to turn off an agent's own permission prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattended {
    /// These flags.
    Flags(&'static str),
    /// These settings.
    Settings(&'static str),
    /// Unknown.
    Unknown,
}

/// A path that an agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The path.
    pub path: &'static str,
    /// Preparation for the first run of the agent.
    pub on_first_run: OnFirstRun,
    /// The preset that makes it writable.
    pub preset: Preset,
}

/// Preparation of a path in a home directory in which the agent has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFirstRun {
    /// The path is created before the agent starts.
    Created(Initial),
    /// None: the agent starts, and keeps its settings, without the path.
    NotNeeded,
}

/// Initial content of a path.
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
    /// `@caches`, which lists the path.
    Caches,
}

/// A file of an agent, in the home directory unless a variable moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentFile {
    /// Variable that moves the directory.
    pub moved: Moved,
    /// Directory, relative to the home directory.
    pub dir: &'static str,
    /// Name of the file.
    pub name: &'static str,
}

/// Variable that moves a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// No variable does.
    Never,
    /// This variable does.
    By {
        /// Name of the variable.
        variable: &'static str,
        /// Directory, relative to the variable's value.
        below: &'static str,
    },
}

/// A settings file that an agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file.
    pub file: AgentFile,
    /// Programs that the file makes the agent run, outside a sandbox too.
    pub runs: Runs,
    /// Names of the fields and variables that hold a key in the file.
    pub keys: &'static [&'static str],
}

/// Programs that a settings file makes an agent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// The file can name programs. A change is reported after a run.
    Programs,
    /// The file names no programs, or it changes too often for a useful report.
    Nothing,
}

/// Instructions or configuration of a project that an agent reads when it is started there, with the reason to report
/// changes to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectConfig {
    /// Files with this name.
    File(&'static str, &'static str),
    /// Everything in directories with this name.
    Dir(&'static str, &'static str),
}

/// Way to tell an agent the proxy's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyNaming {
    /// The variables of the provider.
    Variables,
    /// Flags if the agent is the sandboxed command, else a provider in its settings (Codex).
    FlagsOrToml(AgentFile),
    /// Settings in this variable (opencode).
    JsonVariable(&'static str),
    /// The variables of the provider, and settings that select the kind of key (Gemini CLI).
    JsonKeyKind(AgentFile),
}

/// A row in the guide to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guide {
    /// Settings that the agent needs, in Markdown.
    Row(&'static str),
    /// Nothing: the agent has not been tested with the proxy.
    Nothing,
}

/// The login that `from_login` can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginUse {
    /// None.
    None,
    /// This login.
    FromLogin(Login),
}

/// A login on this machine that the proxy uses and renews.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// Name in configuration files.
    pub name: &'static str,
    /// Name of the agent in messages.
    pub owner: &'static str,
    /// Provider that accepts the token.
    pub provider: &'static str,
    /// File that contains the login.
    pub file: AgentFile,
    /// Format of the file.
    pub format: LoginFormat,
    /// Instruction for the user to log in again.
    pub remedy: &'static str,
    /// Server that renews the login.
    pub renewal: Renewal,
}

/// Format of a login file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginFormat {
    /// `claudeAiOauth` with `accessToken`, `refreshToken` and `expiresAt` in milliseconds.
    ClaudeCode,
    /// `tokens` with `access_token`, `refresh_token`, `id_token` and `account_id`.
    Codex,
}

/// A server that renews a login, by the `refresh_token` grant of OAuth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// URL of the server.
    pub server: &'static str,
    /// Path of the request.
    pub path: &'static str,
    /// Public client identifier of the agent.
    pub client: &'static str,
    /// Scope of the new token.
    pub scope: Scope,
}

/// Scope of a renewed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The scope of the login.
    Granted,
    /// The scope in the request.
    Requested(&'static str),
}

impl Agent {
    /// Returns the agent that a command starts.
    pub fn of_command(program: &OsStr) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.programs.iter().any(|name| program == *name))
    }
}

/// Returns the paths that must exist before an agent starts, with their initial content.
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

/// Returns the files that can contain logins to a provider.
pub fn logins(provider: &str) -> impl Iterator<Item = &'static AgentFile> {
    let agents = AGENTS.iter().map(|agent| (agent.providers, agent.logins));
    let tools = TOOLS.iter().map(|tool| (tool.providers, tool.logins));
    agents
        .chain(tools)
        .filter(move |(providers, _)| providers.contains(&provider))
        .flat_map(|(_, logins)| logins)
}

/// Returns the settings files that can contain keys of a provider.
pub fn settings(provider: &str) -> impl Iterator<Item = &'static SettingsFile> {
    let agents = AGENTS.iter().filter(move |agent| agent.providers.contains(&provider));
    agents.flat_map(|agent| agent.settings).filter(|settings| !settings.keys.is_empty())
}

/// Returns the settings files that can name programs.
pub fn running_settings() -> impl Iterator<Item = &'static SettingsFile> {
    let settings = AGENTS.iter().flat_map(|agent| agent.settings);
    settings.filter(|settings| settings.runs == Runs::Programs)
}

/// Returns the files and directories of a project that agents read as instructions or configuration.
pub fn project_config() -> impl Iterator<Item = &'static ProjectConfig> {
    let tools = TOOLS.iter().flat_map(|tool| tool.project_config);
    AGENTS.iter().flat_map(|agent| agent.project_config).chain(tools)
}

impl AgentFile {
    /// Returns the path relative to the home directory.
    pub fn in_home(&self) -> PathBuf {
        Path::new(self.dir).join(self.name)
    }

    /// Returns the path if a variable moves the file.
    pub fn moved(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        match self.moved {
            Moved::Never => None,
            Moved::By { variable: name, below } => {
                Some(variable(name)?.join(below).join(self.name))
            }
        }
    }

    /// Returns the possible paths: in the home directory, and where a variable moves the file.
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
    /// Returns every login that `from_login` can use.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        AGENTS.iter().filter_map(|agent| match &agent.login {
            LoginUse::FromLogin(login) => Some(login),
            LoginUse::None => None,
        })
    }

    /// Returns the login with this name.
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
            "description": "Agent whose login on this machine is used.",
            "type": "string",
            "enum": names,
        })
    }
}
