//! How agents are told where the proxy is, beyond the variables that name a provider's address.
//!
//! - Codex knows no variable for its server. Flags describe a provider to it, or settings where it is not the command
//!   itself: in a session, below a shell.
//! - opencode expects an address with the version in it, where its SDKs read a variable at all. It takes settings
//!   from a variable, which count more than its files.
//! - Gemini CLI takes an address for that of a gateway, and then refuses to start without a terminal, unless the user's
//!   settings say that it has a key. Those of the system count only where they belong to root, who is not known inside.

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

/// Content that settings which do not exist get on the host, for the time of a run.
const JSON_PLACEHOLDER: &str =
    "// made by agent-sandbox for a run, which removes it at its end\n{}\n";
const TOML_PLACEHOLDER: &str = "# made by agent-sandbox for a run, which removes it at its end\n";

/// Returns the agents whose settings name this provider, each with the row that says how.
fn agents_of(
    provider: &'static Provider,
) -> impl Iterator<Item = (&'static Agent, &'static AgentAddress)> {
    provider.agents.iter().filter_map(|row| Some((Agent::of_command(row.agent.as_ref())?, row)))
}

/// Tells every agent that takes settings from a variable.
pub(super) fn tell(
    holder: &mut impl Holder,
    provider: &'static Provider,
    address: &str,
    secret: &Sourced<config::Secret>,
) {
    for (agent, row) in agents_of(provider) {
        let ProxyNaming::JsonVariable(variable) = agent.proxy else { continue };
        let sent = holder.get(variable);
        // Some of its SDKs take the key from another variable than the provider's own tools.
        let options = [
            ("baseURL", format!("{address}{}", row.path)),
            ("apiKey", format!("{{env:{}}}", secret.value.env_var.as_str())),
        ];
        if let Some(settings) = json_settings(sent.as_deref(), row.name, options) {
            holder.set(variable, settings, secret);
        }
    }
}

/// The settings that the user has in the variable, with these of one provider. Settings that cannot be read stay as
/// they are.
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

/// Facts about the proxy that a secret tells an agent.
pub(super) struct Told<'t> {
    /// The provider.
    pub provider: &'static Provider,
    /// The proxy's address.
    pub address: &'t str,
    /// The variable that holds the token.
    pub variable: &'t str,
}

impl Told<'_> {
    /// Returns the address for one agent.
    fn address(&self, row: &AgentAddress) -> String {
        format!("{}{}", self.address, row.path)
    }
}

/// Describes the proxy by flags to an agent that knows them, where it is the command itself or the agent of a session:
/// Codex takes no key from a variable for its own provider, but for one that flags or settings describe.
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

/// Returns true when the command is this agent. In a session its words follow those of our server.
fn is(agent: &Agent, command: &[OsString], agent_at: usize) -> bool {
    let name = command.get(agent_at).and_then(|word| Path::new(word).file_name());
    name.is_some_and(|name| agent.programs.iter().any(|program| name == *program))
}

/// A change of settings; none where they cannot be read.
type Change<'c> = dyn Fn(&str) -> Option<String> + 'c;

/// Shows agents of a provider settings by which they use the proxy, where no variable says so.
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
            // The command itself has flags, and may write its settings.
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

/// Returns the settings in which an agent is told of the proxy.
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

/// The user's settings of Gemini CLI with the one that says that there is a key; none where they cannot be read.
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

/// The user's settings of Codex with a provider of ours, by which it uses the proxy. None where they cannot be read, or
/// where more than that would change.
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
            // Settings that cannot be changed line by line stay as they are.
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
