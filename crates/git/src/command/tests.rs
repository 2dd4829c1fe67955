use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// Fixed answers: configuration from a list, and no repository.
#[derive(Default)]
struct Fixed {
    config: Vec<(&'static str, &'static str)>,
    usual: Vec<(&'static str, &'static str)>,
    scratch: bool,
    caller: Option<&'static str>,
}

impl RepoView for Fixed {
    fn config(&self, _: &Globals, pattern: &str, asked: ConfigScope) -> Vec<(String, Vec<u8>)> {
        let values = if asked == ConfigScope::Effective { &self.config } else { &self.usual };
        let wanted = ["alias", "help", "core.hookspath", "clean", "gc", "remote"];
        let of = |key: &str| {
            wanted
                .iter()
                .any(|word| key.starts_with(word) && pattern.contains(&word.replace('.', r"\.")))
        };
        let values = values.iter().filter(|(key, _)| of(key));
        values.map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }
    fn is_scratch(&self, _: &Globals) -> bool {
        self.scratch
    }
    fn remote_is_scratch(&self, _: &Globals, _: Option<&OsStr>) -> bool {
        false
    }
    fn partly_writable(&self, _: &Globals) -> Option<PathBuf> {
        None
    }
    fn is_read_only(&self, path: &Path) -> bool {
        path.iter().any(|name| name == "..")
    }
    fn ask(&self, _: &Globals, _: &[OsString]) -> Option<Vec<u8>> {
        None
    }
    fn caller(&self) -> Option<Vec<OsString>> {
        self.caller.map(words)
    }
    fn usual_env(&self) -> &[(OsString, OsString)] {
        &[]
    }
}

fn words(line: &str) -> Vec<OsString> {
    alias::split(line.as_bytes())
}

fn what(line: &str, env: &[(&str, &str)], fixed: &Fixed) -> Option<String> {
    let env = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    match judge(&words(line), &env, fixed) {
        Verdict::Allow { .. } => None,
        Verdict::Refuse(refusal) => Some(refusal.what),
    }
}

const DESTROYS: &[(&str, &str)] = &[
    ("git checkout .", "git checkout"),
    ("git checkout", "git checkout"),
    ("git checkout -b new", "git checkout"),
    ("git checkout main -h", "git checkout"),
    ("git restore file", "git restore"),
    ("git -C elsewhere -p restore --staged file", "git restore"),
    ("git reset --hard", "git reset --hard"),
    ("git reset --har HEAD~1", "git reset --hard"),
    ("git reset HEAD~1 --hard", "git reset --hard"),
    ("git reset --soft --hard", "git reset --hard"),
    ("git-reset --hard", "git reset --hard"),
    ("/usr/lib/git-core/git-checkout -- x", "git checkout"),
    ("git --exec-path=/x --git-dir=a --work-tree b reset --hard", "git reset --hard"),
    ("git clean -f", "git clean -f"),
    ("git clean -fdx", "git clean -f"),
    ("git clean -xdf", "git clean -f"),
    ("git clean --forc", "git clean -f"),
    ("git clean -e foo -f", "git clean -f"),
    ("git clean -i", "git clean -f"),
    ("git clean -n --no-dry-run -f", "git clean -f"),
    ("git commit -n -m x", "git commit --no-verify"),
    ("git commit -anm x", "git commit --no-verify"),
    ("git commit --no-verify", "git commit --no-verify"),
    ("git commit --no-veri -m x", "git commit --no-verify"),
    ("git commit -m x file -n", "git commit --no-verify"),
    ("git commit -S -n", "git commit --no-verify"),
    ("git merge --no-verify topic", "git merge --no-verify"),
    ("git rebase --no-verify main", "git rebase --no-verify"),
    ("git am -n patch", "git am --no-verify"),
    ("git pull --no-verify", "git pull --no-verify"),
    ("git push --no-verify", "git push --no-verify"),
    ("git stash drop", "git stash drop"),
    ("git stash clear", "git stash clear"),
    ("git stash pop --index", "git stash pop"),
    ("git branch -D x", "git branch -D"),
    ("git branch -d -f x", "git branch -D"),
    ("git branch -df x", "git branch -D"),
    ("git branch --delete --force x", "git branch -D"),
    ("git branch -M a b", "git branch -M"),
    ("git branch -C a b", "git branch -C"),
    ("git branch -f main HEAD~3", "git branch -f"),
    ("git branch -m --force a b", "git branch -f"),
    ("git push -f", "git push --force"),
    ("git push -uf origin main", "git push --force"),
    ("git push --force-with-lease --force", "git push --force"),
    ("git push --no-force --force", "git push --force"),
    ("git push origin +main", "git push +REF"),
    ("git push origin -- +main:main", "git push +REF"),
    ("git push --mirror", "git push --mirror"),
    ("git push origin :main", "git push --delete"),
    ("git push -d origin main", "git push --delete"),
    ("git push --prune origin", "git push --prune"),
    ("git send-pack --force x", "git send-pack --force"),
    ("git switch -f main", "git switch --discard-changes"),
    ("git switch --discard-changes main", "git switch --discard-changes"),
    ("git switch --disc main", "git switch --discard-changes"),
    ("git switch -C main", "git switch -C"),
    ("git read-tree --reset -u HEAD", "git read-tree --reset -u"),
    ("git read-tree -u --res HEAD", "git read-tree --reset -u"),
    ("git checkout-index -f -a", "git checkout-index -f"),
    ("git checkout-index -fa --prefix=./", "git checkout-index -f"),
    ("git worktree remove -f x", "git worktree remove --force"),
    ("git worktree remove x --force", "git worktree remove --force"),
    ("git worktree add -B main x", "git worktree add -B"),
    ("git worktree add -b new ../x main", "git worktree add"),
    ("git -C a -C ../.. worktree add ../x", "git worktree add"),
    ("git reflog expire --expire=now --all", "git reflog expire"),
    ("git reflog delete HEAD@{1}", "git reflog delete"),
    ("git gc --prune=now", "git gc --prune=now"),
    ("git gc --prune=1.second.ago", "git gc --prune=now"),
    ("git prune", "git prune"),
    ("git prune --expire now", "git prune"),
    ("git update-ref -d refs/heads/x", "git update-ref -d"),
    ("git submodule update --init --force", "git submodule update --force"),
];

#[test]
fn judge_refuses_what_destroys_work() {
    for (line, expected) in DESTROYS {
        assert_eq!(what(line, &[], &Fixed::default()).as_deref(), Some(*expected), "{line}");
    }
}

const HARMLESS: &[&str] = &[
    "git",
    "git status",
    "git --version",
    "git --help checkout",
    "git -h checkout",
    "git help checkout",
    "git checkout -h",
    "git checkout --help",
    "git restore --help",
    "git commit -mnew-text",
    "git commit -m -n",
    "git commit -am -n",
    "git commit --message -n",
    "git commit -m x -- -n",
    "git commit --no-verify --verify -m x",
    "git commit -F -n",
    "git commit -Skey-n -m x",
    "git commit -unormal -m x",
    "git commit --no-verbose -m x",
    "git commit --amend --no-edit",
    "git clean",
    "git clean -n",
    "git clean -nf",
    "git clean -efoo",
    "git clean -e -f",
    "git clean -f --no-force",
    "git reset",
    "git reset --soft HEAD~1",
    "git reset --hard --soft",
    "git reset --keep HEAD~1",
    "git reset -- --hard",
    "git merge -n topic",
    "git merge --no-verify-signatures topic",
    "git rebase -n main",
    "git pull -n",
    "git cherry-pick -n x",
    "git revert -n x",
    "git stash",
    "git stash push -m drop",
    "git stash -m pop",
    "git stash apply",
    "git stash list drop",
    "git stash drop -h",
    "git branch -d x",
    "git branch -m a b",
    "git branch --list -r",
    "git branch --contains HEAD",
    "git branch --sort -D",
    "git branch -f --no-force x",
    "git push",
    "git push --force-with-lease",
    "git push --force --no-force",
    "git push -f -n",
    "git push origin main:main",
    "git push -o -f origin main",
    "git push origin :",
    "git switch main",
    "git switch -c new",
    "git switch -c -f",
    "git read-tree --reset HEAD",
    "git read-tree -m -u HEAD",
    "git checkout-index -a",
    "git checkout-index -f --temp x",
    "git worktree add -f x",
    "git worktree remove x",
    "git reflog",
    "git reflog expire -n --all",
    "git gc",
    "git gc --prune",
    "git gc --prune=2.weeks.ago",
    "git prune -n",
    "git prune --expire 3.months.ago",
    "git update-ref refs/heads/x HEAD",
    "git submodule update --init",
    "git -c user.name=x commit -m y",
    "git no-such-command --hard",
    "git --no-such-option reset",
    "git -c",
    "git -c x",
    "git-receive-pack .",
];

#[test]
fn judge_allows_everything_else() {
    for line in HARMLESS {
        assert_eq!(what(line, &[], &Fixed::default()), None, "{line}");
    }
}

#[test]
fn judge_follows_aliases_as_git_does() {
    let fixed = Fixed {
        config: vec![
            ("alias.wipe", "reset --hard"),
            ("alias.deep", "wipe -q"),
            ("alias.paged", "-p reset --hard"),
            ("alias.round", "round"),
            ("alias.shell", "!git reset --hard"),
            ("alias.fine", "log --oneline"),
            ("alias.status", "reset --hard"),
            ("alias.late.command", "clean -f"),
            ("alias.half", "reset"),
        ],
        ..Fixed::default()
    };
    for (line, expected) in [
        ("git wipe", Some("git reset --hard")),
        ("git WIPE", Some("git reset --hard")),
        ("git deep", Some("git reset --hard")),
        ("git paged", Some("git reset --hard")),
        ("git half --hard", Some("git reset --hard")),
        ("git half", None),
        ("git round", Some("git round")),
        ("git late", Some("git clean -f")),
        // The shell calls git through the wrapper again.
        ("git shell", None),
        ("git fine", None),
        // git does not look up aliases for its built-in commands.
        ("git status", None),
        ("git wipe --help", None),
    ] {
        assert_eq!(what(line, &[], &fixed).as_deref(), expected, "{line}");
    }
}

#[test]
fn judge_turns_off_autocorrection_of_misspelt_commands() {
    let fixed = Fixed { config: vec![("help.autocorrect", "immediate")], ..Fixed::default() };
    let argv = words("git -C x chekout .");
    let Verdict::Allow { extra } = judge(&argv, &Env::new(), &fixed) else { panic!("allowed") };
    assert_eq!(with_extra(&argv, extra), words("git -C x -c help.autocorrect=0 chekout ."));
}

#[test]
fn judge_refuses_settings_that_change_what_runs() {
    let hooks = || Fixed { config: vec![("core.hookspath", "/dev/null")], ..Fixed::default() };
    let same = || Fixed { usual: vec![("core.hookspath", "/dev/null")], ..hooks() };
    let refused = Some("git -c core.hooksPath={dir} commit");
    for (line, env, fixed, expected) in [
        ("git -c core.hooksPath=/dev/null commit", &[][..], hooks(), refused),
        ("git --config-env=core.hooksPath=X commit", &[], hooks(), refused),
        ("git commit", &[("GIT_CONFIG_COUNT", "1")], hooks(), refused),
        ("git commit", &[("GIT_CONFIG_PARAMETERS", "'x'")], hooks(), refused),
        ("git commit", &[("GIT_CONFIG_GLOBAL", "/x")], hooks(), refused),
        ("git commit", &[("HOME", "/x")], hooks(), refused),
        ("git -c core.hooksPath=/dev/null status", &[], hooks(), None),
        ("git -c core.hooksPath=/dev/null commit", &[], same(), None),
        ("git commit", &[], hooks(), None),
        (
            "git clean",
            &[],
            Fixed { config: vec![("clean.requireforce", "false")], ..Fixed::default() },
            Some("git clean -f"),
        ),
        (
            "git clean -n",
            &[],
            Fixed { config: vec![("clean.requireforce", "no")], ..Fixed::default() },
            None,
        ),
        (
            "git gc",
            &[],
            Fixed { config: vec![("gc.pruneexpire", "now")], ..Fixed::default() },
            Some("git gc --prune=now"),
        ),
        (
            "git push",
            &[],
            Fixed { config: vec![("remote.origin.push", "+main")], ..Fixed::default() },
            Some("git push"),
        ),
        (
            "git push other main",
            &[],
            Fixed { config: vec![("remote.origin.push", "+main")], ..Fixed::default() },
            None,
        ),
        (
            "git push",
            &[],
            Fixed { config: vec![("remote.origin.mirror", "true")], ..Fixed::default() },
            Some("git push"),
        ),
    ] {
        assert_eq!(what(line, env, &fixed).as_deref(), expected, "{line} {env:?}");
    }
}

#[test]
fn judge_allows_everything_in_scratch_repositories_but_forced_pushes() {
    let fixed = Fixed { scratch: true, ..Fixed::default() };
    assert_eq!(what("git reset --hard", &[], &fixed), None);
    assert_eq!(what("git commit -n", &[], &fixed), None);
    assert_eq!(what("git push -f", &[], &fixed).as_deref(), Some("git push --force"));
}

#[test]
fn judge_allows_the_calls_that_git_makes_to_itself() {
    for (caller, line, allowed) in [
        ("git stash push", "/usr/lib/git-core/git reset --hard -q", true),
        ("git stash -u", "/usr/lib/git-core/git clean --force --quiet -d", true),
        ("git worktree add x", "/usr/lib/git-core/git reset --hard", true),
        ("git bisect good", "/usr/lib/git-core/git checkout -q abc --", true),
        ("git submodule--helper update", "/usr/lib/git-core/git checkout -q abc", true),
        ("git submodule--helper foreach x", "/usr/lib/git-core/git checkout .", false),
        ("git stash push", "git reset --hard", false),
        ("git wipe", "/usr/lib/git-core/git reset --hard", false),
        ("git bisect run x", "git checkout .", false),
        ("git rebase -x 'git reset --hard' main", "git reset --hard", false),
    ] {
        let fixed = Fixed { caller: Some(caller), ..Fixed::default() };
        assert_eq!(what(line, &[], &fixed).is_none(), allowed, "{caller}: {line}");
    }
}

fn word() -> impl Strategy<Value = OsString> {
    let known = prop::sample::select(vec![
        "git",
        "-c",
        "-C",
        "--",
        "--hard",
        "reset",
        "clean",
        "commit",
        "stash",
        "push",
        "branch",
        "wipe",
        "-m",
        "--no-",
        "--no",
        "--config-env",
        "switch",
        "gc",
        "--prune=",
        "reflog",
        "worktree",
        "drop",
        "+",
        ":",
    ]);
    prop_oneof![
        known.prop_map(OsString::from),
        prop::collection::vec(1u8.., 0..12).prop_map(std::os::unix::ffi::OsStringExt::from_vec),
        "-{1,2}[a-zA-Z=-]{0,12}".prop_map(OsString::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judge_never_panics(
        argv in prop::collection::vec(word(), 0..8),
        env in prop::collection::btree_map(word(), word(), 0..3),
        expansion in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        let fixed = Fixed { config: vec![("alias.wipe", "wipe -c x reset")], ..Fixed::default() };
        let _ = judge(&argv, &env, &fixed);
        let _ = with_extra(&argv, vec!["-p".into()]);
        let _ = alias::split(&expansion);
    }

    #[test]
    fn judge_refuses_a_hard_reset_behind_any_harmless_word(extra in "[a-z]{1,8}") {
        let line = format!("git -C {extra} -c a.b={extra} reset -q {extra} --hard");
        prop_assert!(what(&line, &[], &Fixed::default()).is_some());
    }
}
