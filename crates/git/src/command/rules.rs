//! Rules for the commands that destroy work.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::grammar;
use super::options::{Grammar, Parsed, parse};
use super::{ConfigScope, Globals, Refusal, RepoView};

/// One of git's own commands with its words.
pub(super) struct Command<'a, R> {
    pub(super) name: &'a str,
    pub(super) args: &'a [OsString],
    pub(super) globals: &'a Globals,
    pub(super) repo: &'a R,
}

/// Returns true for a command that runs hooks.
pub(super) fn runs_hooks(name: &str) -> bool {
    matches!(
        name,
        "am" | "cherry-pick" | "commit" | "merge" | "pull" | "push" | "rebase" | "revert"
    )
}

/// Returns the refusal of a call that changes which hooks run.
pub(super) fn hooks(name: &str) -> Refusal {
    Refusal { what: format!("git -c core.hooksPath={{dir}} {name}"), why: SKIPS, instead: FIX_HOOK }
}

const LOSES: &str = "it throws away changes that are not committed";
const SKIPS: &str = "it skips the hooks that check the work";
const FIX_HOOK: &str = "fix what the hook reports, then run it without that option";
const MOVES: &str = "it moves a branch and may leave its commits unreachable";
const DELETES: &str = "it may delete the only copy of commits or changes";
const REWRITES: &str = "it overwrites commits in the remote repository";
const STASH: &str = "`git stash push` keeps them aside, `git switch` changes the branch";

fn refusal(what: &str, why: &'static str, instead: &'static str) -> Refusal {
    Refusal { what: format!("git {what}"), why, instead }
}

impl<R: RepoView> Command<'_, R> {
    /// Returns why the command must not run, if it is refused.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self.name {
            "checkout" => self.always(
                "checkout",
                "`git switch` changes the branch, `git stash push -- FILE` keeps a file's changes aside",
            ),
            "restore" => self.always(
                "restore",
                "`git stash push -- FILE` keeps a file's changes aside, `git reset -- FILE` unstages it",
            ),
            "stash" => self.stash(),
            "reflog" => self.reflog(),
            "worktree" => self.worktree(),
            "submodule" => self.submodule(),
            _ => self.by_options(),
        }
    }

    /// Returns true when the command changes a remote repository.
    pub(super) fn pushes(&self) -> bool {
        matches!(self.name, "push" | "send-pack")
    }

    /// Returns the remote that a push names. Without one, git uses the default.
    pub(super) fn remote(&self) -> Option<OsString> {
        let given = parse(grammar_of(self.name)?, self.args);
        let named = given.operands.first().copied();
        let named = named.or_else(|| given.last("repo").and_then(|repo| repo.value));
        named.map(|name| OsStr::from_bytes(name).to_owned())
    }

    fn always(&self, what: &str, instead: &'static str) -> Option<Refusal> {
        let usage = matches!(self.args, [only] if only == "-h");
        (!usage).then(|| refusal(what, LOSES, instead))
    }

    fn by_options(&self) -> Option<Refusal> {
        let given = parse(grammar_of(self.name)?, self.args);
        match self.name {
            _ if given.help => None,
            "pull" => verify("pull", given.off("verify")),
            "am" | "commit" | "merge" | "rebase" => verify(self.name, given.on("no-verify")),
            "branch" => branch(&given),
            "checkout-index" => checkout_index(&given),
            "clean" => self.clean(&given),
            "gc" => self.gc(&given),
            "prune" => prune(&given),
            "push" => self.push(&given),
            "read-tree" => read_tree(&given),
            "reset" => reset(&given),
            "send-pack" => forced_push("send-pack", &given),
            "switch" => switch(&given),
            "update-ref" => update_ref(&given),
            _ => None,
        }
    }

    fn clean(&self, given: &Parsed<'_>) -> Option<Refusal> {
        if given.on("dry-run") {
            return None;
        }
        let asks_force = || {
            let values = self.config(r"^clean\.requireforce$");
            values.last().is_none_or(|(_, value)| is_true(value))
        };
        let deletes = given.any(&["force", "interactive"]) || !asks_force();
        deletes.then(|| {
            refusal(
                "clean -f",
                "it deletes files that git has no copy of",
                "`git clean -n` lists them; `git stash push -u` keeps them aside",
            )
        })
    }

    fn gc(&self, given: &Parsed<'_>) -> Option<Refusal> {
        let now =
            given.last("prune").is_some_and(|prune| prune.on && !prune.value.is_none_or(is_old));
        let configured = || {
            let query = |scope| self.repo.config(self.globals, r"^gc\..*expire.*$", scope);
            let values = query(ConfigScope::Effective);
            values.iter().any(|(_, value)| !is_old(value)) && values != query(ConfigScope::Usual)
        };
        (now || configured()).then(|| {
            refusal("gc --prune=now", DELETES, "`git gc` keeps objects newer than two weeks")
        })
    }

    fn push(&self, given: &Parsed<'_>) -> Option<Refusal> {
        if given.on("dry-run") {
            return None;
        }
        let refusal = verify("push", given.on("no-verify")).or_else(|| forced_push("push", given));
        refusal.or_else(|| self.configured_push(given))
    }

    /// Checks for `remote.NAME.push = +…` and `remote.NAME.mirror`, which force a push without an option.
    fn configured_push(&self, given: &Parsed<'_>) -> Option<Refusal> {
        let remote = given.operands.first().map(|name| String::from_utf8_lossy(name));
        let values = self.config(r"^remote\..*\.(push|mirror)$");
        let forces = values.iter().any(|(key, value)| {
            let key = key.get("remote.".len()..).unwrap_or_default();
            let (name, setting) = key.rsplit_once('.').unwrap_or((key, ""));
            let meant = remote.as_deref().is_none_or(|remote| remote == name);
            meant && if setting == "mirror" { is_true(value) } else { value.starts_with(b"+") }
        });
        forces.then(|| {
            refusal(
                "push",
                REWRITES,
                "name the branch and push it to a new name: `git push REMOTE BRANCH:NEW`",
            )
        })
    }

    fn stash(&self) -> Option<Refusal> {
        let what = match self.args.first()?.as_encoded_bytes() {
            b"drop" => "stash drop",
            b"clear" => "stash clear",
            b"pop" => "stash pop",
            _ => return None,
        };
        if matches!(self.args, [_, only] if only == "-h" || only == "--help") {
            return None;
        }
        Some(refusal(
            what,
            "it deletes saved changes",
            "`git stash apply` restores them and keeps the entry",
        ))
    }

    fn reflog(&self) -> Option<Refusal> {
        let (first, rest) = self.args.split_first()?;
        let what = match first.as_encoded_bytes() {
            b"expire" => "reflog expire",
            b"delete" => "reflog delete",
            b"drop" => "reflog drop",
            _ => return None,
        };
        let given = parse(grammar::REFLOG_EXPIRE, rest);
        if given.help || given.on("dry-run") {
            return None;
        }
        Some(refusal(
            what,
            "it deletes the history of branches and stashes",
            "`git reflog` lists the entries; leave them in place",
        ))
    }

    fn worktree(&self) -> Option<Refusal> {
        let (first, rest) = self.args.split_first()?;
        let given = parse(grammar::WORKTREE, rest);
        match first.as_encoded_bytes() {
            _ if given.help => None,
            b"remove" if given.on("force") => Some(refusal(
                "worktree remove --force",
                LOSES,
                "commit there first, then `git worktree remove`",
            )),
            b"add" if given.on("B") => Some(refusal(
                "worktree add -B",
                MOVES,
                "`git worktree add -b NEW` makes a new branch",
            )),
            _ => None,
        }
    }

    fn submodule(&self) -> Option<Refusal> {
        let given = parse(grammar::SUBMODULE, self.args);
        let what = match *given.operands.first()? {
            b"update" => "submodule update --force",
            b"deinit" => "submodule deinit --force",
            _ => return None,
        };
        if given.help || !given.on("force") {
            return None;
        }
        Some(refusal(
            what,
            LOSES,
            "commit or `git stash push` inside the submodule, then run it without `--force`",
        ))
    }

    fn config(&self, pattern: &str) -> Vec<(String, Vec<u8>)> {
        self.repo.config(self.globals, pattern, ConfigScope::Effective)
    }
}

fn grammar_of(name: &str) -> Option<Grammar> {
    Some(match name {
        "am" => grammar::AM,
        "branch" => grammar::BRANCH,
        "checkout-index" => grammar::CHECKOUT_INDEX,
        "clean" => grammar::CLEAN,
        "commit" => grammar::COMMIT,
        "gc" => grammar::GC,
        "merge" => grammar::MERGE,
        "prune" => grammar::PRUNE,
        "pull" => grammar::PULL,
        "push" => grammar::PUSH,
        "read-tree" => grammar::READ_TREE,
        "rebase" => grammar::REBASE,
        "reset" => grammar::RESET,
        "send-pack" => grammar::SEND_PACK,
        "switch" => grammar::SWITCH,
        "update-ref" => grammar::UPDATE_REF,
        _ => return None,
    })
}

fn verify(command: &str, skips: bool) -> Option<Refusal> {
    skips.then(|| refusal(&format!("{command} --no-verify"), SKIPS, FIX_HOOK))
}

fn reset(given: &Parsed<'_>) -> Option<Refusal> {
    let kind = given.latest(&["hard", "soft", "mixed", "merge", "keep"]);
    (kind == Some("hard")).then(|| {
        refusal(
            "reset --hard",
            LOSES,
            "`git stash push` keeps them aside, `git reset --keep` moves the branch",
        )
    })
}

fn branch(given: &Parsed<'_>) -> Option<Refusal> {
    if given.on("D") || (given.on("delete") && given.on("force")) {
        return Some(refusal(
            "branch -D",
            "it deletes a branch whose commits may not be merged",
            "`git branch -d` deletes a merged branch",
        ));
    }
    let what = match () {
        () if given.on("M") => "branch -M",
        () if given.on("C") => "branch -C",
        () if given.on("force") => "branch -f",
        () => return None,
    };
    Some(refusal(
        what,
        MOVES,
        "`git branch NEW COMMIT` makes a new branch, `git branch -m` renames to a free name",
    ))
}

fn switch(given: &Parsed<'_>) -> Option<Refusal> {
    if given.any(&["force", "discard-changes"]) {
        return Some(refusal("switch --discard-changes", LOSES, STASH));
    }
    given
        .on("force-create")
        .then(|| refusal("switch -C", MOVES, "`git switch -c NEW` makes a new branch"))
}

fn checkout_index(given: &Parsed<'_>) -> Option<Refusal> {
    (given.on("force") && !given.on("temp")).then(|| {
        refusal(
            "checkout-index -f",
            LOSES,
            "`git archive HEAD | tar -x -C DIR` writes the files elsewhere",
        )
    })
}

fn read_tree(given: &Parsed<'_>) -> Option<Refusal> {
    (given.on("reset") && given.on("u") && !given.on("dry-run")).then(|| {
        refusal(
            "read-tree --reset -u",
            LOSES,
            "`git read-tree -m -u` stops where changes would be lost",
        )
    })
}

fn prune(given: &Parsed<'_>) -> Option<Refusal> {
    let old =
        given.last("expire").is_some_and(|expire| expire.on && expire.value.is_some_and(is_old));
    (!old && !given.on("dry-run"))
        .then(|| refusal("prune", DELETES, "`git gc` keeps objects newer than two weeks"))
}

fn update_ref(given: &Parsed<'_>) -> Option<Refusal> {
    given
        .on("d")
        .then(|| refusal("update-ref -d", DELETES, "`git branch -d` deletes a merged branch"))
}

fn forced_push(command: &str, given: &Parsed<'_>) -> Option<Refusal> {
    if given.on("dry-run") {
        return None;
    }
    let refspecs = || given.operands.iter().skip(1);
    let forced = refspecs().any(|spec| spec.starts_with(b"+"));
    let deleted = refspecs().any(|spec| spec.len() > 1 && spec.starts_with(b":"));
    let (what, why) = match () {
        () if given.on("force") => ("--force", REWRITES),
        () if given.on("mirror") => ("--mirror", REWRITES),
        () if forced => ("+REF", REWRITES),
        () if given.on("delete") || deleted => {
            ("--delete", "it deletes a branch in the remote repository")
        }
        () if given.on("prune") => ("--prune", "it deletes branches in the remote repository"),
        () => return None,
    };
    let instead =
        "push to a new branch, or use `--force-with-lease`, which stops when others have pushed";
    Some(refusal(&format!("{command} {what}"), why, instead))
}

fn is_true(value: &[u8]) -> bool {
    // git reads a key without a value as true; `git config` prints it with an empty value.
    !["false", "no", "off", "0"].iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns true when an expiry date keeps at least two weeks, which is git's default.
fn is_old(date: &[u8]) -> bool {
    let text = String::from_utf8_lossy(date).to_ascii_lowercase();
    let mut words = text.split(['.', ' ', '_']).filter(|word| !word.is_empty());
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("never" | "false"), None, None, None) => true,
        (Some(count), Some(unit), Some("ago") | None, None) => {
            let count: u32 = count.parse().unwrap_or(0);
            match unit.trim_end_matches('s') {
                "week" => count >= 2,
                "day" => count >= 14,
                "month" | "year" => count >= 1,
                _ => false,
            }
        }
        _ => false,
    }
}
