//! `secret`: keeps secrets for sandboxes. A secret is never an argument, and never printed.

mod test;

use std::io::{self, IsTerminal, Read};

use sandbox_core::Host;
use sandbox_proxy::client::Client;
use sandbox_proxy::credential::Secret as Value;
use sandbox_proxy::place::Place as Proxy;
use sandbox_proxy::secret::{KeyPlace, Name, Sources, Store, StoreError};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{columns, json};
use crate::args::Flags;
use crate::args::secret::{Secret, Set};
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// No secret is longer.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, Error)]
pub(crate) enum SecretError {
    #[error("there is no home directory to keep secrets in")]
    NoHome,
    #[error("the variable `{0}` is not set")]
    NoVariable(String),
    #[error("nothing was typed")]
    GivenUp,
    #[error("cannot ask for the secret")]
    Ask(#[source] io::Error),
    #[error("the secret is no text")]
    NoText,
    #[error("secrets are kept outside the sandbox")]
    Inside,
}

impl From<SecretError> for Failed {
    fn from(error: SecretError) -> Self {
        let hint = match &error {
            SecretError::NoHome => Some("set `HOME`".to_owned()),
            SecretError::Ask(_) => {
                Some("send it on standard input, or use `--from-env NAME`".into())
            }
            SecretError::NoText => Some("encode it, with base64 for example".into()),
            SecretError::Inside => Some("run this command on the host".into()),
            SecretError::NoVariable(_) | SecretError::GivenUp => None,
        };
        Self { code: 1, ..Self::new(error, hint) }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let (hint, code) = (error.hint(), if matches!(error, StoreError::Name(_)) { 2 } else { 1 });
        Self { code, ..Self::new(error, hint) }
    }
}

/// The user's store.
pub(crate) fn store(host: &Host) -> Result<Store, SecretError> {
    let data = host.data_dir().ok_or(SecretError::NoHome)?;
    Ok(Store::at(data.join("secrets")))
}

/// Every place that the user's secrets may lie in.
pub(crate) fn sources(host: &Host) -> Result<Sources, SecretError> {
    let home = host.home.clone().ok_or(SecretError::NoHome)?;
    Ok(Sources::new(store(host)?, home))
}

pub(crate) fn run(
    flags: &Flags,
    command: Option<&Secret>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let Some(command) = command else { return Ok(super::help_of("secret", io)) };
    if host.inside {
        return Err(SecretError::Inside.into());
    }
    match command {
        Secret::Set(set) => keep(set, host, io),
        Secret::List => list(flags, host, io),
        Secret::Rm { name } => {
            let name = Name::parse(name)?;
            store(host)?.remove(&name)?;
            forget(host);
            io.labelled(Tone::Good, "removed", &format!("`{name}`"));
            Ok(0)
        }
        Secret::Test(asked) => test::run(flags, asked, host, io),
    }
}

fn keep(set: &Set, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let name = Name::parse(&set.name)?;
    let store = store(host)?;
    let value = match &set.from_env {
        Some(variable) => from_variable(variable, host)?,
        None => ask(&name)?,
    };
    let place = store.set(&name, &value)?;
    forget(host);
    let key = match place {
        KeyPlace::Keyring => "its key is in the system's keyring",
        KeyPlace::File => "its key is in a file beside it that only you can read",
    };
    io.labelled(Tone::Good, "stored", &format!("`{name}`, encrypted; {key}"));
    Ok(0)
}

fn from_variable(name: &str, host: &Host) -> Result<Value, SecretError> {
    let value = host.var(name).ok_or_else(|| SecretError::NoVariable(name.to_owned()))?;
    value.to_str().map(|text| Value::from(text.to_owned())).ok_or(SecretError::NoText)
}

fn ask(name: &Name) -> Result<Value, SecretError> {
    let bytes = if io::stdin().is_terminal() {
        let prompt = format!("secret `{name}`, which is not shown: ");
        sandbox_linux::terminal::hidden_line(&prompt)
            .map_err(SecretError::Ask)?
            .ok_or(SecretError::GivenUp)?
    } else {
        let mut bytes = Vec::new();
        io::stdin().take(LARGEST).read_to_end(&mut bytes).map_err(SecretError::Ask)?;
        bytes
    };
    let bytes = Zeroizing::new(bytes);
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::NoText)?;
    // An end of line belongs to the way it came, not to the secret.
    Ok(Value::from(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// A proxy that runs asks for its keys again.
fn forget(host: &Host) {
    if let Some(place) = Proxy::of(host) {
        // Where none runs, there is nothing to forget.
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
        io.labelled(Tone::Quiet, "note", "nothing is stored; agent-sandbox secret set NAME");
        return Ok(0);
    };
    let now = super::sessions::now();
    let rows: Vec<[String; 2]> = secrets
        .into_iter()
        .map(|kept| [kept.name.to_string(), super::sessions::ago(now.saturating_sub(kept.since))])
        .collect();
    let text =
        columns(
            &rows,
            |column, text, _| {
                if column == 0 { text.to_owned() } else { io.tone(Tone::Quiet, text) }
            },
        );
    io.data(&text);
    Ok(0)
}
