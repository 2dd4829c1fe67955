//! `agents.md` and `providers.md`, and the tables in the guides, from the rows of the catalog.

use sandbox_policy::catalog::agent::{
    self, AgentFile, Guide, LoginUse, Moved, OnFirstRun, ProjectConfig, ProxyNaming, Runs, TOOLS,
    Unattended,
};
use sandbox_policy::catalog::provider::{KeyHeader, Upstream};
use sandbox_policy::catalog::{AGENTS, Agent, PROVIDERS, Provider, host_presets};

use super::{code, section, table};

const AGENTS_INTRO: &str = "\
# Agents

Commands, files and settings of each agent. How to start one: [run an agent](../how-to/run-agents.md). How it works
with the proxy: [keep API keys out of the sandbox](../how-to/credentials.md#agents).
";

const PROVIDERS_INTRO: &str = "\
# Providers

Servers that the proxy sends keys to. A secret selects one by `provider`, or by its variable. How to use them: [keep API
keys out of the sandbox](../how-to/credentials.md).
";

fn list<'t>(items: impl IntoIterator<Item = &'t str>) -> String {
    items.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// Describes a file, with the variable that moves it.
fn located(file: &AgentFile) -> String {
    let path = code(&format!("~/{}", file.in_home().display()));
    match file.moved {
        Moved::Never => path,
        Moved::By { variable, .. } => format!("{path} (`{variable}`)"),
    }
}

fn files<'f>(files: impl IntoIterator<Item = &'f AgentFile>) -> String {
    files.into_iter().map(located).collect::<Vec<_>>().join(", ")
}

fn project_config(config: &[ProjectConfig]) -> String {
    let names = config.iter().map(|config| match config {
        ProjectConfig::File(name, _) => code(name),
        ProjectConfig::Dir(name, _) => code(&format!("{name}/")),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn naming(agent: &Agent) -> String {
    match &agent.proxy {
        ProxyNaming::Variables => "the provider's variables".into(),
        ProxyNaming::FlagsOrToml(file) => format!("flags, else {}", located(file)),
        ProxyNaming::JsonVariable(variable) => code(variable),
        ProxyNaming::JsonKeyKind(file) => {
            format!("the provider's variables, and {}", located(file))
        }
    }
}

#[test]
fn agents_page_lists_the_rows_of_the_catalog() {
    let rows = AGENTS.iter().map(|agent| {
        let login = match &agent.login {
            LoginUse::FromLogin(login) => code(login.name),
            LoginUse::None => String::new(),
        };
        let state = list(agent.state.iter().map(|state| state.path));
        [agent.title.into(), list(agent.programs.iter().copied()), state, login, naming(agent)]
    });
    let head = ["agent", "commands", "state", "`from_login`", "the proxy's address"];
    let mut text = format!("{AGENTS_INTRO}\n{}", table(head, rows));
    let settings = AGENTS.iter().flat_map(|agent| agent.settings.iter().map(move |s| (agent, s)));
    let settings = settings.map(|(agent, settings)| {
        let runs = if settings.runs == Runs::Programs { "yes" } else { "" };
        let keys = list(settings.keys.iter().copied());
        [agent.title.into(), located(&settings.file), runs.into(), keys]
    });
    let head = ["agent", "file", "a change is reported", "fields that hold a key"];
    text.extend([format!("\n## Settings\n\n{}", table(head, settings))]);
    let agents = AGENTS.iter().map(|agent| (agent.title, agent.logins, agent.project_config));
    let tools = TOOLS.iter().map(|tool| (tool.title, tool.logins, tool.project_config));
    let rows = agents
        .chain(tools)
        .map(|(title, logins, config)| [title.to_owned(), files(logins), project_config(config)]);
    let head = ["program", "files with logins and keys", "read in a project"];
    text.extend([format!("\n## Files\n\n{}", table(head, rows))]);
    super::page("agents.md", &text);
}

#[test]
fn providers_page_lists_the_rows_of_the_catalog() {
    let rows = PROVIDERS.iter().map(|provider| {
        let server = match provider.upstream {
            Upstream::Public(url) | Upstream::Local(url) => code(url),
            Upstream::Configured => "`upstream_url`".into(),
        };
        let key = match provider.key {
            KeyHeader::None => "none".into(),
            KeyHeader::Header { name, format } => code(&format!("{name}: {format}")),
        };
        let address = |(name, path): &(&str, &str)| format!("{}{path}", code(name));
        let addresses = provider.addresses.iter().map(address).collect::<Vec<_>>().join(", ");
        let test = code(&format!("GET {}", provider.test.path));
        [code(provider.name), server, key, addresses, test]
    });
    let head = ["provider", "server", "key", "variables that get the address", "`secret test`"];
    let mut text = format!("{PROVIDERS_INTRO}\n{}", table(head, rows));
    text.push_str("\n## Routes\n\nRequests that pass unless a secret has `routes`.\n");
    for provider in PROVIDERS {
        let routes = list(provider.routes.iter().copied());
        text.extend([format!("\n### {}\n\n{routes}\n", code(provider.name))]);
    }
    super::page("providers.md", &text);
}

#[test]
fn guide_to_agents_lists_flags_and_state() {
    let flags = AGENTS.iter().filter_map(|agent| {
        let start = format!("`agent-sandbox {}", agent.programs[0]);
        let how = match agent.unattended {
            Unattended::Flags(flags) => format!("{start} {flags}`"),
            Unattended::Settings(settings) => format!("{start}`, with {settings}"),
            Unattended::Unknown => return None,
        };
        Some([agent.title.to_owned(), how])
    });
    section("how-to/run-agents.md", "unattended", &table(["agent", "without questions"], flags));
    let state = AGENTS.iter().map(|agent| {
        let needed = |state: &&agent::State| matches!(state.on_first_run, OnFirstRun::Created(_));
        let state = agent.state.iter().filter(needed).map(|state| state.path);
        [list(agent.programs.iter().copied()), list(state)]
    });
    section("how-to/run-agents.md", "first-run", &table(["command", "state"], state));
}

#[test]
fn guide_to_the_proxy_lists_credentials_and_agents() {
    // Providers that hide the same things share a row.
    let mut groups: Vec<Vec<&Provider>> = Vec::new();
    for provider in PROVIDERS.iter().filter(|provider| !provider.key_variables.is_empty()) {
        let same = |group: &&mut Vec<&Provider>| group[0].key_variables == provider.key_variables;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(provider),
            None => groups.push(vec![provider]),
        }
    }
    let rows = groups.iter().map(|group| {
        let variables = list(group[0].key_variables.iter().copied());
        let prefixes = list(group[0].prefixes.iter().copied());
        let names = list(group.iter().map(|provider| provider.name));
        let variables =
            format!("{variables}, and those with the name of a secret that begin with {prefixes}");
        [names, variables, files(agent::logins(group[0].name))]
    });
    section(
        "how-to/credentials.md",
        "credentials",
        &table(["provider", "variables", "files"], rows),
    );
    let agents = AGENTS.iter().filter_map(|agent| match agent.guide {
        Guide::Row(text) => Some([agent.title.to_owned(), text.to_owned()]),
        Guide::Nothing => None,
    });
    section("how-to/credentials.md", "agents", &table(["agent", "what it takes"], agents));
}

#[test]
fn guide_to_the_network_lists_the_presets_of_hosts() {
    let rows = host_presets().map(|preset| [format!("`{}`", preset.name), preset.about.to_owned()]);
    section("how-to/allow-hosts.md", "host-presets", &table(["preset", "hosts"], rows));
}
