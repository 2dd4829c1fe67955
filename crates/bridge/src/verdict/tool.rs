//! Rules for tools whose power is not obvious from their names.
//!
//! A prefix of words restricts little if the program runs whatever its options name. So known tools have additional
//! rules: options that are always refused, subcommands that must be listed by name, and programs whose risk must be
//! accepted explicitly. [`warnings`] explains the effect of entries with known tools. Unknown tools have no rules.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sandbox_policy::config::command::{Entry, matches};

mod runner;
mod table;

pub(super) use runner::program;

/// Kind of a known tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of this product. A sandbox cannot control its own host.
    Own,
    /// Runs another program named in its words.
    Runs,
    /// Runs commands from its input, or passes its words to a shell.
    Obeys,
    /// Runs code from its arguments or input.
    Interprets,
    /// Can take over the machine or its data.
    Rules,
    /// Safe without some of its options.
    Options,
}

/// Known tool.
#[derive(Debug)]
pub(super) struct Tool {
    names: &'static [&'static str],
    pub(super) kind: Kind,
    /// Patterns of refused words.
    pub(super) deny: &'static [&'static str],
    /// Subcommands that are allowed although the entry does not name them. Empty if the tool has no subcommands.
    pub(super) harmless: &'static [&'static str],
}

const fn tool(kind: Kind, names: &'static [&'static str], deny: &'static [&'static str]) -> Tool {
    Tool { names, kind, deny, harmless: &[] }
}

/// Returns the rules of a known program.
pub(super) fn known(program: &OsStr) -> Option<&'static Tool> {
    let name = Path::new(program).file_name()?.to_str()?;
    // `python3.11` has the rules of `python3`.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is = |known: &str| known == name || (plain.len() > 1 && plain != name && known == plain);
    table::TOOLS.iter().find(|tool| tool.names.iter().any(|known| is(known)))
}

impl Tool {
    /// Returns the reason why an entry of this tool allows nothing, if any.
    pub(super) fn unfit(&self, words: &[String]) -> Option<&'static str> {
        // `bash -c` and `python3 -m` leave the choice of the code to the next word.
        let open = words.len() == 1 || words.last().is_some_and(|word| word.starts_with('-'));
        match self.kind {
            Kind::Own => Some("a sandbox cannot control its own host"),
            Kind::Runs if program(words).is_none() => Some("it runs any program that it is given"),
            Kind::Obeys => {
                Some("it runs commands from its input, or passes its arguments to a shell")
            }
            Kind::Interprets if open => Some("it runs any code that it is given"),
            Kind::Rules if open => Some("it can read or change any file or setting of the host"),
            _ => None,
        }
    }

    /// Returns a word after the program's name that is refused, and the reason.
    pub(super) fn refusal(
        &self,
        entry: &[String],
        args: &[OsString],
    ) -> Option<(OsString, &'static str)> {
        let own = entry.len().saturating_sub(1).min(args.len());
        if let Some((_, word)) =
            args.iter().enumerate().skip(own).find(|(at, word)| self.denies(*at, word))
        {
            return Some((
                word.clone(),
                "with it, the tool can run programs or access other files",
            ));
        }
        if self.harmless.is_empty() || own > 0 {
            return None;
        }
        let sub = args.first()?;
        if sub.as_bytes().starts_with(b"-") {
            return Some((sub.clone(), "options before the subcommand are not allowed"));
        }
        let harmless = self.harmless.iter().any(|name| sub == *name);
        (!harmless).then(|| (sub.clone(), "this subcommand must be listed by name"))
    }
}

impl Tool {
    fn denies(&self, at: usize, word: &OsStr) -> bool {
        // `tar xIf` means `tar -xIf`.
        let dashed = OsStr::from_bytes(&[b"-", word.as_bytes()].concat()).to_owned();
        let old_style =
            at == 0 && self.names.contains(&"tar") && !word.as_bytes().starts_with(b"-");
        let word = if old_style { &dashed } else { word };
        self.deny.iter().any(|pattern| match (pattern.strip_prefix("--"), long(word)) {
            (Some(denied), Some(asked)) => is_option(denied, asked),
            // A bundle of letters cannot match part of a long option.
            (None, Some(_)) if pattern.starts_with("-*") && pattern.len() > 2 => false,
            _ => matches(pattern, word),
        })
    }
}

/// Returns the name of a long option, without its value.
fn long(word: &OsStr) -> Option<&[u8]> {
    let name = word.as_bytes().strip_prefix(b"--")?;
    name.split(|byte| *byte == b'=').next().filter(|name| !name.is_empty())
}

/// Returns true if a long option is the denied one or an abbreviation of it, which most tools accept.
fn is_option(denied: &str, asked: &[u8]) -> bool {
    let name = denied.trim_end_matches('*').as_bytes();
    name.starts_with(asked) || (denied.ends_with('*') && asked.starts_with(name))
}

/// Warning about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Entry.
    pub entry: String,
    /// Effect of the entry.
    pub what: String,
}

/// Returns true if the tool of an entry has rules in addition to those of the entry.
pub fn has_rules(entry: &Entry) -> bool {
    entry.words.first().is_some_and(|name| known(OsStr::new(name)).is_some())
}

/// Returns warnings about effects of entries that are easily missed.
pub fn warnings(entries: &[Entry]) -> Vec<Warning> {
    entries.iter().flat_map(|entry| of_entry(entry, &entry.words)).collect()
}

fn of_entry(entry: &Entry, words: &[String]) -> Vec<Warning> {
    let Some(tool) = words.first().and_then(|name| known(OsStr::new(name))) else {
        return Vec::new();
    };
    let name = &words[0];
    let what = match tool.unfit(words) {
        Some(why) if tool.kind == Kind::Own => format!("is always refused: {why}"),
        Some(why) if entry.risk_accepted => format!("gives the agent control of the host: {why}"),
        Some(why) => format!(
            "allows nothing: {why}; name the program that it runs, or set `risk = \"accepted\"`"
        ),
        None => match (tool.kind, name.as_str()) {
            (Kind::Runs, _) => {
                return of_entry(
                    entry,
                    words.get(program(words).unwrap_or(1)..).unwrap_or_default(),
                );
            }
            (Kind::Interprets, _) => {
                "runs code from files that the agent may be able to write".into()
            }
            (Kind::Rules, "curl" | "wget" | "rsync") | (_, "ssh" | "scp" | "sftp") => {
                "can access other machines with this host's keys".into()
            }
            (Kind::Rules, _) => "can read or change files and settings of the host".into(),
            (_, "git") => return git(entry, words),
            (_, "docker" | "podman")
                if words.get(1).is_some_and(|sub| !tool.harmless.contains(&sub.as_str())) =>
            {
                "is equivalent to root: containers can mount the whole host".into()
            }
            _ => return Vec::new(),
        },
    };
    vec![Warning { entry: entry.text(), what }]
}

fn git(entry: &Entry, words: &[String]) -> Vec<Warning> {
    let what = match words.get(1).map(String::as_str) {
        None => {
            "allows every git command that neither destroys data nor runs other programs; list the ones you need"
        }
        Some("push" | "fetch" | "pull" | "clone" | "ls-remote") => {
            "can access other machines with the host's credentials"
        }
        Some("add" | "commit" | "checkout" | "switch" | "merge" | "stash") => {
            "writes to the current repository on the host"
        }
        Some(_) => return Vec::new(),
    };
    vec![Warning { entry: entry.text(), what: what.into() }]
}
