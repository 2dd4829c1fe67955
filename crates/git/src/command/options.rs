//! The option grammar that git's own commands share (`parse-options` in git's sources).
//!
//! Bundled short options, attached and separate values, `--no-` forms, unique abbreviations, `--`.
//! Options are read in order, so that the last word wins as it does in git.

use std::ffi::OsString;

/// The options of one command, each written `SHORT/LONG` with `=` (takes a value) or `?` (takes an
/// attached value) at the end: `m/message=`, `S/gpg-sign?`, `D/`, `/hard`.
pub(super) type Grammar = &'static [&'static str];

/// An option on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given<'a> {
    /// The long name, or the letter if there is no long name.
    pub(super) name: &'static str,
    /// True when it was switched on; `--no-NAME` switches off.
    pub(super) on: bool,
    /// Its value.
    pub(super) value: Option<&'a [u8]>,
}

/// A parsed command line.
#[derive(Debug, Default)]
pub(super) struct Parsed<'a> {
    /// Options in the order given.
    pub(super) options: Vec<Given<'a>>,
    /// Everything else.
    pub(super) operands: Vec<&'a [u8]>,
    /// True if the words ask for usage, so that git does nothing else.
    pub(super) help: bool,
}

impl<'a> Parsed<'a> {
    /// Returns the last occurrence of an option.
    pub(super) fn last(&self, name: &str) -> Option<&Given<'a>> {
        self.options.iter().rev().find(|given| given.name == name)
    }

    /// Returns true when an option is on in the end.
    pub(super) fn on(&self, name: &str) -> bool {
        self.last(name).is_some_and(|given| given.on)
    }

    /// Returns true when an option is explicitly off in the end.
    pub(super) fn off(&self, name: &str) -> bool {
        self.last(name).is_some_and(|given| !given.on)
    }

    /// Returns true when any of them is on in the end.
    pub(super) fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.on(name))
    }

    /// Returns the last given of several options that exclude each other.
    pub(super) fn latest(&self, names: &[&str]) -> Option<&'static str> {
        let last = self.options.iter().rev().find(|given| names.contains(&given.name));
        last.map(|given| given.name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Attached,
    Value,
}

#[derive(Clone, Copy)]
struct Entry {
    short: Option<u8>,
    long: &'static str,
    name: &'static str,
    takes: Takes,
}

fn entry(text: &'static str) -> Entry {
    let (body, takes) = match text.as_bytes().last() {
        Some(b'=') => (&text[..text.len() - 1], Takes::Value),
        Some(b'?') => (&text[..text.len() - 1], Takes::Attached),
        _ => (text, Takes::Nothing),
    };
    let (short, long) = body.split_once('/').unwrap_or(("", body));
    let name = if long.is_empty() { short } else { long };
    Entry { short: short.bytes().next(), long, name, takes }
}

/// Parses the words after a command's name.
pub(super) fn parse(grammar: Grammar, args: &[OsString]) -> Parsed<'_> {
    let entries: Vec<Entry> = grammar.iter().map(|text| entry(text)).collect();
    let mut parsed = Parsed::default();
    if let [only] = args
        && only == "-h"
    {
        parsed.help = true;
        return parsed;
    }
    let mut words = args.iter().map(|word| word.as_encoded_bytes());
    while let Some(word) = words.next() {
        match word {
            b"--" | b"--end-of-options" => {
                parsed.operands.extend(words);
                break;
            }
            b"--help" | b"--help-all" => {
                parsed.help = true;
                break;
            }
            [b'-', b'-', long @ ..] => parse_long(&entries, long, &mut words, &mut parsed),
            [b'-', bundle @ ..] if !bundle.is_empty() => {
                parse_bundle(&entries, bundle, &mut words, &mut parsed);
            }
            operand => parsed.operands.push(operand),
        }
    }
    parsed
}

fn parse_bundle<'a>(
    entries: &[Entry],
    bundle: &'a [u8],
    words: &mut impl Iterator<Item = &'a [u8]>,
    parsed: &mut Parsed<'a>,
) {
    for (at, letter) in bundle.iter().enumerate() {
        // git stops at an unknown letter. The letters after it are parsed anyway, to be on the safe side.
        let Some(entry) = entries.iter().find(|entry| entry.short == Some(*letter)) else {
            continue;
        };
        let rest = &bundle[at + 1..];
        let attached = Some(rest).filter(|rest| !rest.is_empty());
        let value = match entry.takes {
            Takes::Nothing => None,
            Takes::Attached => attached,
            Takes::Value => attached.or_else(|| words.next()),
        };
        parsed.options.push(Given { name: entry.name, on: true, value });
        if entry.takes != Takes::Nothing {
            break;
        }
    }
}

fn parse_long<'a>(
    entries: &[Entry],
    word: &'a [u8],
    words: &mut impl Iterator<Item = &'a [u8]>,
    parsed: &mut Parsed<'a>,
) {
    let equals = word.iter().position(|byte| *byte == b'=');
    let (name, value) = match equals {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let mut readings = readings(entries, name);
    // git rejects an ambiguous abbreviation. A git with fewer options than this table may still accept it,
    // so every reading counts, and those that switch something on come last.
    readings.sort_by_key(|(_, on)| *on);
    let alone = readings.len() == 1;
    for (entry, on) in readings {
        let takes = if on { entry.takes } else { Takes::Nothing };
        let value = match takes {
            Takes::Value if alone => value.or_else(|| words.next()),
            _ => value,
        };
        parsed.options.push(Given { name: entry.name, on, value });
    }
}

/// Returns the options that a long word may mean, with true for those that it switches on.
fn readings(entries: &[Entry], word: &[u8]) -> Vec<(Entry, bool)> {
    let mut exact = Vec::new();
    let mut short_of = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.long.is_empty()) {
        for (on, spelling) in spellings(entry.long) {
            if spelling.as_bytes() == word {
                exact.push((*entry, on));
            } else if spelling.as_bytes().starts_with(word) {
                short_of.push((*entry, on));
            }
        }
    }
    if exact.iter().any(|(_, on)| *on) {
        exact.retain(|(_, on)| *on);
    }
    if exact.is_empty() { short_of } else { exact }
}

/// Returns `--x` and `--no-x`. An option whose name is `no-x` is undone by `--x`.
fn spellings(long: &'static str) -> [(bool, String); 3] {
    let undone = match long.strip_prefix("no-") {
        Some(rest) => rest.to_owned(),
        None => format!("no-{long}"),
    };
    [(true, long.to_owned()), (false, undone), (false, format!("no-{long}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar =
        &["n/no-verify", "m/message=", "S/gpg-sign?", "a/all", "/allow-empty", "D/", "v/verbose"];

    fn on(words: &[&str], name: &str) -> bool {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(GRAMMAR, &words).on(name)
    }

    #[test]
    fn options_are_read_as_git_reads_them() {
        for (words, name, expected) in [
            (&["-n"][..], "no-verify", true),
            (&["-an"], "no-verify", true),
            (&["-mn"], "no-verify", false),
            (&["-m", "-n"], "no-verify", false),
            (&["-am", "-n"], "no-verify", false),
            (&["-m", "x", "-n"], "no-verify", true),
            (&["--message", "-n"], "no-verify", false),
            (&["--message=x", "-n"], "no-verify", true),
            (&["--mess", "-n"], "no-verify", false),
            (&["-Sn"], "no-verify", false),
            (&["-S", "-n"], "no-verify", true),
            (&["--gpg-sign", "-n"], "no-verify", true),
            (&["--no-verify", "--verify"], "no-verify", false),
            (&["--verify", "--no-verify"], "no-verify", true),
            (&["--no-veri"], "no-verify", true),
            (&["--no-no-verify"], "no-verify", false),
            (&["--", "-n"], "no-verify", false),
            (&["--end-of-options", "-n"], "no-verify", false),
            (&["file", "-n"], "no-verify", true),
            (&["-", "-n"], "no-verify", true),
            (&["-D"], "D", true),
            (&["--D"], "D", false),
            (&["--al"], "all", true),
            (&["--no-all", "--all"], "all", true),
            (&["--all", "--no-all"], "all", false),
        ] {
            assert_eq!(on(words, name), expected, "{words:?}");
        }
    }

    #[test]
    fn usage_is_recognised_only_where_git_looks_for_it() {
        for (words, expected) in [
            (&["-h"][..], true),
            (&["--help"], true),
            (&["x", "--help"], true),
            (&["-h", "x"], false),
            (&["-m", "--help"], false),
            (&["--", "--help"], false),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(parse(GRAMMAR, &words).help, expected, "{words:?}");
        }
    }
}
