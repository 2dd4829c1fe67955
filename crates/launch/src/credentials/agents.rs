//! Agent-specific settings that point an agent at the proxy, where a base URL variable is not enough.
//!
//! - Codex has no variable for its server. A provider is described by flags. Where Codex is not the command itself (in a
//!   session, or below a shell), its settings file describes the provider.
//! - opencode expects the API version in the base URL, if its SDK reads a variable at all. It also reads settings from a
//!   variable, which override its files.
//! - Gemini CLI treats a custom base URL as a gateway and then refuses to start without a terminal, unless the user's
//!   settings select API key authentication. It ignores system settings that root does not own, and root is unmapped here.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use jsonc_parser::ParseOptions;
use sandbox_core::plan::{Decided, Environment, Inputs};
use sandbox_policy::Host;
use sandbox_policy::catalog::agent::ProxyNaming;
use sandbox_policy::catalog::provider::AgentAddress;
use sandbox_policy::catalog::{Agent, Provider};
use sandbox_policy::config::{self, Sourced};
use serde_json::{Value, json};

use super::Holder;
use super::covered::{Placeholder, Settings};

/// Temporary content of settings files that do not exist on the host.
const JSON_PLACEHOLDER: &str =
    "// created by agent-sandbox for one run and removed when it ends\n{}\n";
const TOML_PLACEHOLDER: &str = "# created by agent-sandbox for one run and removed when it ends\n";

/// Returns the agents that can use this provider, each with its address row.
fn agents_of(
    provider: &'static Provider,
) -> impl Iterator<Item = (&'static Agent, &'static AgentAddress)> {
    provider.agents.iter().filter_map(|row| Some((Agent::of_command(row.agent.as_ref())?, row)))
}

/// Sets the variable of every agent that reads settings from one.
pub(super) fn tell(
    holder: &mut impl Holder,
    provider: &'static Provider,
    address: &str,
    secret: &Sourced<config::Secret>,
) {
    for (agent, row) in agents_of(provider) {
        let ProxyNaming::JsonVariable(variable) = agent.proxy else { continue };
        let sent = holder.get(variable);
        // Some of its SDKs read the key from a different variable than the provider's own tools.
        let options = [
            ("baseURL", format!("{address}{}", row.path)),
            ("apiKey", format!("{{env:{}}}", secret.value.env_var.as_str())),
        ];
        if let Some(settings) = json_settings(sent.as_deref(), row.name, options) {
            holder.set(variable, settings, secret);
        }
    }
}

/// Returns the user's settings from the variable with those of one provider added, or `None` when they do not parse.
fn json_settings(
    sent: Option<&str>,
    provider: &str,
    options: impl IntoIterator<Item = (&'static str, String)>,
) -> Option<String> {
    let mut settings = match sent.filter(|sent| !sent.trim().is_empty()) {
        Some(sent) => serde_json::from_str::<Value>(sent).ok()?,
        None => json!({}),
    };
    let mut place = &mut settings;
    for name in ["provider", provider, "options"] {
        place = place.as_object_mut()?.entry(name).or_insert_with(|| json!({}));
    }
    let place = place.as_object_mut()?;
    place.extend(options.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
    Some(settings.to_string())
}

/// Proxy details that one secret gives to an agent.
pub(super) struct Told<'t> {
    /// The provider.
    pub provider: &'static Provider,
    /// The proxy's base URL.
    pub address: &'t str,
    /// Variable that holds the token.
    pub variable: &'t str,
}

impl Told<'_> {
    /// Returns the base URL for one agent.
    fn address(&self, row: &AgentAddress) -> String {
        format!("{}{}", self.address, row.path)
    }
}

/// Adds flags that describe the proxy, when the command or the session's agent supports them. Codex reads a key from a
/// variable only for providers that flags or settings describe, not for its built-in one.
pub(super) fn flags(command: &mut Vec<OsString>, agent_at: usize, told: &Told<'_>) {
    for (agent, row) in agents_of(told.provider) {
        if !matches!(agent.proxy, ProxyNaming::FlagsOrToml(_)) || !is(agent, command, agent_at) {
            continue;
        }
        let (name, address) = (row.name, told.address(row));
        let provider = format!(
            "model_providers.agent-sandbox={{name=\"{name}\",base_url=\"{address}\",env_key=\"{}\",wire_api=\"responses\"}}",
            told.variable
        );
        let words = ["-c", "model_provider=agent-sandbox", "-c", &provider].map(OsString::from);
        let after = agent_at + 1;
        command.splice(after..after, words);
    }
}

/// Returns true when the command is this agent. In a session, the agent's words follow those of the supervisor.
fn is(agent: &Agent, command: &[OsString], agent_at: usize) -> bool {
    let name = command.get(agent_at).and_then(|word| Path::new(word).file_name());
    name.is_some_and(|name| agent.programs.iter().any(|program| name == *program))
}

/// Change of a settings file. Returns `None` when the file does not parse.
type Change<'c> = dyn Fn(&str) -> Option<String> + 'c;

/// Covers the settings files of agents that no variable or flag can point at the proxy.
pub(super) fn settings(
    host: &Host,
    decided: &Decided,
    inputs: &mut Inputs,
    agent_at: usize,
    told: &Told<'_>,
) -> Vec<Placeholder> {
    let mut held = Vec::new();
    for (agent, row) in agents_of(told.provider) {
        let change: Box<Change<'_>> = match agent.proxy {
            ProxyNaming::Variables | ProxyNaming::JsonVariable(_) => continue,
            // The command itself gets flags, and may write its settings.
            ProxyNaming::FlagsOrToml(_) if agent_at == 0 && is(agent, &inputs.command, 0) => {
                continue;
            }
            ProxyNaming::FlagsOrToml(_) => {
                let address = told.address(row);
                Box::new(move |sent| with_provider(sent, row.name, &address, told.variable))
            }
            ProxyNaming::JsonKeyKind(_) => Box::new(|sent| with_key(sent, row.name)),
        };
        let Some(settings) = shown_settings(agent, host, decided, &inputs.environment) else {
            continue;
        };
        held.extend(settings.cover(decided, &mut inputs.covers, change));
    }
    held
}

/// Returns the settings file that points an agent at the proxy.
fn shown_settings(
    agent: &Agent,
    host: &Host,
    decided: &Decided,
    environment: &Environment,
) -> Option<Settings> {
    let (file, placeholder) = match &agent.proxy {
        ProxyNaming::FlagsOrToml(file) => (file, TOML_PLACEHOLDER),
        ProxyNaming::JsonKeyKind(file) => (file, JSON_PLACEHOLDER),
        ProxyNaming::Variables | ProxyNaming::JsonVariable(_) => return None,
    };
    let set = |name: &str| {
        let value = environment.set.get(OsStr::new(name)).filter(|value| !value.is_empty());
        value.map(|value| decided.config().cwd.join(value))
    };
    let file = file.moved(set).or_else(|| {
        let home = set("HOME").or_else(|| host.home.clone())?;
        Some(home.join(file.in_home()))
    })?;
    Some(Settings { file, placeholder })
}

/// Returns Gemini CLI's settings with API key authentication selected, or `None` when they do not parse.
fn with_key(sent: &str, kind: &str) -> Option<String> {
    let mut settings = match sent.trim() {
        "" => json!({}),
        sent => jsonc_parser::parse_to_serde_value(sent, &ParseOptions::default()).ok()?,
    };
    let mut place = &mut settings;
    for name in ["security", "auth"] {
        place = place.as_object_mut()?.entry(name).or_insert_with(|| json!({}));
    }
    place.as_object_mut()?.insert("selectedType".to_owned(), kind.into());
    Some(settings.to_string())
}

/// Returns Codex's settings with a provider added that uses the proxy, or `None` when they do not parse or when the edit
/// would change anything else.
fn with_provider(sent: &str, name: &str, address: &str, variable: &str) -> Option<String> {
    let table = format!(
        "[model_providers.agent-sandbox]\nname = \"{name}\"\nbase_url = \"{address}\"\nenv_key = \"{variable}\"\nwire_api = \"responses\"\n"
    );
    let mut in_root = true;
    let mut kept = String::new();
    for line in sent.lines() {
        in_root &= !line.trim_start().starts_with('[');
        let value = line.trim_start().strip_prefix("model_provider").map(str::trim_start);
        if !in_root || !value.is_some_and(|value| value.starts_with('=')) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let text = format!("model_provider = \"agent-sandbox\"\n{kept}\n{table}");
    let merged: toml::Table = text.parse().ok()?;
    let mut expected: toml::Table = sent.parse().ok()?;
    let mut provider: toml::Table = table.parse().ok()?;
    let ours = provider.remove("model_providers")?.as_table_mut()?.remove("agent-sandbox")?;
    expected.insert("model_provider".to_owned(), "agent-sandbox".into());
    let providers = expected.entry("model_providers").or_insert_with(|| toml::Table::new().into());
    providers.as_table_mut()?.insert("agent-sandbox".to_owned(), ours);
    (merged == expected).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "gemini-api-key";

    #[test]
    fn settings_of_the_user_keep_everything_but_the_address() {
        let address = "http://127.0.0.1:3128/v1";
        for (sent, expected) in [
            (
                None,
                Some(json!({ "provider": { "anthropic": { "options": { "baseURL": address } } } })),
            ),
            (
                Some(""),
                Some(json!({ "provider": { "anthropic": { "options": { "baseURL": address } } } })),
            ),
            (
                Some(
                    r#"{"model":"m","provider":{"anthropic":{"options":{"timeout":1,"baseURL":"x"}},"b":{}}}"#,
                ),
                Some(json!({
                    "model": "m",
                    "provider": { "anthropic": { "options": { "timeout": 1, "baseURL": address } }, "b": {} },
                })),
            ),
            (Some("{ // a comment\n}"), None),
            (Some("[]"), None),
            (Some(r#"{"provider":7}"#), None),
        ] {
            let got = json_settings(sent, "anthropic", [("baseURL", address.to_owned())]);
            let got = got.map(|text| serde_json::from_str::<Value>(&text).unwrap());
            assert_eq!(got, expected, "{sent:?}");
        }
    }

    #[test]
    fn settings_of_the_user_say_that_there_is_a_key() {
        let key = json!({ "selectedType": "gemini-api-key" });
        for (sent, expected) in [
            ("", Some(json!({ "security": { "auth": key } }))),
            ("{}\n", Some(json!({ "security": { "auth": key } }))),
            (
                r#"{"ui":{"theme":"x"},"security":{"auth":{"selectedType":"oauth-personal"},"a":1}}"#,
                Some(json!({ "ui": { "theme": "x" }, "security": { "auth": key, "a": 1 } })),
            ),
            (
                r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#,
                Some(json!({ "security": { "auth": key } })),
            ),
            (JSON_PLACEHOLDER, Some(json!({ "security": { "auth": key } }))),
            (
                "{ // a comment\n\"ui\": {}, /* and */\n}",
                Some(json!({ "ui": {}, "security": { "auth": key } })),
            ),
            ("[]", None),
            ("{", None),
        ] {
            let got =
                with_key(sent, KIND).map(|text| serde_json::from_str::<Value>(&text).unwrap());
            assert_eq!(got, expected, "{sent}");
        }
    }

    #[test]
    fn settings_of_codex_name_our_provider_and_keep_the_rest() {
        let ours: toml::Table =
            "name = 'OpenAI'\nbase_url = 'http://a/v1'\nenv_key = 'KEY'\nwire_api = 'responses'"
                .parse()
                .unwrap();
        for (sent, kept) in [
            ("", Some("")),
            (TOML_PLACEHOLDER, Some("")),
            ("model = 'm'\nmodel_provider = 'other' # mine\n", Some("model = 'm'")),
            (
                "model_provider='x'\n[projects.'/p']\ntrust_level = 'trusted'",
                Some("[projects.'/p']\ntrust_level = 'trusted'"),
            ),
            (
                "list = [\n[1],\n]\n[model_providers.other]\nname = 'o'\n[profiles.p]\nmodel_provider = 'other'",
                Some(
                    "list = [[1]]\n[model_providers.other]\nname = 'o'\n[profiles.p]\nmodel_provider = 'other'",
                ),
            ),
            // Settings that a line edit would break are left alone.
            ("model_providers = { other = { name = 'o' } }", None),
            ("text = \"\"\"\nmodel_provider = 'x'\n\"\"\"", None),
            ("model_provider = ", None),
        ] {
            let got = with_provider(sent, "OpenAI", "http://a/v1", "KEY");
            let got = got.map(|text| text.parse::<toml::Table>().unwrap());
            let expected = kept.map(|kept| {
                let mut table: toml::Table = kept.parse().unwrap();
                table.insert("model_provider".into(), "agent-sandbox".into());
                let providers = table.entry("model_providers").or_insert(toml::Table::new().into());
                let providers = providers.as_table_mut().unwrap();
                providers.insert("agent-sandbox".into(), ours.clone().into());
                table
            });
            assert_eq!(got, expected, "{sent}");
        }
    }
}
