//! The words behind flags, as types.

use std::ffi::{OsStr, OsString};

use sandbox_core::config::{Cow, CowEngine, CowScope, Network};
use sandbox_core::wrapper::CommandRule;

pub(super) fn command_rules(words: &[String]) -> Result<Vec<(String, CommandRule)>, String> {
    let pairs = words
        .iter()
        .flat_map(|word| word.split(','))
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs.map(command_rule).collect()
}

fn command_rule(pair: &str) -> Result<(String, CommandRule), String> {
    let (name, rule) = pair
        .split_once('=')
        .map(|(name, rule)| (name.trim(), rule.trim()))
        .filter(|(name, rule)| !name.is_empty() && !rule.is_empty())
        .ok_or_else(|| format!("`--cmd {pair}` is not of the form NAME=RULE"))?;
    let rule = match rule {
        "true" => CommandRule::Raw,
        "false" => CommandRule::Block,
        text => match text.strip_prefix('@') {
            Some(builtin) => CommandRule::Builtin(
                builtin.parse().map_err(|error| format!("`--cmd {pair}`: {error}"))?,
            ),
            None => CommandRule::Script(text.into()),
        },
    };
    Ok((name.to_owned(), rule))
}

pub(super) fn variable(word: &OsStr) -> Result<(String, Option<OsString>), String> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
        None => (bytes, None),
    };
    match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err(format!("`--env {}` has no name", word.display())),
    }
}

pub(super) fn boolean(word: &str) -> Result<bool, String> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" | "yes" | "on" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" | "no" | "off" => Ok(false),
        _ => Err("use true or false".into()),
    }
}

/// What `--cow` alone means.
pub(crate) const COW: Cow = Cow { engine: CowEngine::On, scope: CowScope::Work };

pub(super) fn cow(word: &str) -> Result<Cow, String> {
    match (word, boolean(word)) {
        ("all", _) => Ok(Cow { scope: CowScope::All, ..COW }),
        ("overlay", _) => Ok(Cow { engine: CowEngine::Overlay, ..COW }),
        ("agentfs", _) => Ok(Cow { engine: CowEngine::Agentfs, ..COW }),
        (_, Ok(true)) => Ok(COW),
        (_, Ok(false)) => Ok(Cow::OFF),
        _ => Err("use true, false, all, overlay or agentfs".into()),
    }
}

pub(crate) fn network(word: &str) -> Result<Network, String> {
    match (word, boolean(word)) {
        ("host", _) | (_, Ok(true)) => Ok(Network::On),
        ("none", _) | (_, Ok(false)) => Ok(Network::Off),
        ("allow", _) => Ok(Network::Allow),
        _ => Err("use true (or host), false (or none), or allow".into()),
    }
}
