//! Selection of entries, and messages about them.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn only_the_beginning_of_a_request_decides(rest in prop::collection::vec("[a-z/=-]{1,6}", 0..4)) {
        let list = list(&["pipo run"]);
        let argv = |start: &[&str]| -> Vec<OsString> {
            start.iter().map(OsString::from).chain(rest.iter().map(OsString::from)).collect()
        };
        prop_assert!(judge(&list, &argv(&["pipo", "run"])).is_ok());
        for start in [&["pipo", "-v", "run"][..], &["run", "pipo"], &["/usr/bin/pipo", "run"], &["PIPO", "run"]] {
            prop_assert!(judge(&list, &argv(start)).is_err());
        }
    }
}

#[test]
fn the_longest_entry_decides() {
    let list = table(
        "allowed = ['pipo', { cmd = 'pipo deploy', args = 'none' }, { cmd = 'pipo log', args = ['-n', '*.log'] },
                    { cmd = 'pipo run', deny = ['--force*', '-f'] }]",
    );
    for (line, expected) in [
        ("pipo", true),
        ("pipo anything --at all", true),
        ("pipo deploy", true),
        ("pipo deploy now", false),
        ("pipo log", true),
        ("pipo log -n a.log", true),
        ("pipo log -n /etc/shadow", false),
        ("pipo run x", true),
        ("pipo run x --force=1", false),
        ("pipo run x -f", false),
        ("pipos", false),
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
        ["pipo", "git", "docker ps"].map(|text| Entry::parse(text).unwrap()).to_vec();
    let host = list(&["pipo", "git status", "make test"]);
    let expected = [
        Drift::Narrower { container: "git".into(), host: vec!["git status".into()] },
        Drift::NotOnHost("docker ps".into()),
        Drift::NotInContainer("make test".into()),
    ];
    assert_eq!(drift(&container, &host), expected);
    assert!(drift(&container, &list(&["pipo", "git", "docker"])).is_empty());
}
