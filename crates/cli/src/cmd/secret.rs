//! `secret`: stores, lists, removes and tests secrets. A secret is never an argument, and never printed.

mod test;

use std::io::{self, IsTerminal, Read};

use sandbox_launch::credentials::store;
use sandbox_linux::clock;
use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::client::Client;
use sandbox_proxy::credential::Secret as Value;
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::secret::{KeyStorage, Name, StoreError, looks_like_a_key};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{columns, json};
use crate::args::Flags;
use crate::args::secret::{Secret, Set};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// Longest secret that is read from standard input.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, Error)]
pub(crate) enum SecretError {
    #[error("cannot find the secret store: there is no home directory")]
    NoHome,
    #[error("the variable{0} is not set")]
    NoVariable(String),
    // The message does not repeat it, because messages end up in logs.
    #[error("the name of the secret looks like a key")]
    LooksSecret,
    #[error("no secret was typed")]
    Nothing,
    #[error("cannot read the secret")]
    Ask(#[source] io::Error),
    #[error("the secret is not UTF-8 text")]
    NotText,
    #[error("secrets are not available inside a sandbox")]
    Inside,
}

impl Hint for SecretError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME`".to_owned()),
            Self::Ask(_) => Some("send it on standard input, or use `--from-env NAME`".into()),
            Self::NotText => Some("encode it, for example with base64".into()),
            Self::Inside => Some("run this command on the host".into()),
            Self::LooksSecret => Some(NOT_AN_ARGUMENT.into()),
            Self::NoVariable(_) | Self::Nothing => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if matches!(self, Self::LooksSecret) { ExitCode::Usage } else { ExitCode::Failure }
    }
}

/// Runs a subcommand.
pub(crate) fn run(
    flags: &Flags,
    command: Option<&Secret>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let Some(command) = command else { return super::overview("secret", flags, io) };
    if host.inside {
        return Err(SecretError::Inside.into());
    }
    match command {
        Secret::Set(set) => keep(set, host, io),
        Secret::List => list(flags, host, io),
        Secret::Rm { name } => {
            let name = Name::parse(name)?;
            store(host)?.remove(&name).map_err(not_stored)?;
            forget(host);
            io.say(&format!("Removed secret `{name}`"));
            Ok(0)
        }
        Secret::Test(asked) => test::run(flags, asked, host, io),
    }
}

/// Replaces the hint to store a secret that the user wants to remove.
fn not_stored(error: StoreError) -> Failed {
    let is_missing = matches!(error, StoreError::Missing(_));
    let mut failed = Failed::from(error);
    if is_missing {
        failed.hint = Some("`agent-sandbox secret list` lists the stored secrets".into());
    }
    failed
}

/// Hint for a secret on the command line.
pub(crate) const NOT_AN_ARGUMENT: &str = "pass only its name, as in `agent-sandbox secret set anthropic`, and type the secret at the prompt or send \
     it on standard input; on the command line, other processes and the shell's history can read it";

fn keep(set: &Set, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if looks_like_a_key(&set.name) {
        return Err(SecretError::LooksSecret.into());
    }
    let name = Name::parse(&set.name)?;
    let store = store(host)?;
    let value = match &set.from_env {
        Some(variable) => from_variable(variable, host)?,
        None => ask(&name)?,
    };
    let place = store.set(&name, &value)?;
    forget(host);
    let key = match place {
        KeyStorage::Keyring => "key in the system's keyring",
        KeyStorage::File => "key file readable only by you",
    };
    io.say(&format!("Saved secret `{name}` (encrypted; {key})"));
    Ok(0)
}

fn from_variable(name: &str, host: &Host) -> Result<Value, SecretError> {
    // A word that is not a usual name of a variable may be the secret itself.
    let usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let shown = if name.bytes().all(usual) { format!(" `{name}`") } else { String::new() };
    let value = host.var(name).ok_or(SecretError::NoVariable(shown))?;
    value.to_str().map(|text| Value::from(text.to_owned())).ok_or(SecretError::NotText)
}

fn ask(name: &Name) -> Result<Value, SecretError> {
    let bytes = if io::stdin().is_terminal() {
        let prompt = format!("Enter secret `{name}` (hidden): ");
        sandbox_linux::terminal::hidden_line(&prompt)
            .map_err(SecretError::Ask)?
            .ok_or(SecretError::Nothing)?
    } else {
        let mut bytes = Vec::new();
        io::stdin().take(LARGEST).read_to_end(&mut bytes).map_err(SecretError::Ask)?;
        bytes
    };
    let bytes = Zeroizing::new(bytes);
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::NotText)?;
    // A trailing line break is not part of the secret.
    Ok(Value::from(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Makes a running proxy read its keys again.
fn forget(host: &Host) {
    if let Some(place) = ProxyDirs::of(host) {
        // Fails if no proxy is running, which has no keys to forget.
        let _ = Client::new(&place).forget_keys();
    }
}

fn list(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let kept = store(host)?.list()?;
    if flags.json {
        let (key, secrets) = kept.map_or((None, Vec::new()), |(key, kept)| (Some(key), kept));
        json(&serde_json::json!({ "key": key, "secrets": secrets }), io);
        return Ok(0);
    }
    let Some((_, secrets)) = kept.filter(|(_, secrets)| !secrets.is_empty()) else {
        io.say("no secrets; `agent-sandbox secret set NAME` stores one");
        return Ok(0);
    };
    let now = clock::now();
    let rows: Vec<[String; 2]> = secrets
        .into_iter()
        .map(|kept| [kept.name.to_string(), clock::duration(now.saturating_sub(kept.since))])
        .collect();
    let text = columns(&rows, |column, text, _| match column {
        0 => text.to_owned(),
        _ => io.tone(Tone::Quiet, text),
    });
    io.data(&text);
    Ok(0)
}
