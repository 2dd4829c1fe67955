//! Tools that do more than their names say, and what is made of them.
//!
//! A prefix of words is a weak fence around a program that runs whatever its options name. So known tools get rules of
//! their own: options that never pass, subcommands that must be listed by name, and programs that must be accepted
//! knowingly. A tool that is not known here gets none; [`warnings`] says what the known ones mean.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sandbox_policy::config::command::{Entry, matches};

mod runner;
mod table;

pub(super) use runner::program;

/// What a tool is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It belongs to this product: a sandbox does not command its own host.
    Own,
    /// It runs another program, the one its words name.
    Runs,
    /// It runs what its input says, or what a shell makes of its words.
    Obeys,
    /// It runs code that its arguments or its input hold.
    Interprets,
    /// It can take over the machine or its data.
    Rules,
    /// It is fit for this as long as some options stay away.
    Options,
}

/// A known tool.
#[derive(Debug)]
pub(super) struct Tool {
    names: &'static [&'static str],
    pub(super) kind: Kind,
    /// Patterns of words that do not pass.
    pub(super) deny: &'static [&'static str],
    /// Subcommands that pass although the entry does not name them; empty when there are no subcommands.
    pub(super) harmless: &'static [&'static str],
}

const fn tool(kind: Kind, names: &'static [&'static str], deny: &'static [&'static str]) -> Tool {
    Tool { names, kind, deny, harmless: &[] }
}

/// What is known of a program.
pub(super) fn known(program: &OsStr) -> Option<&'static Tool> {
    let name = Path::new(program).file_name()?.to_str()?;
    // `python3.11` is python3 in another version.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is = |known: &str| known == name || (plain.len() > 1 && plain != name && known == plain);
    table::TOOLS.iter().find(|tool| tool.names.iter().any(|known| is(known)))
}

impl Tool {
    /// Why an entry of this tool lets nothing through, if it does not.
    pub(super) fn unfit(&self, words: &[String]) -> Option<&'static str> {
        // `bash -c` and `python3 -m` leave the choice of the code to what follows.
        let open = words.len() == 1 || words.last().is_some_and(|word| word.starts_with('-'));
        match self.kind {
            Kind::Own => Some("a sandbox does not command its own host"),
            Kind::Runs if program(words).is_none() => {
                Some("it runs any program that it is told to")
            }
            Kind::Obeys => Some("it runs what it reads, or has a shell read its words"),
            Kind::Interprets if open => Some("it runs any code that it is given"),
            Kind::Rules if open => Some("it can read or change any file or setting of the host"),
            _ => None,
        }
    }

    /// Why one of the words after the program's name does not pass, if it does not.
    pub(super) fn refusal(
        &self,
        entry: &[String],
        args: &[OsString],
    ) -> Option<(OsString, &'static str)> {
        let own = entry.len().saturating_sub(1).min(args.len());
        if let Some((_, word)) =
            args.iter().enumerate().skip(own).find(|(at, word)| self.denies(*at, word))
        {
            return Some((word.clone(), "the tool runs programs or touches files by it"));
        }
        if self.harmless.is_empty() || own > 0 {
            return None;
        }
        let sub = args.first()?;
        if sub.as_bytes().starts_with(b"-") {
            return Some((sub.clone(), "options before the subcommand do not pass"));
        }
        let harmless = self.harmless.iter().any(|name| sub == *name);
        (!harmless).then(|| (sub.clone(), "this subcommand must be listed by name"))
    }
}

impl Tool {
    fn denies(&self, at: usize, word: &OsStr) -> bool {
        // `tar xIf` is `tar -xIf`.
        let dashed = OsStr::from_bytes(&[b"-", word.as_bytes()].concat()).to_owned();
        let old_style =
            at == 0 && self.names.contains(&"tar") && !word.as_bytes().starts_with(b"-");
        let word = if old_style { &dashed } else { word };
        self.deny.iter().any(|pattern| match (pattern.strip_prefix("--"), long(word)) {
            (Some(denied), Some(asked)) => is_option(denied, asked),
            // A letter in a bundle is no letter of a long option.
            (None, Some(_)) if pattern.starts_with("-*") && pattern.len() > 2 => false,
            _ => matches(pattern, word),
        })
    }
}

/// The name of a long option, without its value.
fn long(word: &OsStr) -> Option<&[u8]> {
    let name = word.as_bytes().strip_prefix(b"--")?;
    name.split(|byte| *byte == b'=').next().filter(|name| !name.is_empty())
}

/// Whether a long option is the one that is denied, or may be: most tools take any beginning of a name.
fn is_option(denied: &str, asked: &[u8]) -> bool {
    let name = denied.trim_end_matches('*').as_bytes();
    name.starts_with(asked) || (denied.ends_with('*') && asked.starts_with(name))
}

/// Something to know about an entry before it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The entry.
    pub entry: String,
    /// What it means.
    pub what: String,
}

/// Returns true when the tool that an entry begins with has rules beside those of the entry.
pub fn has_rules(entry: &Entry) -> bool {
    entry.words.first().is_some_and(|name| known(OsStr::new(name)).is_some())
}

/// What the entries of a list mean that is easily missed.
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
        Some(why) if entry.risk_accepted => format!("gives the host away: {why}"),
        Some(why) => format!(
            "lets nothing through: {why}; name what it runs, or write `risk = \"accepted\"`"
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
                "reaches other machines as this one, with its keys".into()
            }
            (Kind::Rules, _) => "can read or change files and settings of the host".into(),
            (_, "git") => return git(entry, words),
            (_, "docker" | "podman")
                if words.get(1).is_some_and(|sub| !tool.harmless.contains(&sub.as_str())) =>
            {
                "is as good as root: containers can mount the whole host".into()
            }
            _ => return Vec::new(),
        },
    };
    vec![Warning { entry: entry.text(), what }]
}

fn git(entry: &Entry, words: &[String]) -> Vec<Warning> {
    let what = match words.get(1).map(String::as_str) {
        None => {
            "allows every git command that destroys nothing and runs nothing else; list the ones you need"
        }
        Some("push" | "fetch" | "pull" | "clone" | "ls-remote") => {
            "reaches other machines with the host's credentials"
        }
        Some("add" | "commit" | "checkout" | "switch" | "merge" | "stash") => {
            "writes to the repository that it is called in, on the host"
        }
        Some(_) => return Vec::new(),
    };
    vec![Warning { entry: entry.text(), what: what.into() }]
}
