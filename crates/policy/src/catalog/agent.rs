//! Table of agents: their state, settings and logins, and how they learn the proxy's address.

mod types;

pub use types::{
    Agent, AgentFile, Guide, Initial, Login, LoginFormat, LoginUse, Moved, OnFirstRun, Preset,
    ProjectConfig, ProxyNaming, Renewal, Runs, Scope, SettingsFile, State, Tool, Unattended,
    created_on_first_run, logins, project_config, running_settings, settings, writable,
};

use super::provider::ANTHROPIC_KEYS;

/// Every agent, in the order in which they are listed.
pub const AGENTS: &[Agent] = &[
    Agent {
        title: "Claude Code",
        programs: &["claude"],
        unattended: Unattended::Flags("--dangerously-skip-permissions"),
        state: &[
            state("~/.claude", CREATED_DIR),
            state("~/.claude.json", OnFirstRun::Created(Initial::File("{}\n"))),
            state("~/.local/state/claude", OnFirstRun::NotNeeded),
        ],
        passed_variables: &["CLAUDE_*"],
        providers: &["anthropic", "anthropic-subscription"],
        logins: &[CLAUDE_LOGIN],
        login: LoginUse::FromLogin(Login {
            name: "claude",
            owner: "Claude Code",
            provider: "anthropic-subscription",
            file: CLAUDE_LOGIN,
            format: LoginFormat::ClaudeCode,
            remedy: "run `claude` once on the host, outside the sandbox, or use `claude setup-token`",
            renewal: Renewal {
                server: "https://platform.claude.com",
                path: "/v1/oauth/token",
                client: "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
                scope: Scope::Granted,
            },
        }),
        settings: &[
            SettingsFile {
                file: file(CLAUDE, ".claude", "settings.json"),
                runs: Runs::Programs,
                keys: ANTHROPIC_KEYS,
            },
            SettingsFile {
                file: file(CLAUDE, ".claude", "settings.local.json"),
                runs: Runs::Nothing,
                keys: ANTHROPIC_KEYS,
            },
            // It changes with every run, so a report of changes would be noise.
            SettingsFile {
                file: file(Moved::Never, "", ".claude.json"),
                runs: Runs::Nothing,
                keys: &["primaryApiKey"],
            },
            SettingsFile {
                file: file(CLAUDE, ".claude", ".claude.json"),
                runs: Runs::Nothing,
                keys: &["primaryApiKey"],
            },
        ],
        project_config: &[
            ProjectConfig::File(".mcp.json", STARTS_SERVERS),
            ProjectConfig::File("CLAUDE.local.md", INSTRUCTIONS),
            ProjectConfig::File("CLAUDE.md", INSTRUCTIONS),
            ProjectConfig::Dir(".claude", "agents run its hooks and commands"),
        ],
        proxy: ProxyNaming::Variables,
        guide: Guide::Row(
            "`env_var = \"ANTHROPIC_API_KEY\"`. For a subscription, run `claude setup-token` on the host, store the token, and set `env_var = \"CLAUDE_CODE_OAUTH_TOKEN\"`",
        ),
    },
    Agent {
        title: "Codex",
        programs: &["codex"],
        unattended: Unattended::Flags("--dangerously-bypass-approvals-and-sandbox"),
        state: &[state("~/.codex", CREATED_DIR)],
        passed_variables: &["CODEX_*"],
        providers: &["openai", "openai-subscription"],
        logins: &[CODEX_LOGIN],
        login: LoginUse::FromLogin(Login {
            name: "codex",
            owner: "Codex",
            provider: "openai-subscription",
            file: CODEX_LOGIN,
            format: LoginFormat::Codex,
            remedy: "run `codex login` on the host, outside the sandbox",
            renewal: Renewal {
                server: "https://auth.openai.com",
                path: "/oauth/token",
                client: "app_EMoamEEZ73f0CkXaXp7hrann",
                scope: Scope::Requested("openid profile email"),
            },
        }),
        settings: &[
            SettingsFile {
                file: CODEX_SETTINGS,
                runs: Runs::Programs,
                keys: &["experimental_bearer_token"],
            },
            SettingsFile {
                file: file(CODEX, ".codex", "hooks.json"),
                runs: Runs::Programs,
                keys: &[],
            },
        ],
        project_config: &[
            ProjectConfig::File("AGENTS.md", INSTRUCTIONS),
            ProjectConfig::Dir(".codex", CONFIGURED),
        ],
        proxy: ProxyNaming::FlagsOrToml(CODEX_SETTINGS),
        guide: Guide::Row(
            "`env_var = \"OPENAI_API_KEY\"`. `agent-sandbox codex …` sets the provider by flags. In a session, or if another command starts Codex, `~/.codex/config.toml` (`CODEX_HOME`) sets it: inside, the file is read-only and names the provider `agent-sandbox`. Your own file is not changed. A profile that names another provider wins",
        ),
    },
    Agent {
        title: "opencode",
        programs: &["opencode"],
        unattended: Unattended::Settings("`\"permission\": \"allow\"` in `opencode.json`"),
        state: &[
            state("~/.config/opencode", CREATED_DIR),
            state("~/.local/share/opencode", CREATED_DIR),
            state("~/.local/state/opencode", CREATED_DIR),
            State { path: "~/.cache", on_first_run: CREATED_DIR, preset: Preset::Caches },
        ],
        passed_variables: &["OPENCODE_*"],
        providers: ALL_PROVIDERS,
        logins: &[file(
            Moved::By { variable: "XDG_DATA_HOME", below: "opencode" },
            ".local/share/opencode",
            "auth.json",
        )],
        login: LoginUse::None,
        settings: &[
            SettingsFile {
                file: file(OPENCODE, ".config/opencode", "opencode.json"),
                runs: Runs::Programs,
                keys: &["apiKey"],
            },
            SettingsFile {
                file: file(OPENCODE, ".config/opencode", "opencode.jsonc"),
                runs: Runs::Programs,
                keys: &["apiKey"],
            },
        ],
        project_config: &[
            ProjectConfig::File("opencode.json", STARTS_SERVERS),
            ProjectConfig::File("opencode.jsonc", STARTS_SERVERS),
            ProjectConfig::Dir(".opencode", CONFIGURED),
        ],
        proxy: ProxyNaming::JsonVariable("OPENCODE_CONFIG_CONTENT"),
        guide: Guide::Row(
            "the provider's variable: `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`. The address is added to `OPENCODE_CONFIG_CONTENT`",
        ),
    },
    Agent {
        title: "Gemini CLI",
        programs: &["gemini"],
        unattended: Unattended::Flags("--yolo --skip-trust"),
        state: &[state("~/.gemini", CREATED_DIR)],
        passed_variables: &["GEMINI_*"],
        providers: &["gemini"],
        logins: &[
            file(GEMINI, ".gemini", "oauth_creds.json"),
            file(GEMINI, ".gemini", "gemini-credentials.json"),
            file(GEMINI, ".gemini", ".env"),
        ],
        login: LoginUse::None,
        settings: &[SettingsFile {
            file: GEMINI_SETTINGS,
            runs: Runs::Programs,
            keys: &["apiKey"],
        }],
        project_config: &[
            ProjectConfig::File("GEMINI.md", INSTRUCTIONS),
            ProjectConfig::Dir(".gemini", CONFIGURED),
        ],
        proxy: ProxyNaming::JsonKeyKind(GEMINI_SETTINGS),
        guide: Guide::Row(
            "`env_var = \"GEMINI_API_KEY\"`. Inside, `~/.gemini/settings.json` (`GEMINI_CLI_HOME`) is read-only and selects the API key. Your own file is not changed",
        ),
    },
    Agent {
        title: "Pi",
        programs: &["pi"],
        unattended: Unattended::Unknown,
        state: &[state("~/.pi", CREATED_DIR)],
        passed_variables: &[],
        providers: ALL_PROVIDERS,
        logins: &[file(
            Moved::By { variable: "PI_CODING_AGENT_DIR", below: "" },
            ".pi/agent",
            "auth.json",
        )],
        login: LoginUse::None,
        settings: &[],
        project_config: &[ProjectConfig::Dir(".pi", CONFIGURED)],
        proxy: ProxyNaming::Variables,
        guide: Guide::Nothing,
    },
];

/// Other programs with files that matter to a sandbox: editors with an agent, and programs that store keys.
pub const TOOLS: &[Tool] = &[
    Tool {
        title: "goose",
        providers: ALL_PROVIDERS,
        logins: &[file(
            Moved::By { variable: "XDG_CONFIG_HOME", below: "goose" },
            ".config/goose",
            "secrets.yaml",
        )],
        project_config: &[],
    },
    Tool {
        title: "llm",
        providers: ALL_PROVIDERS,
        logins: &[file(
            Moved::By { variable: "LLM_USER_PATH", below: "" },
            ".config/io.datasette.llm",
            "keys.json",
        )],
        project_config: &[],
    },
    Tool {
        title: "Cursor",
        providers: &[],
        logins: &[],
        project_config: &[
            ProjectConfig::File(".cursorrules", INSTRUCTIONS),
            ProjectConfig::Dir(".cursor", CONFIGURED),
        ],
    },
    Tool {
        title: "Windsurf",
        providers: &[],
        logins: &[],
        project_config: &[
            ProjectConfig::File(".windsurfrules", INSTRUCTIONS),
            ProjectConfig::Dir(".windsurf", CONFIGURED),
        ],
    },
    Tool {
        title: "GitHub Copilot",
        providers: &[],
        logins: &[],
        project_config: &[ProjectConfig::File("copilot-instructions.md", INSTRUCTIONS)],
    },
    Tool {
        title: "Continue",
        providers: &[],
        logins: &[],
        project_config: &[ProjectConfig::Dir(".continue", CONFIGURED)],
    },
    Tool {
        title: "Roo Code",
        providers: &[],
        logins: &[],
        project_config: &[ProjectConfig::Dir(".roo", CONFIGURED)],
    },
];

/// Providers whose keys a multi-provider program can store.
const ALL_PROVIDERS: &[&str] =
    &["anthropic", "anthropic-subscription", "openai", "openai-subscription", "gemini"];

const INSTRUCTIONS: &str = "agents follow its instructions";
const STARTS_SERVERS: &str = "agents start the servers it lists";
const CONFIGURED: &str = "agents run programs that it configures";

const CLAUDE: Moved = Moved::By { variable: "CLAUDE_CONFIG_DIR", below: "" };
const CODEX: Moved = Moved::By { variable: "CODEX_HOME", below: "" };
const GEMINI: Moved = Moved::By { variable: "GEMINI_CLI_HOME", below: ".gemini" };
const OPENCODE: Moved = Moved::By { variable: "XDG_CONFIG_HOME", below: "opencode" };
const CLAUDE_LOGIN: AgentFile = file(CLAUDE, ".claude", ".credentials.json");
const CODEX_LOGIN: AgentFile = file(CODEX, ".codex", "auth.json");
const CODEX_SETTINGS: AgentFile = file(CODEX, ".codex", "config.toml");
const GEMINI_SETTINGS: AgentFile = file(GEMINI, ".gemini", "settings.json");

const fn file(moved: Moved, dir: &'static str, name: &'static str) -> AgentFile {
    AgentFile { moved, dir, name }
}

const CREATED_DIR: OnFirstRun = OnFirstRun::Created(Initial::Dir);

const fn state(path: &'static str, on_first_run: OnFirstRun) -> State {
    State { path, on_first_run, preset: Preset::Agents }
}
