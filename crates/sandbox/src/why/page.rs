//! Human-readable text of answers.

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

/// Emphasis of a part of an answer.
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

/// Function that applies an emphasis to a text, for example with terminal colours.
pub type Paint<'p> = &'p dyn Fn(Accent, &str) -> String;

/// Answer that can be written as text.
pub trait Text {
    /// Writes the answer.
    fn write(&self, page: &mut Page<'_>);
}

impl<A: Text> Explained<A> {
    /// Returns the answer as text, escaped for a terminal.
    pub fn text(&self, paint: Paint<'_>) -> String {
        let mut page = Page { text: String::new(), inside: self.inside, paint };
        page.heading(self.sandboxes, self.decided_by);
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
    fn heading(&mut self, sandboxes: usize, decides: usize) {
        if !self.inside {
            return;
        }
        let which = match (sandboxes, decides) {
            (1, _) => "in this sandbox".to_owned(),
            (all, 1) => format!("in the innermost of {all} nested sandboxes"),
            (all, at) if at == all => format!("in the outermost of {all} nested sandboxes"),
            (all, at) => format!("in sandbox {at} of {all}, counted from the innermost"),
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
            self.line("change", "no rule or flag can change this");
        }
    }

    fn change(&mut self, goal: &str, change: &Change) {
        let key =
            |key: &str| change.config.as_ref().is_some_and(|config| config.get(key).is_some());
        let goal = if key("sockets") || key("docker") { "to share the socket" } else { goal };
        let place = if self.inside { ", outside this sandbox" } else { "" };
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

/// Quotes a word for a shell, except for a leading `~/`.
fn shell(word: &str) -> String {
    match word.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(OsStr::new(rest))),
        None => quote(OsStr::new(word)),
    }
}

/// Formats JSON on one line, with a space after each colon and comma.
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
            (Verdict::Writable, _) => (Accent::Good, "writable".to_owned()),
            (Verdict::ReadOnly, _) => (Accent::Warning, "read-only".to_owned()),
            (Verdict::Missing, _) => (Accent::Warning, "does not exist".to_owned()),
            (Verdict::Hidden, _) => (Accent::Bad, "hidden".to_owned()),
            (Verdict::Own, By::OwnDir { dir }) => {
                (Accent::Bad, format!("private: the sandbox has its own {dir}"))
            }
            (Verdict::Own, _) => (Accent::Bad, "private: the sandbox has its own".to_owned()),
        };
        page.verdict(&name(&self.path), tone, &verdict);
        if self.real != self.path {
            page.line("resolves to", &name(&self.real));
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
            "read-only" => "to make it read-only",
            "hidden" => "to hide it",
            _ => "to use the original program",
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
            "`/tmp` is private: empty when a run starts, deleted when it ends".into()
        }
        (By::OwnDir { dir }, _) => format!("every sandbox has its own `{dir}`"),
        (By::Launcher { commands }, _) => {
            let commands = one_line(&commands.join("`, `"));
            format!("the launcher replaces this program: `{commands}` has a command rule")
        }
        (By::Socket, _) => "a process outside the sandbox listens on this socket".into(),
        (By::Copy, _) => "private copy with an entry for the user `agent`".into(),
        (By::Root | By::Rule, _) => "default: read-only (no rule matches)".into(),
    };
    page.line("decided by", &text);
}

impl Text for NetworkAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match (self.network, self.reachable) {
            (Network::On, _) => (Accent::Good, "reachable, the network is on"),
            (Network::Allow, true) => (Accent::Good, "reachable"),
            (Network::Allow, false) => (Accent::Bad, "not reachable"),
            (Network::Off, _) => (Accent::Bad, "not reachable, the network is off"),
        };
        page.verdict(&one_line(&self.host), tone, verdict);
        let unlisted = format!("default: not reachable (not in `allowed_hosts`; {})", self.origin);
        let decided = match (self.network, &self.rule) {
            (Network::Allow, None) => &unlisted,
            (_, rule) => rule.as_ref().unwrap_or(&self.origin),
        };
        page.line("decided by", &one_line(decided));
        page.notes(&self.notes);
        page.changes(&self.changes, |to| match to {
            "on" => "to turn the network on",
            "off" => "to turn the network off",
            "reachable" => "to allow this host, but no unlisted ones",
            _ => "to deny this host",
        });
    }
}

/// Maximum number of programs listed.
const MAX_PROGRAMS: usize = 5;

impl Text for CommandAnswer {
    fn write(&self, page: &mut Page<'_>) {
        let (tone, verdict) = match self.verdict {
            CommandVerdict::Raw if !self.installed => (Accent::Warning, "not installed".to_owned()),
            CommandVerdict::Raw => (Accent::Good, "raw: the program itself runs".to_owned()),
            CommandVerdict::Blocked => (Accent::Bad, "blocked".to_owned()),
            CommandVerdict::Git => {
                (Accent::Warning, "@git: git without commands that destroy work".to_owned())
            }
            CommandVerdict::Script => {
                let script = self.script.as_deref().map(name).unwrap_or_default();
                (Accent::Warning, format!("script: `{script}` runs instead"))
            }
        };
        page.verdict(&one_line(&self.name), tone, &verdict);
        let origin = self.origin.as_deref().unwrap_or("default (no rule matches)");
        let through = self.through.as_deref();
        let through = through.map(|other| format!(", rule for `{other}`, which is the same file"));
        page.line("decided by", &one_line(&format!("{origin}{}", through.unwrap_or_default())));
        self.targets
            .iter()
            .take(MAX_PROGRAMS)
            .for_each(|target| page.line("program", &name(target)));
        if self.targets.len() > MAX_PROGRAMS {
            page.line(
                "",
                &format!("… and {} more; `--json` lists them", self.targets.len() - MAX_PROGRAMS),
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
            (VariableVerdict::Passed, _) => (Accent::Good, "passed through"),
            (VariableVerdict::Set, _) => (Accent::Warning, "set by the sandbox"),
            (VariableVerdict::Unset, _) => (Accent::Warning, "not set"),
            (VariableVerdict::Hidden, Some(Fate::Socket)) => (
                Accent::Bad,
                "removed: its socket is not available inside; share it with `sockets`",
            ),
            (VariableVerdict::Hidden, Some(Fate::Injecting)) => {
                (Accent::Bad, "removed: it can make programs run other code")
            }
            (VariableVerdict::Hidden, _) => (Accent::Bad, "removed: it looks like a credential"),
        };
        page.verdict(&one_line(&self.name), tone, verdict);
        let origin = self.origin.as_deref().unwrap_or("default (no rule matches)");
        page.line("decided by", &one_line(origin));
        page.notes(&self.notes);
        if self.verdict == VariableVerdict::Hidden {
            page.changes(&self.changes, |_| "to pass it through");
        }
    }
}
