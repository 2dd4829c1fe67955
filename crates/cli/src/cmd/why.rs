//! `why`: what decides about a path, a host, a command or a variable, and what would change it.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_core::Host;
use sandbox_core::backend::shell::quote;
use sandbox_core::config::{Network, Request};
use sandbox_core::plan::plan_config;
use sandbox_core::why::{
    By, Change, CommandAnswer, CommandVerdict, Explained, Explainer, Line, NetworkAnswer,
    PathAnswer, State, VariableAnswer, VariableVerdict, Verdict, policy::Fate,
};
use serde::Serialize;

use crate::args::{Flags, Why};
use crate::events::report::name;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone, one_line, visible};

/// Answers from the plan; inside a sandbox from what that sandbox says of itself.
pub(crate) fn run(flags: &Flags, why: &Why, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let request = super::request(flags, Vec::new(), host)?;
    if host.inside {
        if shapes(&request) {
            io.labelled(
                Tone::Warning,
                "note",
                "the flags are for a new sandbox; the answer is about the one around this process",
            );
        }
        return ask(&Explainer::around(host)?, flags, why, io);
    }
    let config = super::load(host, &request, io)?;
    let plan = plan_config(host, config, Vec::new())?;
    ask(&Explainer::of_plan(host, &request, &plan), flags, why, io)
}

fn shapes(request: &Request) -> bool {
    !request.paths.is_empty()
        || !request.commands.is_empty()
        || !request.env.is_empty()
        || request.network.is_some()
        || !request.hosts.is_empty()
        || request.docker.is_some()
        || request.config.is_some()
}

fn ask(explainer: &Explainer<'_>, flags: &Flags, why: &Why, io: &mut Stdio<'_>) -> Outcome {
    if let Some(path) = &why.path {
        show(flags, &explainer.path(path)?, path_answer, io);
    } else if let Some(host) = &why.host {
        show(flags, &explainer.host(host)?, network_answer, io);
    } else if let Some(command) = &why.command {
        show(flags, &explainer.command(command)?, command_answer, io);
    } else if let Some(variable) = &why.variable {
        show(flags, &explainer.variable(variable)?, variable_answer, io);
    }
    Ok(0)
}

fn show<A: Serialize>(
    flags: &Flags,
    explained: &Explained<A>,
    print: fn(&A, &mut Page<'_, '_>),
    io: &mut Stdio<'_>,
) {
    if flags.json {
        super::json(explained, io);
        return;
    }
    let mut page = Page { text: String::new(), inside: explained.inside, io };
    page.whose(explained.sandboxes, explained.decided_by);
    print(&explained.answer, &mut page);
    let text = page.text;
    io.data(&text);
}

/// An answer, line by line.
struct Page<'p, 's> {
    text: String,
    inside: bool,
    io: &'p Stdio<'s>,
}

impl Page<'_, '_> {
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
        self.put(&format!("{}\n", self.io.tone(Tone::Quiet, &format!("{which}:"))));
    }

    fn put(&mut self, line: &str) {
        self.text.push_str(line);
    }

    fn verdict(&mut self, what: &str, tone: Tone, verdict: &str) {
        let (what, verdict) = (self.io.tone(Tone::Strong, what), self.io.tone(tone, verdict));
        self.put(&format!("{what}: {verdict}\n"));
    }

    fn line(&mut self, label: &str, text: &str) {
        self.put(&format!("  {} {text}\n", self.io.tone(Tone::Quiet, &format!("{label:<11}"))));
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
        self.put(&format!("  {}\n", self.io.tone(Tone::Strong, &format!("{goal}{place}:"))));
        if !change.flags.is_empty() {
            let words: Vec<String> = change.flags.iter().map(|word| shell(word)).collect();
            let flags = self.io.tone(Tone::Good, &words.join(" "));
            self.put(&format!("    agent-sandbox {flags} …\n"));
        }
        if let Some(config) = &change.config {
            let text = inline(config);
            let keys = visible(text.trim_start_matches('{').trim_end_matches('\n'));
            let keys = keys.strip_suffix('}').unwrap_or(&keys);
            let keys = self.io.tone(Tone::Good, keys);
            self.put(&format!("    {keys}    in a configuration file\n"));
        }
        for edit in &change.edit {
            self.put(&format!("    {}\n", one_line(edit)));
        }
    }

    fn rule(&self, line: &Line) -> String {
        let origin = self.io.tone(Tone::Quiet, &format!("({})", one_line(&line.origin)));
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

fn path_answer(answer: &PathAnswer, page: &mut Page<'_, '_>) {
    let (tone, verdict) = match (answer.verdict, &answer.by) {
        (Verdict::Writable, _) => (Tone::Good, "writable"),
        (Verdict::ReadOnly, _) => (Tone::Warning, "read-only"),
        (Verdict::Missing, _) => (Tone::Warning, "does not exist"),
        (Verdict::Hidden, _) => (Tone::Bad, "hidden"),
        (Verdict::Own, _) => (Tone::Bad, "not the host's: the sandbox has its own"),
    };
    page.verdict(&name(&answer.path), tone, verdict);
    if answer.real != answer.path {
        page.line("leads to", &name(&answer.real));
    }
    for dir in &answer.links {
        page.line("symlink in", &name(dir));
    }
    decided(answer, page);
    for line in answer.beaten.iter().chain(&answer.above) {
        let text = page.rule(line);
        page.line("beats", &text);
    }
    page.notes(&answer.notes);
    if answer.changes.is_empty()
        && answer.verdict == Verdict::Missing
        && answer.state == State::Writable
    {
        return;
    }
    page.changes(&answer.changes, |to| match to {
        "writable" => "to make it writable",
        "read-only" => "to make it readable, but not writable",
        "hidden" => "to hide it",
        _ => "to have the program itself there",
    });
}

fn decided(answer: &PathAnswer, page: &mut Page<'_, '_>) {
    let text = match (&answer.by, &answer.rule) {
        (By::Rule, Some(rule)) => page.rule(rule),
        (By::Mount { source, target, origin }, _) if source == target => {
            format!("`{}`, shared ({})", name(target), one_line(origin))
        }
        (By::Mount { source, target, origin }, _) => {
            format!("`{}` is mounted at `{}` ({})", name(source), name(target), one_line(origin))
        }
        (By::Ground { dir: "/tmp" }, _) => {
            "`/tmp` is private: empty at the start of a run, gone at its end".into()
        }
        (By::Ground { dir }, _) => format!("every sandbox has its own `{dir}`"),
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

fn network_answer(answer: &NetworkAnswer, page: &mut Page<'_, '_>) {
    let (tone, verdict) = match (answer.network, answer.reachable) {
        (Network::On, _) => (Tone::Good, "the network is on"),
        (Network::Allow, true) => (Tone::Good, "can be reached"),
        (Network::Allow, false) => (Tone::Bad, "cannot be reached"),
        (Network::Off, _) => (Tone::Bad, "the network is off"),
    };
    page.verdict(&one_line(&answer.host), tone, verdict);
    let unlisted = format!("no rule of `allowed_hosts`; hosts are told apart ({})", answer.origin);
    let decided = match (answer.network, &answer.rule) {
        (Network::Allow, None) => &unlisted,
        (_, rule) => rule.as_ref().unwrap_or(&answer.origin),
    };
    page.line("decided by", &one_line(decided));
    page.notes(&answer.notes);
    page.changes(&answer.changes, |to| match to {
        "on" => "to turn it on",
        "off" => "to turn it off",
        "reachable" => "to let it be reached, and nothing that is not allowed",
        _ => "to refuse it",
    });
}

/// As many programs of one name as anybody reads.
const MOST: usize = 5;

fn command_answer(answer: &CommandAnswer, page: &mut Page<'_, '_>) {
    let (tone, verdict) = match answer.verdict {
        CommandVerdict::Raw if !answer.installed => (Tone::Warning, "not installed".to_owned()),
        CommandVerdict::Raw => (Tone::Good, "raw, the program itself runs".to_owned()),
        CommandVerdict::Blocked => (Tone::Bad, "blocked".to_owned()),
        CommandVerdict::Git => (Tone::Warning, "@git, without what destroys work".to_owned()),
        CommandVerdict::Script => {
            let script = answer.script.as_deref().map(name).unwrap_or_default();
            (Tone::Warning, format!("script, `{script}` runs in its place"))
        }
    };
    page.verdict(&one_line(&answer.name), tone, &verdict);
    let origin = answer.origin.as_deref().unwrap_or("no rule");
    let through = answer.through.as_deref();
    let through = through.map(|other| format!(", the rule of `{other}`, which is the same file"));
    page.line("decided by", &one_line(&format!("{origin}{}", through.unwrap_or_default())));
    answer.targets.iter().take(MOST).for_each(|target| page.line("program", &name(target)));
    if answer.targets.len() > MOST {
        page.line("", &format!("… and {} more; `--json` lists them", answer.targets.len() - MOST));
    }
    page.notes(&answer.notes);
    page.changes(&answer.changes, |to| match to {
        "raw" => "to run the program itself",
        _ => "to block it",
    });
}

fn variable_answer(answer: &VariableAnswer, page: &mut Page<'_, '_>) {
    let (tone, verdict) = match (answer.verdict, answer.fate) {
        (VariableVerdict::Passed, _) => (Tone::Good, "passed on"),
        (VariableVerdict::Set, _) => (Tone::Warning, "set to a value of the sandbox's own"),
        (VariableVerdict::Unset, _) => (Tone::Warning, "not set"),
        (VariableVerdict::Hidden, Some(Fate::Socket)) => {
            (Tone::Bad, "hidden, it leads to a socket that is not there")
        }
        (VariableVerdict::Hidden, Some(Fate::Injecting)) => {
            (Tone::Bad, "hidden, it makes programs run other code")
        }
        (VariableVerdict::Hidden, _) => (Tone::Bad, "hidden, it looks like a credential"),
    };
    page.verdict(&one_line(&answer.name), tone, verdict);
    page.line("decided by", &one_line(answer.origin.as_deref().unwrap_or("no rule")));
    page.notes(&answer.notes);
    if answer.verdict == VariableVerdict::Hidden {
        page.changes(&answer.changes, |_| "to pass it on");
    }
}
