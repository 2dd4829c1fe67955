//! The catalog of providers: their names, the variables that carry their keys, and the files in which agents
//! keep logins to them.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::did_you_mean;

/// A provider that a secret can belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// Anthropic's API.
    Anthropic,
    /// Anthropic's API, with the token of a subscription.
    AnthropicSubscription,
    /// OpenAI's API.
    Openai,
    /// The backend of `ChatGPT`, with the token of a subscription.
    OpenaiSubscription,
    /// A server of Ollama.
    Ollama,
    /// Google's API for Gemini.
    Gemini,
    /// Any other server.
    Custom,
}

/// All of them, in the order in which they are listed.
pub const PROVIDERS: [Provider; 7] = [
    Provider::Anthropic,
    Provider::AnthropicSubscription,
    Provider::Openai,
    Provider::OpenaiSubscription,
    Provider::Ollama,
    Provider::Gemini,
    Provider::Custom,
];

/// Variables that carry a key or a token, in the order in which agents prefer them.
const ANTHROPIC_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "ANTHROPIC_OAUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_API_KEY",
    "CLAUDE_CODE_API_KEY",
];
const OPENAI_VARIABLES: &[&str] = &[
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "OPENAI_ACCESS_TOKEN",
    "OPENAI_AUTH_TOKEN",
    "OPENAI_ADMIN_KEY",
    "OPENAI_KEY",
    "AZURE_OPENAI_API_KEY",
];
const GEMINI_VARIABLES: &[&str] = &[
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GOOGLE_GENAI_API_KEY",
    "GOOGLE_AI_API_KEY",
    "GEMINI_CLI_CUSTOM_HEADERS",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
];
const OLLAMA_VARIABLES: &[&str] = &["OLLAMA_API_KEY"];

impl Provider {
    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::AnthropicSubscription => "anthropic-subscription",
            Self::Openai => "openai",
            Self::OpenaiSubscription => "openai-subscription",
            Self::Ollama => "ollama",
            Self::Gemini => "gemini",
            Self::Custom => "custom",
        }
    }

    /// The provider of this name.
    pub fn named(name: &str) -> Option<Self> {
        PROVIDERS.into_iter().find(|provider| provider.name() == name)
    }

    /// The hint for a name that no provider has: the nearest one, else all of them.
    pub fn hint(name: &str) -> String {
        let known = || PROVIDERS.into_iter().map(Self::name);
        let all = || format!("the providers are {}", known().collect::<Vec<_>>().join(", "));
        did_you_mean(name, known()).unwrap_or_else(all)
    }

    /// The provider whose key a variable carries.
    pub fn of_variable(variable: &str) -> Option<Self> {
        PROVIDERS.into_iter().find(|provider| provider.variables().contains(&variable))
    }

    /// The variables that carry its keys and tokens.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic | Self::AnthropicSubscription => ANTHROPIC_VARIABLES,
            Self::Openai | Self::OpenaiSubscription => OPENAI_VARIABLES,
            Self::Gemini => GEMINI_VARIABLES,
            Self::Ollama => OLLAMA_VARIABLES,
            Self::Custom => &[],
        }
    }

    /// The beginnings of its variables. One that is called a secret, too, carries a key.
    pub fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic | Self::AnthropicSubscription => &["ANTHROPIC_", "CLAUDE_"],
            Self::Openai | Self::OpenaiSubscription => &["OPENAI_", "CODEX_", "AZURE_OPENAI_"],
            Self::Gemini => &["GEMINI_", "GOOGLE_GENAI_", "GOOGLE_GENERATIVE_AI_", "GOOGLE_AI_"],
            Self::Ollama => &["OLLAMA_"],
            Self::Custom => &[],
        }
    }

    /// The files in which agents keep logins to it.
    pub fn logins(self) -> impl Iterator<Item = &'static LoginFile> {
        let (own, shared) = match self {
            Self::Anthropic | Self::AnthropicSubscription => (ANTHROPIC_LOGINS, SHARED_LOGINS),
            Self::Openai | Self::OpenaiSubscription => (OPENAI_LOGINS, SHARED_LOGINS),
            Self::Gemini => (GEMINI_LOGINS, SHARED_LOGINS),
            Self::Ollama | Self::Custom => (&[][..], &[][..]),
        };
        own.iter().chain(shared)
    }

    /// The files of settings in which agents may keep a key to it.
    pub fn settings(self) -> impl Iterator<Item = &'static SettingsFile> {
        let (own, shared) = match self {
            Self::Anthropic | Self::AnthropicSubscription => (ANTHROPIC_SETTINGS, SHARED_SETTINGS),
            Self::Openai | Self::OpenaiSubscription => (OPENAI_SETTINGS, SHARED_SETTINGS),
            Self::Gemini => (GEMINI_SETTINGS, SHARED_SETTINGS),
            Self::Ollama | Self::Custom => (&[][..], &[][..]),
        };
        own.iter().chain(shared)
    }
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

/// A file in which agents keep logins or keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginFile {
    /// The variable that moves the directory, and the directory below its value.
    moved_by: Option<(&'static str, &'static str)>,
    /// The directory below the home directory.
    dir: &'static str,
    /// The file's name.
    name: &'static str,
}

/// A file of settings that an agent needs, and the words behind which it keeps keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file.
    pub file: LoginFile,
    /// The words.
    pub words: &'static [&'static str],
}

const CLAUDE: Option<(&str, &str)> = Some(("CLAUDE_CONFIG_DIR", ""));
const CODEX: Option<(&str, &str)> = Some(("CODEX_HOME", ""));
const GEMINI: Option<(&str, &str)> = Some(("GEMINI_CLI_HOME", ".gemini"));
const OPENCODE: Option<(&str, &str)> = Some(("XDG_DATA_HOME", "opencode"));
const OPENCODE_SETTINGS: Option<(&str, &str)> = Some(("XDG_CONFIG_HOME", "opencode"));

const fn file(
    moved_by: Option<(&'static str, &'static str)>,
    dir: &'static str,
    name: &'static str,
) -> LoginFile {
    LoginFile { moved_by, dir, name }
}

const CLAUDE_LOGIN: LoginFile = file(CLAUDE, ".claude", ".credentials.json");
const CODEX_LOGIN: LoginFile = file(CODEX, ".codex", "auth.json");

/// Programs that keep the keys of several providers in one file.
const SHARED_LOGINS: &[LoginFile] = &[
    file(OPENCODE, ".local/share/opencode", "auth.json"),
    file(Some(("PI_CODING_AGENT_DIR", "")), ".pi/agent", "auth.json"),
    file(Some(("XDG_CONFIG_HOME", "goose")), ".config/goose", "secrets.yaml"),
    file(Some(("LLM_USER_PATH", "")), ".config/io.datasette.llm", "keys.json"),
];
const ANTHROPIC_LOGINS: &[LoginFile] = &[CLAUDE_LOGIN];
const OPENAI_LOGINS: &[LoginFile] = &[CODEX_LOGIN];
const GEMINI_LOGINS: &[LoginFile] = &[
    file(GEMINI, ".gemini", "oauth_creds.json"),
    file(GEMINI, ".gemini", "gemini-credentials.json"),
    file(GEMINI, ".gemini", ".env"),
];

const fn settings(file: LoginFile, words: &'static [&'static str]) -> SettingsFile {
    SettingsFile { file, words }
}

const SHARED_SETTINGS: &[SettingsFile] = &[
    settings(file(OPENCODE_SETTINGS, ".config/opencode", "opencode.json"), &["apiKey"]),
    settings(file(OPENCODE_SETTINGS, ".config/opencode", "opencode.jsonc"), &["apiKey"]),
];
const ANTHROPIC_SETTINGS: &[SettingsFile] = &[
    settings(file(None, "", ".claude.json"), &["primaryApiKey"]),
    settings(file(CLAUDE, ".claude", ".claude.json"), &["primaryApiKey"]),
    settings(file(CLAUDE, ".claude", "settings.json"), ANTHROPIC_VARIABLES),
    settings(file(CLAUDE, ".claude", "settings.local.json"), ANTHROPIC_VARIABLES),
];
const OPENAI_SETTINGS: &[SettingsFile] =
    &[settings(file(CODEX, ".codex", "config.toml"), &["experimental_bearer_token"])];
const GEMINI_SETTINGS: &[SettingsFile] =
    &[settings(file(GEMINI, ".gemini", "settings.json"), &["apiKey"])];

impl LoginFile {
    /// The file of the login that `from_login` names.
    pub fn of(login: Login) -> Self {
        match login {
            Login::Claude => CLAUDE_LOGIN,
            Login::Codex => CODEX_LOGIN,
        }
    }

    /// The paths that it can have: below a home directory, and where a variable moves it.
    pub fn paths(
        &self,
        home: Option<&Path>,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Vec<PathBuf> {
        let moved = self
            .moved_by
            .and_then(|(name, below)| Some(variable(name)?.join(below).join(self.name)));
        home.map(|home| home.join(self.dir).join(self.name)).into_iter().chain(moved).collect()
    }
}
