//! `secret`: keeps secrets for sandboxes. A secret is never an argument, and never printed.

mod test;

use std::io::{self, IsTerminal, Read};

use sandbox_launch::credentials::store;
use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use sandbox_proxy::client::Client;
use sandbox_proxy::credential::Secret as Value;
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::secret::{KeyStorage, Name};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{columns, json};
use crate::args::Flags;
use crate::args::secret::{Secret, Set};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// No secret is longer.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, Error)]
pub(crate) enum SecretError {
    #[error("there is no home directory to keep secrets in")]
    NoHome,
    #[error("the variable{0} is not set")]
    NoVariable(String),
    // It is not repeated: messages end up in logs.
    #[error("the name of the secret looks like a secret")]
    LooksSecret,
    #[error("nothing was typed")]
    GivenUp,
    #[error("cannot ask for the secret")]
    Ask(#[source] io::Error),
    #[error("the secret is no text")]
    NoText,
    #[error("secrets are kept outside the sandbox")]
    Inside,
}

impl Hint for SecretError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME`".to_owned()),
            Self::Ask(_) => Some("send it on standard input, or use `--from-env NAME`".into()),
            Self::NoText => Some("encode it, with base64 for example".into()),
            Self::Inside => Some("run this command on the host".into()),
            Self::LooksSecret => Some(NOT_AN_ARGUMENT.into()),
            Self::NoVariable(_) | Self::GivenUp => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if matches!(self, Self::LooksSecret) { ExitCode::Usage } else { ExitCode::Failure }
    }
}

pub(crate) fn run(
    flags: &Flags,
    command: Option<&Secret>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let Some(command) = command else { return super::help(&["secret"], flags, io) };
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

/// The hint for a secret on the command line.
pub(crate) const NOT_AN_ARGUMENT: &str = "name it, as in `agent-sandbox secret set anthropic`, and type it when asked or send it on standard \
     input; a secret on the command line is visible to other processes and stays in the shell's history";

/// Beginnings of keys. A name of this kind is a secret in the place of its name.
const BEGINNINGS: [&str; 8] =
    ["sk-", "sk_", "AIza", "ghp_", "github_pat_", "glpat-", "xoxb-", "session-"];
/// Names are shorter.
const SHORTEST_KEY: usize = 20;

fn keep(set: &Set, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let looks_secret = BEGINNINGS.iter().any(|beginning| set.name.starts_with(beginning));
    if looks_secret && set.name.len() >= SHORTEST_KEY {
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
        KeyStorage::Keyring => "its key is in the system's keyring",
        KeyStorage::File => "its key is in a file beside it that only you can read",
    };
    io.labelled(Tone::Good, "stored", &format!("`{name}`, encrypted; {key}"));
    Ok(0)
}

fn from_variable(name: &str, host: &Host) -> Result<Value, SecretError> {
    // Anything else than the usual name of a variable may be the secret in its place.
    let usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let shown = if name.bytes().all(usual) { format!(" `{name}`") } else { String::new() };
    let value = host.var(name).ok_or(SecretError::NoVariable(shown))?;
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
    if let Some(place) = ProxyDirs::of(host) {
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
    let now = sandbox_linux::clock::now();
    let rows: Vec<[String; 2]> = secrets
        .into_iter()
        .map(|kept| [kept.name.to_string(), super::ago(now.saturating_sub(kept.since))])
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
