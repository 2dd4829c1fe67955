//! Parsers for the values of flags.

use std::ffi::{OsStr, OsString};

use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Cow, CowEngine, CowScope, Network, NotANetwork, switch};

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
    let rule = rule.parse().map_err(|error| format!("`--cmd {pair}`: {error}"))?;
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
    switch(word).ok_or_else(|| "use true or false".into())
}

pub(super) fn cow(word: &str) -> Result<Cow, String> {
    match (word, boolean(word)) {
        ("all", _) => Ok(Cow { scope: CowScope::All, ..Cow::ON }),
        ("overlay", _) => Ok(Cow { engine: CowEngine::Overlay, ..Cow::ON }),
        ("agentfs", _) => Ok(Cow { engine: CowEngine::Agentfs, ..Cow::ON }),
        (_, Ok(true)) => Ok(Cow::ON),
        (_, Ok(false)) => Ok(Cow::OFF),
        _ => Err("use true, false, all, overlay or agentfs".into()),
    }
}

pub(super) fn network(word: &str) -> Result<Network, String> {
    word.parse().map_err(|error: NotANetwork| error.to_string())
}
