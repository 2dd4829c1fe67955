//! How agents are told where the proxy is, beyond the variables that name a provider's address.
//!
//! - Codex knows no variable for its server. Flags describe a provider to it, or settings where it is not the command
//!   itself: in a session, below a shell.
//! - opencode expects an address with the version in it, where its SDKs read a variable at all. It takes settings
//!   from a variable, which count more than its files.
//! - Gemini CLI takes an address for that of a gateway, and then refuses to start without a terminal, unless the user's
//!   settings say that it has a key. Those of the system count only where they belong to root, who is not known inside.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use sandbox_core::Host;
use sandbox_core::config::{self, Sourced};
use sandbox_core::plan::{Decided, Environment, Inputs};
use sandbox_proxy::provider::Provider;
use serde_json::{Value, json};

use super::Holder;
use super::covered::{Placeholder, Settings};

/// The name that each provider has in the settings of opencode, and the path behind the address there.
const OPENCODE: &[(&str, &str, &str)] = &[
    ("anthropic", "anthropic", "/v1"),
    ("anthropic-subscription", "anthropic", "/v1"),
    ("openai", "openai", "/v1"),
    ("gemini", "google", "/v1beta"),
];
const OPENCODE_SETTINGS: &str = "OPENCODE_CONFIG_CONTENT";

/// The path behind the address, for Codex.
const CODEX: &[(&str, &str)] = &[("openai", "/v1"), ("openai-subscription", "")];

/// The name that a key in a variable has in the settings of Gemini CLI.
const GEMINI_KEY: &str = "gemini-api-key";

/// Content that settings which do not exist get on the host, for the time of a run.
const GEMINI_PLACEHOLDER: &str =
    "// made by agent-sandbox for a run, which removes it at its end\n{}\n";
const CODEX_PLACEHOLDER: &str = "# made by agent-sandbox for a run, which removes it at its end\n";

/// Tells every agent that uses this provider.
pub(super) fn tell(
    holder: &mut impl Holder,
    provider: &Provider,
    address: &str,
    secret: &Sourced<config::Secret>,
) {
    if let Some((_, name, behind)) = OPENCODE.iter().find(|row| row.0 == provider.name) {
        let sent = holder.get(OPENCODE_SETTINGS);
        // Some of its SDKs take the key from another variable than the provider's own tools.
        let options = [
            ("baseURL", format!("{address}{behind}")),
            ("apiKey", format!("{{env:{}}}", secret.value.env_var.as_str())),
        ];
        if let Some(settings) = opencode(sent.as_deref(), name, options) {
            holder.set(OPENCODE_SETTINGS, settings, secret);
        }
    }
}

/// The settings that the user has in the variable, with these of one provider. Settings that cannot be read stay as
/// they are.
fn opencode(
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
    /// Name of the provider.
    pub provider: &'t str,
    /// The proxy's address.
    pub address: &'t str,
    /// The variable that holds the token.
    pub variable: &'t str,
}

impl Told<'_> {
    /// Returns the address for Codex, if it uses the provider.
    fn codex(&self) -> Option<String> {
        let (_, behind) = CODEX.iter().find(|row| row.0 == self.provider)?;
        Some(format!("{}{behind}", self.address))
    }
}

/// Describes the proxy to Codex by flags, where it is the command itself or the agent of a session: it takes no key
/// from a variable for its own provider, but for one that flags or settings describe.
pub(super) fn codex(command: &mut Vec<OsString>, agent_at: usize, told: &Told<'_>) {
    let Some(address) = told.codex().filter(|_| is_codex(command, agent_at)) else { return };
    let provider = format!(
        "model_providers.agent-sandbox={{name=\"OpenAI\",base_url=\"{address}\",env_key=\"{}\",wire_api=\"responses\"}}",
        told.variable
    );
    let words = ["-c", "model_provider=agent-sandbox", "-c", &provider].map(OsString::from);
    let after = agent_at + 1;
    command.splice(after..after, words);
}

/// Returns true when the agent is Codex. In a session its words stand behind those of our server.
fn is_codex(command: &[OsString], agent_at: usize) -> bool {
    let name = command.get(agent_at).and_then(|word| Path::new(word).file_name());
    name.is_some_and(|name| name == "codex")
}

/// Shows agents of a provider settings by which they use the proxy, where no variable says so.
pub(super) fn settings(
    host: &Host,
    decided: &Decided,
    inputs: &mut Inputs,
    agent_at: usize,
    told: &Told<'_>,
) -> Option<Placeholder> {
    let environment = &inputs.environment;
    if told.provider == "gemini" {
        let home = settings_dir(host, decided, environment, "GEMINI_CLI_HOME", None)?;
        let file = home.join(".gemini/settings.json");
        let settings = Settings { file, placeholder: GEMINI_PLACEHOLDER };
        return settings.cover(decided, &mut inputs.covers, with_key);
    }
    let address = told.codex()?;
    // The command itself has flags, and may write its settings.
    if agent_at == 0 && is_codex(&inputs.command, agent_at) {
        return None;
    }
    let dir = settings_dir(host, decided, environment, "CODEX_HOME", Some(".codex"))?;
    let settings = Settings { file: dir.join("config.toml"), placeholder: CODEX_PLACEHOLDER };
    let change = |sent: &str| with_provider(sent, &address, told.variable);
    settings.cover(decided, &mut inputs.covers, change)
}

/// Returns the directory that a variable of the command names, else the home directory or one in it.
fn settings_dir(
    host: &Host,
    decided: &Decided,
    environment: &Environment,
    variable: &str,
    in_home: Option<&str>,
) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = environment.set.get(OsStr::new(name)).filter(|value| !value.is_empty());
        value.map(|value| decided.config().cwd.join(value))
    };
    set(variable).or_else(|| {
        let home = set("HOME").or_else(|| host.home.clone())?;
        Some(in_home.map_or_else(|| home.clone(), |dir| home.join(dir)))
    })
}

/// The user's settings of Gemini CLI with the one that says that there is a key; none where they cannot be read.
fn with_key(sent: &str) -> Option<String> {
    let mut settings = match sent.trim() {
        "" => json!({}),
        sent => jsonc_parser::parse_to_serde_value(sent, &ParseOptions::default()).ok()?,
    };
    let mut place = &mut settings;
    for name in ["security", "auth"] {
        place = place.as_object_mut()?.entry(name).or_insert_with(|| json!({}));
    }
    place.as_object_mut()?.insert("selectedType".to_owned(), GEMINI_KEY.into());
    Some(settings.to_string())
}

/// The user's settings of Codex with a provider of ours, by which it uses the proxy. None where they cannot be read, or
/// where more than that would change.
fn with_provider(sent: &str, address: &str, variable: &str) -> Option<String> {
    let table = format!(
        "[model_providers.agent-sandbox]\nname = \"OpenAI\"\nbase_url = \"{address}\"\nenv_key = \"{variable}\"\nwire_api = \"responses\"\n"
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
            let got = opencode(sent, "anthropic", [("baseURL", address.to_owned())]);
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
            (GEMINI_PLACEHOLDER, Some(json!({ "security": { "auth": key } }))),
            (
                "{ // a comment\n\"ui\": {}, /* and */\n}",
                Some(json!({ "ui": {}, "security": { "auth": key } })),
            ),
            ("[]", None),
            ("{", None),
        ] {
            let got = with_key(sent).map(|text| serde_json::from_str::<Value>(&text).unwrap());
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
            (CODEX_PLACEHOLDER, Some("")),
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
            let got = with_provider(sent, "http://a/v1", "KEY");
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
