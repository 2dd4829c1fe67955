//! Decision about a request: the command to run, or the reason for a denial.
//!
//! [`judge`] finds the [`Entry`] that allows a request and applies the rules of known tools. No shell ever reads a
//! request.

mod tool;

use std::ffi::OsString;

use sandbox_git::host_command as git;
use sandbox_policy::config::command::Entry;
use sandbox_policy::config::shown;

use crate::list::HostList;
use tool::Kind;

pub use tool::{Warning, has_rules, warnings};

/// Allowed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// Entry that allows it.
    pub entry: &'a Entry,
    /// Command to run: the words of the request, plus options that harden the tool.
    pub argv: Vec<OsString>,
    /// Variables that harden the tool.
    pub env: Vec<(String, String)>,
    /// Index of git among the words, if it runs. The repository must then be checked first.
    pub git: Option<usize>,
}

impl Allowed<'_> {
    /// Returns true if git inspects the work tree of each submodule, which no option prevents.
    pub(crate) fn enters_submodules(&self) -> bool {
        let sub = self.git.and_then(|at| self.argv.get(at + 1..)).unwrap_or_default();
        sub.iter().find(|word| *word != "--no-pager").is_some_and(|sub| git::compares(sub))
    }
}

/// Denied request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Requested program.
    pub name: String,
    /// Reason.
    pub reason: String,
}

impl Denial {
    /// Creates a denial of this request.
    pub fn new(argv: &[OsString], reason: impl Into<String>) -> Self {
        let name =
            argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self { name, reason: reason.into() }
    }

    /// Formats the denial for standard error, with the program and the reason on two lines. Untrusted text is escaped.
    pub fn message(&self) -> String {
        format!("denied: {}\nreason: {}\n", self.name.escape_debug(), self.reason)
    }
}

/// Judges a request.
///
/// ```
/// use sandbox_bridge::list::HostList;
/// use sandbox_bridge::verdict::judge;
/// use sandbox_policy::config::command::Entry;
/// let list = HostList { allowed: vec![Entry::parse("git status").unwrap()], ..HostList::default() };
/// let asked = |line: &str| judge(&list, &line.split(' ').map(Into::into).collect::<Vec<_>>()).is_ok();
/// assert!(asked("git status --short"));
/// assert!(!asked("git -c alias.status=!id status"));
/// ```
pub fn judge<'a>(list: &'a HostList, argv: &[OsString]) -> Result<Allowed<'a>, Denial> {
    let deny = |reason: String| Denial::new(argv, reason);
    let entry = list.find(argv).ok_or_else(|| deny(unlisted(list, argv)))?;
    let rest = &argv[entry.words.len()..];
    if let Some((word, why)) = entry.refusal(rest) {
        return Err(deny(format!("{} is refused: {why}", text(&word))));
    }
    let mut allowed = Allowed { entry, argv: argv.to_vec(), env: Vec::new(), git: None };
    harden(&mut allowed, 0).map_err(deny)?;
    Ok(allowed)
}

/// Applies the rules of the tool at this index of the request. If it runs another program, applies those of the
/// program.
fn harden(allowed: &mut Allowed<'_>, at: usize) -> Result<(), String> {
    let entry = allowed.entry;
    let words = entry.words.get(at..).unwrap_or_default();
    let Some(program) = allowed.argv.get(at) else { return Ok(()) };
    let Some(tool) = tool::known(program) else { return Ok(()) };
    if let Some(why) = tool.unfit(words)
        && (tool.kind == Kind::Own || !entry.risk_accepted)
    {
        let remedy = if tool.kind == Kind::Own {
            ""
        } else {
            "; to allow it, set `risk = \"accepted\"` in the host's list"
        };
        return Err(format!("{} is refused: {why}{remedy}", text(program)));
    }
    if tool.kind == Kind::Runs {
        return harden(allowed, at + tool::program(words).unwrap_or(1));
    }
    let is_git = std::path::Path::new(program).file_name().is_some_and(|name| name == "git");
    let args = &allowed.argv[at + 1..];
    let refused = match (entry.risk_accepted, is_git) {
        (true, _) => None,
        (_, true) => git::refusal(args, words.len() > 1),
        (_, false) => tool.refusal(words, args),
    };
    if let Some((word, why)) = refused {
        return Err(format!("{} is refused: {why}", text(&word)));
    }
    if is_git && !entry.risk_accepted {
        harden_git(allowed, at);
    }
    Ok(())
}

fn harden_git(allowed: &mut Allowed<'_>, at: usize) {
    allowed.git = Some(at);
    allowed.env = git::environment();
    let Some(sub) = allowed.argv.get(at + 1) else { return };
    let extra: Vec<OsString> = git::extra(sub).iter().map(OsString::from).collect();
    allowed.argv.splice(at + 2..at + 2, extra);
    allowed.argv.insert(at + 1, "--no-pager".into());
}

/// Explains why no entry covers a request.
fn unlisted(list: &HostList, argv: &[OsString]) -> String {
    let Some(name) = argv.first() else { return "there is no command".into() };
    let same: Vec<String> = list
        .allowed
        .iter()
        .filter(|entry| name == entry.words[0].as_str())
        .map(|entry| format!("`{}`", entry.text()))
        .collect();
    if same.is_empty() {
        return "it is not among the host commands".into();
    }
    format!("only {} may be run, with the words in that order", same.join(", "))
}

fn text(word: &std::ffi::OsStr) -> String {
    shown(&word.to_string_lossy())
}
