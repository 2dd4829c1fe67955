//! Selection of entries, and messages about them.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn only_the_beginning_of_a_request_decides(rest in prop::collection::vec("[a-z/=-]{1,6}", 0..4)) {
        let list = list(&["mytool run"]);
        let argv = |start: &[&str]| -> Vec<OsString> {
            start.iter().map(OsString::from).chain(rest.iter().map(OsString::from)).collect()
        };
        prop_assert!(judge(&list, &argv(&["mytool", "run"])).is_ok());
        for start in [&["mytool", "-v", "run"][..], &["run", "mytool"], &["/usr/bin/mytool", "run"], &["MYTOOL", "run"]] {
            prop_assert!(judge(&list, &argv(start)).is_err());
        }
    }
}

#[test]
fn the_longest_entry_decides() {
    let list = table(
        "allowed = ['mytool', { cmd = 'mytool deploy', args = 'none' }, { cmd = 'mytool log', args = ['-n', '*.log'] },
                    { cmd = 'mytool run', deny = ['--force*', '-f'] }]",
    );
    for (line, expected) in [
        ("mytool", true),
        ("mytool anything --at all", true),
        ("mytool deploy", true),
        ("mytool deploy now", false),
        ("mytool log", true),
        ("mytool log -n a.log", true),
        ("mytool log -n /etc/shadow", false),
        ("mytool run x", true),
        ("mytool run x --force=1", false),
        ("mytool run x -f", false),
        ("mytools", false),
        ("pip", false),
    ] {
        assert_eq!(passes(&list, line), expected, "{line}");
    }
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    for text in ["", " ", "-x", "a/b", "FOO=1 git", "a; b", "'a", "git *"] {
        assert!(Entry::parse(text).is_err(), "{text:?}");
    }
    for text in [
        "allowed = ['a', 'a']",
        "allowed = [{ cmd = 'a', timeout = 0 }]",
        "allowed = [{ cmd = 'a', cwd = 'x' }]",
        "allowed = [{ cmd = 'a', argz = 'any' }]",
        "allowed = [{ args = 'any' }]",
        "allowed = [1]",
        "alowed = []",
        "path = ['bin']",
        "parallel = 0",
        "mounts = [{ container = 'w', host = '/w' }]",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.toml");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(HostList::read(&path), Err(ListError::Wrong { .. })), "{text}");
    }
}

#[test]
fn denials_name_the_program_and_nothing_can_paint_over_them() {
    let list = list(&["git status"]);
    let denial = judge(&list, &words("git push")).unwrap_err();
    assert_eq!(
        denial.message(),
        "denied: git\nreason: only `git status` may be run, with the words in that order\n"
    );
    let denial = judge(&list, &["\x1b[2Jx".into()]).unwrap_err();
    assert!(denial.message().starts_with("denied: \\u{1b}[2Jx\n"));
}

#[test]
fn drift_tells_what_the_two_sides_do_not_share() {
    let container: Vec<Entry> =
        ["mytool", "git", "docker ps"].map(|text| Entry::parse(text).unwrap()).to_vec();
    let host = list(&["mytool", "git status", "make test"]);
    let expected = [
        Drift::Narrower { container: "git".into(), host: vec!["git status".into()] },
        Drift::NotOnHost("docker ps".into()),
        Drift::NotInContainer("make test".into()),
    ];
    assert_eq!(drift(&container, &host), expected);
    assert!(drift(&container, &list(&["mytool", "git", "docker"])).is_empty());
}
