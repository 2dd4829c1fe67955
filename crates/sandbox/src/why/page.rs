//! Answers in words.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_linux::escape::{name, one_line, visible};

use super::policy::Fate;
use super::{
    By, Change, CommandAnswer, CommandVerdict, Explained, Line, NetworkAnswer, PathAnswer, State,
    VariableAnswer, VariableVerdict, Verdict,
};
use crate::render::shell::quote;
use sandbox_policy::config::Network;

/// How a part of an answer is set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accent {
    /// The subject of the answer.
    Strong,
    /// Labels and origins.
    Quiet,
    /// Allowed.
    Good,
    /// Allowed in part.
    Warning,
    /// Denied.
    Bad,
}

/// Sets a piece of text apart, as the caller shows it.
pub type Paint<'p> = &'p dyn Fn(Accent, &str) -> String;

/// Answer that can be written in words.
pub trait Text {
    /// Writes the answer.
    fn write(&self, page: &mut Page<'_>);
}

impl<A: Text> Explained<A> {
    /// Returns the answer in words, escaped for a terminal.
    pub fn text(&self, paint: Paint<'_>) -> String {
        let mut page = Page { text: String::new(), inside: self.inside, paint };
        page.whose(self.sandboxes, self.decided_by);
        self.answer.write(&mut page);
        page.text
    }
}

/// An answer, line by line.
pub struct Page<'p> {
    text: String,
    inside: bool,
    paint: Paint<'p>,
}

impl Page<'_> {
    fn whose(&mut self, sandboxes: usize, decides: usize) {
        if !self.inside {
            return;
        }
        let which = match (sandboxes, decides) {
            (1, _) => "in the sandbox around this process".to_owned(),
            (all, 1) => format!("in the innermost of {all} sandboxes around this process"),
            (all, at) if at == all => {
                format!("in the outermost of {all} sandboxes around this process")
            }
            (all, at) => format!("in sandbox {at} of {all} around this process, from inside"),
        };
        self.put(&format!("{}\n", (self.paint)(Accent::Quiet, &format!("{which}:"))));
    }

    fn put(&mut self, line: &str) {
        self.text.push_str(line);
    }

    fn verdict(&mut self, what: &str, tone: Accent, verdict: &str) {
        let (what, verdict) = ((self.paint)(Accent::Strong, what), (self.paint)(tone, verdict));
        self.put(&format!("{what}: {verdict}\n"));
    }

    fn line(&mut self, label: &str, text: &str) {
        self.put(&format!("  {} {text}\n", (self.paint)(Accent::Quiet, &format!("{label:<11}"))));
    }

    fn notes(&mut self, notes: &[String]) {
        for note in notes {
            self.line("note", &one_line(note));
        }
    }

    fn changes(&mut self, changes: &[Change], goal: fn(&str) -> &str) {
        for change in changes {
            self.change(goal(change.to), change);
        }
        if changes.is_empty() {
            self.line("change", "nothing that can be typed changes this");
        }
    }

    fn change(&mut self, goal: &str, change: &Change) {
        let key =
            |key: &str| change.config.as_ref().is_some_and(|config| config.get(key).is_some());
        let goal = if key("sockets") || key("docker") { "to open the socket" } else { goal };
        let place = if self.inside { ", outside" } else { "" };
        self.put(&format!("  {}\n", (self.paint)(Accent::Strong, &format!("{goal}{place}:"))));
        if !change.flags.is_empty() {
            let words: Vec<String> = change.flags.iter().map(|word| shell(word)).collect();
            let flags = (self.paint)(Accent::Good, &words.join(" "));
            self.put(&format!("    agent-sandbox {flags} …\n"));
        }
        if let Some(config) = &change.config {
            let text = inline(config);
            let keys = visible(text.trim_start_matches('{').trim_end_matches('\n'));
            let keys = keys.strip_suffix('}').unwrap_or(&keys);
            let keys = (self.paint)(Accent::Good, keys);
            self.put(&format!("    {keys}    in a configuration file\n"));
        }
        for edit in &change.edit {
            self.put(&format!("    {}\n", one_line(edit)));
        }
    }

    fn rule(&self, line: &Line) -> String {
        let origin = (self.paint)(Accent::Quiet, &format!("({})", one_line(&line.origin)));
        format!("{} `{}` {origin}", line.access.word(), name(Path::new(&line.pattern)))
    }
}

/// A word for a shell; `~/` stays what it is.
fn shell(word: &str) -> String {
    match word.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(OsStr::new(rest))),
        None => quote(OsStr::new(word)),
    }
}

/// JSON on one line, with blanks where people put them.
fn inline(value: &serde_json::Value) -> String {
    use serde_json::Value::{Array, Object};
    match value {
        Object(map) => {
            let pairs = map
                .iter()
                .map(|(key, value)| format!("{}: {}", serde_json::json!(key), inline(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Array(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

impl Text for PathAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match (self.verdict, &self.by) {
            (Verdict::Writable, _) => (Accent::Good, "writable"),
            (Verdict::ReadOnly, _) => (Accent::Warning, "read-only"),
            (Verdict::Missing, _) => (Accent::Warning, "does not exist"),
            (Verdict::Hidden, _) => (Accent::Bad, "hidden"),
            (Verdict::Own, _) => (Accent::Bad, "not the host's: the sandbox has its own"),
        };
        page.verdict(&name(&self.path), tone, verdict);
        if self.real != self.path {
            page.line("leads to", &name(&self.real));
        }
        for dir in &self.links {
            page.line("symlink in", &name(dir));
        }
        decided(self, page);
        for line in self.beaten.iter().chain(&self.above) {
            let text = page.rule(line);
            page.line("beats", &text);
        }
        page.notes(&self.notes);
        if self.changes.is_empty()
            && self.verdict == Verdict::Missing
            && self.state == State::Writable
        {
            return;
        }
        page.changes(&self.changes, |to| match to {
            "writable" => "to make it writable",
            "read-only" => "to make it readable, but not writable",
            "hidden" => "to hide it",
            _ => "to have the program itself there",
        });
    }
}

fn decided(answer: &PathAnswer, page: &mut Page<'_>) {
    let text = match (&answer.by, &answer.rule) {
        (By::Rule, Some(rule)) => page.rule(rule),
        (By::Mount { source, target, origin }, _) if source == target => {
            format!("`{}`, shared ({})", name(target), one_line(origin))
        }
        (By::Mount { source, target, origin }, _) => {
            format!("`{}` is mounted at `{}` ({})", name(source), name(target), one_line(origin))
        }
        (By::OwnDir { dir: "/tmp" }, _) => {
            "`/tmp` is private: empty at the start of a run, gone at its end".into()
        }
        (By::OwnDir { dir }, _) => format!("every sandbox has its own `{dir}`"),
        (By::Launcher { commands }, _) => {
            let commands = one_line(&commands.join("`, `"));
            format!("the launcher stands here, for the rule on the command `{commands}`")
        }
        (By::Socket, _) => "somebody outside listens on this socket".into(),
        (By::Copy, _) => "a copy with one line more: the user `agent`".into(),
        (By::Root | By::Rule, _) => "no rule; what no rule speaks of is read-only".into(),
    };
    page.line("decided by", &text);
}

impl Text for NetworkAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match (self.network, self.reachable) {
            (Network::On, _) => (Accent::Good, "the network is on"),
            (Network::Allow, true) => (Accent::Good, "can be reached"),
            (Network::Allow, false) => (Accent::Bad, "cannot be reached"),
            (Network::Off, _) => (Accent::Bad, "the network is off"),
        };
        page.verdict(&one_line(&self.host), tone, verdict);
        let unlisted =
            format!("no rule of `allowed_hosts`; hosts are told apart ({})", self.origin);
        let decided = match (self.network, &self.rule) {
            (Network::Allow, None) => &unlisted,
            (_, rule) => rule.as_ref().unwrap_or(&self.origin),
        };
        page.line("decided by", &one_line(decided));
        page.notes(&self.notes);
        page.changes(&self.changes, |to| match to {
            "on" => "to turn it on",
            "off" => "to turn it off",
            "reachable" => "to let it be reached, and nothing that is not allowed",
            _ => "to refuse it",
        });
    }
}

/// As many programs of one name as anybody reads.
const MOST: usize = 5;

impl Text for CommandAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match self.verdict {
            CommandVerdict::Raw if !self.installed => (Accent::Warning, "not installed".to_owned()),
            CommandVerdict::Raw => (Accent::Good, "raw, the program itself runs".to_owned()),
            CommandVerdict::Blocked => (Accent::Bad, "blocked".to_owned()),
            CommandVerdict::Git => (Accent::Warning, "@git, without what destroys work".to_owned()),
            CommandVerdict::Script => {
                let script = self.script.as_deref().map(name).unwrap_or_default();
                (Accent::Warning, format!("script, `{script}` runs in its place"))
            }
        };
        page.verdict(&one_line(&self.name), tone, &verdict);
        let origin = self.origin.as_deref().unwrap_or("no rule");
        let through = self.through.as_deref();
        let through =
            through.map(|other| format!(", the rule of `{other}`, which is the same file"));
        page.line("decided by", &one_line(&format!("{origin}{}", through.unwrap_or_default())));
        self.targets.iter().take(MOST).for_each(|target| page.line("program", &name(target)));
        if self.targets.len() > MOST {
            page.line(
                "",
                &format!("… and {} more; `--json` lists them", self.targets.len() - MOST),
            );
        }
        page.notes(&self.notes);
        page.changes(&self.changes, |to| match to {
            "raw" => "to run the program itself",
            _ => "to block it",
        });
    }
}

impl Text for VariableAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match (self.verdict, self.fate) {
            (VariableVerdict::Passed, _) => (Accent::Good, "passed on"),
            (VariableVerdict::Set, _) => (Accent::Warning, "set to a value of the sandbox's own"),
            (VariableVerdict::Unset, _) => (Accent::Warning, "not set"),
            (VariableVerdict::Hidden, Some(Fate::Socket)) => {
                (Accent::Bad, "hidden, it leads to a socket that is not there")
            }
            (VariableVerdict::Hidden, Some(Fate::Injecting)) => {
                (Accent::Bad, "hidden, it makes programs run other code")
            }
            (VariableVerdict::Hidden, _) => (Accent::Bad, "hidden, it looks like a credential"),
        };
        page.verdict(&one_line(&self.name), tone, verdict);
        page.line("decided by", &one_line(self.origin.as_deref().unwrap_or("no rule")));
        page.notes(&self.notes);
        if self.verdict == VariableVerdict::Hidden {
            page.changes(&self.changes, |_| "to pass it on");
        }
    }
}
