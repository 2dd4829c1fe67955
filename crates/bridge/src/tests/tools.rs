//! Tools with additional rules.

use super::*;

#[test]
fn tools_that_run_anything_pass_only_when_that_is_accepted() {
    let plain = list(&[
        "bash",
        "env",
        "sudo",
        "xargs",
        "python3",
        "sudo -u",
        "bash -c",
        "sudo mytool",
        "bash /opt/x.sh",
        "sudo git status",
    ]);
    for (line, expected) in [
        ("bash x", false),
        ("env mytool", false),
        ("sudo -s", false),
        ("xargs rm", false),
        ("python3 -c x", false),
        ("sudo -u root id", false),
        ("bash -c id", false),
        ("sudo mytool x", true),
        ("bash /opt/x.sh y", true),
        ("sudo git status", true),
        ("sudo git status --output=/x", false),
    ] {
        assert_eq!(passes(&plain, line), expected, "{line}");
    }
    let accepted = table("allowed = [{ cmd = 'bash', risk = 'accepted' }]");
    assert!(passes(&accepted, "bash -c id"));
    assert_eq!(warnings(&accepted.allowed).len(), 1);
    assert_eq!(warnings(&plain.allowed).len(), 8);
    assert!(warnings(&list(&["mytool", "git status", "docker ps"]).allowed).is_empty());
    assert!(warnings(&list(&["docker run"]).allowed)[0].what.contains("root"));
}

#[test]
fn tools_behind_other_tools_have_their_rules_too() {
    let list = list(&[
        "timeout 60",
        "timeout 60 find",
        "timeout -k 5 60 mytool",
        "env A=1",
        "env A=1 find",
        "env -S find",
        "nice -n 5 find",
        "sudo -u deploy",
        "sudo -nu deploy find",
        "sudo --user deploy git diff",
        "sudo -u deploy -- mytool",
        "xargs find",
        "watch mytool",
        "nohup bash",
        "unshare -r mytool",
    ]);
    for (line, expected) in [
        ("timeout 60 sh -c id", false),
        ("timeout 60 find . -name x", true),
        ("timeout 60 find . -exec id ';'", false),
        ("timeout -k 5 60 mytool x", true),
        ("env A=1 sh -c id", false),
        ("env A=1 find . -delete", false),
        ("env -S find .", false),
        ("nice -n 5 find .", true),
        ("nice -n 5 find . -exec id ';'", false),
        ("sudo -u deploy sh", false),
        ("sudo -nu deploy find .", true),
        ("sudo -nu deploy find . -exec id ';'", false),
        ("sudo --user deploy git diff --stat", true),
        ("sudo --user deploy git diff --output=x", false),
        ("sudo -u deploy -- mytool x", true),
        ("xargs find .", false),
        ("watch mytool ';id'", false),
        ("nohup bash -c id", false),
        ("unshare -r mytool", false),
    ] {
        assert_eq!(passes(&list, line), expected, "{line}");
    }
    let git = judge(&list, &words("sudo --user deploy git diff")).unwrap();
    assert_eq!(git.git, Some(3));
    assert_eq!(git.argv[3..6], ["git", "--no-pager", "diff"]);
}

#[test]
fn git_gets_settings_that_outrank_those_of_the_repository() {
    let list = list(&["git diff"]);
    let allowed = judge(&list, &words("git diff x")).unwrap();
    let hardened = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "x"];
    assert_eq!(allowed.argv[..3], ["git", "--no-pager", "diff"]);
    assert_eq!(allowed.argv[3..], hardened);
    let value = |name: &str| {
        allowed.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(value("GIT_CONFIG_KEY_0"), Some("core.fsmonitor"));
    assert_eq!(value("GIT_CONFIG_VALUE_0"), Some("false"));
    assert_eq!(allowed.git, Some(0));
    assert!(!allowed.enters_submodules());
    let list = super::list(&["git add"]);
    assert!(judge(&list, &words("git add -u")).unwrap().enters_submodules());
}
