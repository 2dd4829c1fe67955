//! Effect of a command on the work tree, for a repository of which the sandbox can write only a part.
//!
//! Git changes its index and `HEAD` before it notices that a file is read-only, and leaves both out of step with the
//! files. So the paths that a command would write are determined before it runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::options::{Parsed, parse};
use super::rules::Command;
use super::{Refusal, RepoView, grammar};

const OUTSIDE: &str = "it would write files of the repository that are read-only in this sandbox";
const REPO: &str =
    "start the sandbox with `--repo`, which makes the whole repository writable, or in its root";
const PULL: &str = "`git fetch`, then `git merge` if it stays in this directory; or start the sandbox with `--repo`";
const ELSEWHERE: &str = "the directory of the new worktree is read-only in this sandbox";
const PARENT: &str = "use a path inside the project, or start the sandbox with `--rw` on an existing parent directory";

/// Paths that a command writes. `None`: only the command itself can tell.
type Written = Option<Vec<PathBuf>>;

impl<R: RepoView> Command<'_, R> {
    /// Returns the refusal of a command that would write where the sandbox cannot.
    pub(super) fn read_only_refusal(&self) -> Option<Refusal> {
        if self.name == "worktree" {
            return self.new_worktree();
        }
        if !WRITERS.contains(&self.name) || self.asks_usage() {
            return None;
        }
        let top = self.repo.partly_writable(self.globals)?;
        let written = Tree { command: self, top }.written();
        let refused =
            written.is_none_or(|paths| paths.iter().any(|path| self.repo.is_read_only(path)));
        refused.then(|| Refusal {
            what: format!("git {}", self.name),
            why: OUTSIDE,
            instead: if self.name == "pull" { PULL } else { REPO },
        })
    }

    fn asks_usage(&self) -> bool {
        self.args.iter().any(|word| word == "-h" || word == "--help")
    }

    fn new_worktree(&self) -> Option<Refusal> {
        let (first, rest) = self.args.split_first()?;
        let given = parse(grammar::WORKTREE, rest);
        if first != "add" || given.help {
            return None;
        }
        let path = self.globals.directory().join(OsStr::from_bytes(given.operands.first()?));
        self.repo.is_read_only(&path).then(|| Refusal {
            what: "git worktree add".to_owned(),
            why: ELSEWHERE,
            instead: PARENT,
        })
    }
}

/// Commands that write the work tree. Others pass.
const WRITERS: &[&str] = &[
    "am",
    "apply",
    "bisect",
    "checkout",
    "checkout-index",
    "cherry-pick",
    "clean",
    "merge",
    "mv",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "sparse-checkout",
    "stash",
    "submodule",
    "switch",
];

/// A command in a work tree.
struct Tree<'a, R> {
    command: &'a Command<'a, R>,
    top: PathBuf,
}

impl<R: RepoView> Tree<'_, R> {
    fn written(&self) -> Written {
        let (name, args) = (self.command.name, self.command.args);
        match name {
            "apply" => self.apply(&parse(grammar::APPLY, args)),
            "checkout" => Some(self.checkout(&parse(grammar::CHECKOUT, args))),
            "checkout-index" => self.checkout_index(&parse(grammar::CHECKOUT_INDEX, args)),
            "cherry-pick" | "revert" => self.picks(&parse(grammar::CHERRY_PICK, args)),
            "clean" => Some(self.clean(&parse(grammar::CLEAN, args))),
            "merge" => Some(self.merge(&parse(grammar::MERGE, args))),
            "mv" | "rm" => Some(self.operands(&parse(grammar::RM, args))),
            "read-tree" => Some(self.read_tree(&parse(grammar::READ_TREE, args))),
            "rebase" => self.rebase(&parse(grammar::REBASE, args)),
            "reset" => Some(self.reset(&parse(grammar::RESET, args))),
            "restore" => Some(self.restore(&parse(grammar::RESTORE, args))),
            "stash" => Some(self.stash()),
            "switch" => Some(self.switch(&parse(grammar::SWITCH, args))),
            "am" => stays(&parse(grammar::AM, args), &["quit", "show-current-patch"]),
            "bisect" => self.unless(&["log", "view", "visualize", "terms"]),
            "sparse-checkout" => self.unless(&["list", "check-rules"]),
            "submodule" => match parse(grammar::SUBMODULE, args).operands.first() {
                Some(&(b"add" | b"deinit" | b"update")) => None,
                _ => Some(Vec::new()),
            },
            _ => None,
        }
    }

    fn unless(&self, harmless: &[&str]) -> Written {
        let first = self.command.args.first();
        first.is_none_or(|first| harmless.iter().any(|word| first == word)).then(Vec::new)
    }

    fn apply(&self, given: &Parsed<'_>) -> Written {
        let only_prints = given.any(&["stat", "numstat", "summary", "check", "cached"]);
        // Without `-C`, git ignores the parts of a patch that are outside its working directory.
        let here = self.command.globals.directory().join("file");
        (only_prints && !given.on("apply") || !self.command.repo.is_read_only(&here)).then(Vec::new)
    }

    fn checkout(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        let creates = given.any(&["b", "B"]);
        let (target, paths) = match given.operands.split_first() {
            Some((first, rest)) if self.is_commit(&revision(first)) => {
                (Some(revision(first)), rest)
            }
            Some((first, [])) if creates || self.remote_branch(first).is_some() => {
                (self.remote_branch(first), &[][..])
            }
            _ => (None, &given.operands[..]),
        };
        if given.on("orphan") && target.is_none() {
            return Vec::new();
        }
        match (&target, paths) {
            (None, []) => Vec::new(),
            (Some(target), []) => self.changed(&["HEAD", target], &[]),
            (target, paths) => {
                self.changed(&target.as_deref().into_iter().collect::<Vec<_>>(), paths)
            }
        }
    }

    fn switch(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        if given.on("orphan") {
            return self.listed(&["ls-files", "-z", "--full-name", "--", ":/"], &[]);
        }
        let Some(first) = given.operands.first() else { return Vec::new() };
        let target = revision(first);
        let target = if self.is_commit(&target) { Some(target) } else { self.remote_branch(first) };
        target.map_or_else(Vec::new, |target| self.changed(&["HEAD", &target], &[]))
    }

    fn restore(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        if given.on("staged") && !given.on("worktree") {
            return Vec::new();
        }
        let source = given.last("source").and_then(|source| source.value).map(revision);
        self.changed(&source.as_deref().into_iter().collect::<Vec<_>>(), &given.operands)
    }

    fn reset(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        let kind = given.latest(&["hard", "soft", "mixed", "merge", "keep"]);
        let Some(kind @ ("hard" | "merge" | "keep")) = kind else { return Vec::new() };
        let target = given.operands.first().map_or_else(|| "HEAD".to_owned(), |rev| revision(rev));
        let mut written = self.changed(&["HEAD", &target], &[]);
        if kind != "keep" {
            written.extend(self.changed(&["HEAD"], &[]));
        }
        written
    }

    fn stash(&self) -> Vec<PathBuf> {
        let args = self.command.args;
        let word = args.first().map(|word| word.as_bytes()).filter(|word| !word.starts_with(b"-"));
        let rest = if word.is_some() { &args[1..] } else { args };
        let given = parse(grammar::STASH_PUSH, rest);
        match word {
            None | Some(b"push" | b"save") => {
                let paths = if word == Some(b"save") { &[][..] } else { &given.operands };
                let mut written = self.changed(&["HEAD"], paths);
                if given.any(&["include-untracked", "all"]) {
                    let query = ["ls-files", "--others", "-z", "--full-name", "--"];
                    let everything: &[&[u8]] = &[b":/"];
                    let paths = if paths.is_empty() { everything } else { paths };
                    written.extend(self.listed(&query, paths));
                }
                written
            }
            Some(b"apply" | b"pop") => self.stashed(given.operands.first().copied()),
            Some(b"branch") => {
                let entry = given.operands.get(1).copied();
                let mut written = self.stashed(entry);
                written.extend(self.changed(&["HEAD", &format!("{}^1", stash_entry(entry))], &[]));
                written
            }
            Some(_) => Vec::new(),
        }
    }

    fn stashed(&self, entry: Option<&[u8]>) -> Vec<PathBuf> {
        let entry = stash_entry(entry);
        let mut written = self.changed(&[&format!("{entry}^1"), &entry], &[]);
        let untracked = format!("{entry}^3");
        let query = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", &untracked];
        written.extend(self.listed(&query, &[]));
        written
    }

    fn merge(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        if given.any(&["continue", "quit"]) {
            return Vec::new();
        }
        if given.on("abort") {
            return self.changed(&["HEAD"], &[]);
        }
        let mut others: Vec<String> = given.operands.iter().map(|rev| revision(rev)).collect();
        if others.is_empty() {
            others.push("@{upstream}".to_owned());
        }
        others.iter().flat_map(|other| self.between("HEAD", other)).collect()
    }

    fn rebase(&self, given: &Parsed<'_>) -> Written {
        if given.any(&["quit", "edit-todo", "show-current-patch"]) {
            return Some(Vec::new());
        }
        if given.any(&["continue", "skip", "abort", "root", "exec"]) {
            return None;
        }
        let mut operands = given.operands.iter().map(|rev| revision(rev));
        let upstream = operands.next().unwrap_or_else(|| "@{upstream}".to_owned());
        let onto = given.last("onto").and_then(|onto| onto.value).map(revision);
        let branch = operands.next();
        let mut written = Vec::new();
        if let Some(branch) = &branch {
            written.extend(self.changed(&["HEAD", branch], &[]));
        }
        let branch = branch.as_deref().unwrap_or("HEAD");
        for base in [Some(upstream), onto].into_iter().flatten() {
            written.extend(self.between(branch, &base));
            written.extend(self.changed(&[&format!("{base}...{branch}")], &[]));
        }
        Some(written)
    }

    /// Returns the paths that a merge of another commit writes: those that changed there, and those that this side
    /// renamed, because the changes follow.
    fn between(&self, here: &str, other: &str) -> Vec<PathBuf> {
        let mut written = self.changed(&[&format!("{here}...{other}")], &[]);
        let renamed = format!("{other}...{here}");
        let query = [
            "diff",
            "--name-only",
            "-z",
            "-M",
            "--diff-filter=R",
            "--no-ext-diff",
            "--no-relative",
        ];
        let query: Vec<&str> =
            query.into_iter().chain(["--end-of-options", &renamed, "--"]).collect();
        written.extend(self.listed(&query, &[]));
        written
    }

    fn picks(&self, given: &Parsed<'_>) -> Written {
        if given.any(&["continue", "skip", "abort"]) {
            return None;
        }
        let is_range =
            |rev: &&[u8]| rev.starts_with(b"^") || rev.windows(2).any(|two| two == b"..");
        let walk = given.operands.iter().any(is_range);
        let mut query =
            vec!["log", "--name-only", "-z", "--format=", "-m", "--first-parent", "--no-renames"];
        query.extend([if walk { "--no-color" } else { "--no-walk" }, "--end-of-options"]);
        let revisions: Vec<String> = given.operands.iter().map(|rev| revision(rev)).collect();
        query.extend(revisions.iter().map(String::as_str));
        query.push("--");
        Some(if revisions.is_empty() { Vec::new() } else { self.listed(&query, &[]) })
    }

    fn read_tree(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        let trees = given.operands.iter().filter(|_| given.on("u"));
        trees.flat_map(|tree| self.changed(&["HEAD", &revision(tree)], &[])).collect()
    }

    fn clean(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        if given.on("dry-run") {
            return Vec::new();
        }
        self.listed(
            &["ls-files", "--others", "-z", "--full-name", "--directory", "--"],
            &given.operands,
        )
    }

    /// Returns the operands as paths. `mv` names its sources and its destination, and `rm` patterns of files.
    fn operands(&self, given: &Parsed<'_>) -> Vec<PathBuf> {
        if given.any(&["dry-run", "cached"]) {
            return Vec::new();
        }
        if self.command.name == "rm" {
            return self.listed(&["ls-files", "-z", "--full-name", "--"], &given.operands);
        }
        self.here(&given.operands)
    }

    fn checkout_index(&self, given: &Parsed<'_>) -> Written {
        if given.on("temp") || given.last("prefix").is_some() {
            return Some(Vec::new());
        }
        (!given.any(&["all", "stdin"])).then(|| self.here(&given.operands))
    }

    fn here(&self, operands: &[&[u8]]) -> Vec<PathBuf> {
        let here = self.command.globals.directory();
        operands.iter().map(|path| here.join(OsStr::from_bytes(path))).collect()
    }

    fn is_commit(&self, revision: &str) -> bool {
        let revision = format!("{revision}^{{commit}}");
        let query = ["rev-parse", "--verify", "--quiet", "--end-of-options", &revision];
        self.ask(&query, &[]).is_some()
    }

    /// Returns the remote branch that git tracks with a new branch of this name.
    fn remote_branch(&self, name: &[u8]) -> Option<String> {
        let pattern = format!("refs/remotes/*/{}", String::from_utf8_lossy(name));
        let answer =
            self.ask(&["for-each-ref", "--count=1", "--format=%(refname)", &pattern], &[])?;
        let name = String::from_utf8_lossy(&answer).trim().to_owned();
        (!name.is_empty()).then_some(name)
    }

    /// Returns the paths that differ between commits, or between a commit and the files.
    fn changed(&self, revisions: &[&str], paths: &[&[u8]]) -> Vec<PathBuf> {
        let query = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative"];
        let query: Vec<&str> = query
            .into_iter()
            .chain(["--end-of-options"])
            .chain(revisions.iter().copied())
            .chain(["--"])
            .collect();
        self.listed(&query, paths)
    }

    /// Returns the paths that a query lists. If git cannot answer it, the command fails, too.
    fn listed(&self, query: &[&str], paths: &[&[u8]]) -> Vec<PathBuf> {
        let answer = self.ask(query, paths).unwrap_or_default();
        let names = answer.split(|byte| *byte == 0).map(<[u8]>::trim_ascii_start);
        let names = names.filter(|name| !name.is_empty());
        names.map(|name| self.top.join(OsStr::from_bytes(name))).collect()
    }

    fn ask(&self, query: &[&str], paths: &[&[u8]]) -> Option<Vec<u8>> {
        let words: Vec<OsString> = query
            .iter()
            .map(|word| OsString::from(*word))
            .chain(paths.iter().map(|path| OsStr::from_bytes(path).to_owned()))
            .collect();
        self.command.repo.ask(self.command.globals, &words)
    }
}

fn stays(given: &Parsed<'_>, harmless: &[&str]) -> Written {
    given.any(harmless).then(Vec::new)
}

/// Returns a revision as other commands of git spell it.
fn revision(text: &[u8]) -> String {
    if text == b"-" { "@{-1}".to_owned() } else { String::from_utf8_lossy(text).into_owned() }
}

fn stash_entry(entry: Option<&[u8]>) -> String {
    match entry.map(String::from_utf8_lossy) {
        None => "stash@{0}".to_owned(),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("stash@{{{number}}}")
        }
        Some(name) => name.into_owned(),
    }
}

/// Returns the nearest existing directory that a path would be written in.
pub(super) fn directory_of(path: &Path) -> &Path {
    let mut dirs = path.ancestors().filter(|dir| dir.is_dir() || dir.as_os_str().is_empty());
    dirs.next().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
