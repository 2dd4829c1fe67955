//! Selection of the personality, by the name of the binary or by the first argument.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use sandbox_protocol::multicall::Personality;
use thiserror::Error;

/// No personality was selected.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "usage: agent-sandbox-init entrypoint|init [COMMAND [ARGS…]]
       agent-sandbox-init enter COMMAND [ARGS…]
       agent-sandbox-init attend ROWSxCOLUMNS|- COMMAND [ARGS…]
       agent-sandbox-init signal NUMBER PID
       agent-sandbox-init guard PID
       agent-sandbox-init check [entrypoint|init]

A binary that is named `entrypoint`, `init` or `obot-agent` needs no subcommand."
)]
pub(crate) struct Usage;

/// Returns the personality and its arguments.
pub(crate) fn of(words: &[OsString]) -> Result<(Personality, &[OsString]), Usage> {
    let (name, rest) = words.split_first().ok_or(Usage)?;
    let name = Path::new(name).file_name().unwrap_or(name);
    if let Some(personality) = by_name(name) {
        return Ok((personality, rest));
    }
    let (first, rest) = rest.split_first().ok_or(Usage)?;
    let personality = first.to_str().and_then(Personality::of);
    Ok((personality.or_else(|| by_name(first)).ok_or(Usage)?, rest))
}

/// Returns the personality for a name of the binary. Only the personalities of PID 1 have such names.
fn by_name(name: &OsStr) -> Option<Personality> {
    match name.to_str()? {
        "obot-agent" => Some(Personality::Init),
        name => Personality::of(name)
            .filter(|one| matches!(one, Personality::Entrypoint | Personality::Init)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_goes_by_the_name_and_under_its_own_name_by_the_first_word() {
        use Personality::{Check, Enter, Entrypoint, Init};
        for (line, expected) in [
            ("entrypoint", Ok((Entrypoint, ""))),
            ("/usr/local/bin/entrypoint init x", Ok((Entrypoint, "init x"))),
            ("agent-sandbox-init entrypoint a b", Ok((Entrypoint, "a b"))),
            ("init a", Ok((Init, "a"))),
            ("/sbin/obot-agent entrypoint", Ok((Init, "entrypoint"))),
            ("agent-sandbox-init init init", Ok((Init, "init"))),
            ("agent-sandbox-init check init", Ok((Check, "init"))),
            ("agent-sandbox-init enter init x", Ok((Enter, "init x"))),
            ("enter x", Err(Usage)),
            ("entrypoint check", Ok((Entrypoint, "check"))),
            ("check", Err(Usage)),
            ("agent-sandbox-init", Err(Usage)),
            ("agent-sandbox-init bash", Err(Usage)),
            ("", Err(Usage)),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let found = of(&words).map(|(personality, rest)| (personality, rest.to_vec()));
            let expected = expected.map(|(personality, rest): (_, &str)| {
                (personality, rest.split_whitespace().map(OsString::from).collect())
            });
            assert_eq!(found, expected, "{line}");
        }
    }
}
