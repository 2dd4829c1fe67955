use std::path::Path;

use super::change::Step;
use super::judge::{By, State, judge};
use super::policy::{Bind, Fate, Line, Policy, Ruling, Said, Variable};
use super::*;
use crate::plan::View;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, Layer, Network, Tmp};
use sandbox_policy::path::Matched;

fn line(access: Access, path: &str, layer: Layer, origin: &str) -> Line {
    Line {
        access,
        pattern: path.to_owned(),
        path: path.into(),
        matched: Matched::Exact,
        layer,
        origin: origin.to_owned(),
    }
}

fn said<T>(value: T) -> Said<T> {
    Said { value, origin: "built-in default".into() }
}

fn policy(rules: Vec<Line>) -> Policy {
    let mut policy = Policy {
        cwd: "/h/p".into(),
        rules,
        missing: Vec::new(),
        home_overlay: Vec::new(),
        cow_roots: Vec::new(),
        mounts: Vec::new(),
        sockets: vec!["/h/p/s.sock".into()],
        covers: vec!["/usr/bin/curl".into()],
        copies: vec!["/etc/passwd".into()],
        commands: vec![Ruling {
            name: "curl".into(),
            rule: said(CommandRule::Block),
            targets: vec!["/usr/bin/curl".into()],
            outer: false,
        }],
        network: said(Network::On),
        egress: None,
        tmp: said(Tmp::Private),
        variables: vec![Variable {
            name: "TOKEN".into(),
            fate: Fate::Credential,
            origin: "preset @secrets".into(),
        }],
    };
    policy.sort();
    policy
}

fn usual() -> Policy {
    let mut policy = policy(vec![
        line(Access::Ro, "/h", Layer::Builtin, "preset @base"),
        line(Access::Exclude, "/h/.ssh", Layer::Builtin, "preset @base"),
        line(Access::Rw, "/h/p", Layer::Builtin, "preset @base"),
        line(Access::Ro, "/h/p/.git/config", Layer::Builtin, "preset @git"),
        line(Access::Exclude, "/h/p/x", Layer::Flags, "flag --exclude /h/p/x"),
        line(Access::Rw, "/h/p/x", Layer::Global, "/c:1"),
        line(Access::Exclude, "/run/docker.sock", Layer::Builtin, "preset @secrets"),
        line(Access::Rw, "/dev/fuse", Layer::Flags, "flag --rw /dev/fuse"),
    ]);
    policy.mounts = vec![Bind {
        source: "/data".into(),
        target: "/h/p/data".into(),
        view: View::ReadOnly,
        origin: "/c:2".into(),
    }];
    policy
}

fn host() -> Host {
    Host {
        cwd: Some("/".into()),
        home: Some("/h".into()),
        env: std::collections::BTreeMap::new(),
        exe: "/x".into(),
        uid: 1000,
        gid: 1000,
        inside: true,
    }
}

#[test]
fn judge_lets_the_longest_path_decide_and_special_files_before_it() {
    let policy = usual();
    let rule = By::Rule;
    for (path, state, by) in [
        ("/etc/hosts", State::ReadOnly, By::Root),
        ("/etc/passwd", State::ReadOnly, By::Copy),
        ("/h/docs/a", State::ReadOnly, rule.clone()),
        ("/h/.ssh/id", State::Hidden, rule.clone()),
        ("/h/.sshx", State::ReadOnly, rule.clone()),
        ("/h/p/src", State::Writable, rule.clone()),
        ("/h/p/.git/config", State::ReadOnly, rule.clone()),
        ("/h/p/x", State::Hidden, rule.clone()),
        ("/h/p/s.sock", State::Hidden, By::Socket),
        ("/usr/bin/curl", State::ReadOnly, By::Launcher { commands: vec!["curl".into()] }),
        ("/tmp/a", State::Own, By::OwnDir { dir: "/tmp" }),
        ("/run/docker.sock", State::Own, By::OwnDir { dir: "/run" }),
        ("/run/agent-sandbox/bin", State::Own, By::OwnDir { dir: "/run/agent-sandbox" }),
        ("/dev/fuse", State::Writable, rule),
        ("/proc/1/mem", State::Own, By::OwnDir { dir: "/proc" }),
    ] {
        let judged = judge(&policy, Path::new(path));
        assert_eq!((judged.state, judged.by), (state, by), "{path}");
    }
    let mounted = judge(&policy, Path::new("/h/p/data/a"));
    assert_eq!(mounted.state, State::ReadOnly);
    assert!(matches!(mounted.by, By::Mount { .. }));
}

#[test]
fn judge_names_the_rules_that_were_beaten_the_longest_first() {
    let judged = judge(&usual(), Path::new("/h/p/x/y"));
    let paths = |lines: &[Line]| -> Vec<String> {
        lines.iter().map(|line| format!("{} {}", line.access.word(), line.path.display())).collect()
    };
    assert_eq!(paths(&judged.lines), ["exclude /h/p/x", "rw /h/p/x"]);
    assert_eq!(paths(&judged.above), ["rw /h/p", "ro /h"]);
}

#[test]
fn steps_change_a_description_like_a_plan() {
    let ssh = line(Access::Exclude, "/h/.ssh", Layer::Builtin, "preset @base");
    let flag = line(Access::Exclude, "/h/p/x", Layer::Flags, "flag --exclude /h/p/x");
    let git = line(Access::Ro, "/h/p/.git/config", Layer::Builtin, "preset @git");
    for (why, steps, path, state) in [
        ("negated", vec![Step::Negate(ssh.clone())], "/h/.ssh/id", State::ReadOnly),
        (
            "negated and opened",
            vec![Step::Negate(ssh), Step::Add(Access::Rw, "~/.ssh".into(), "/h/.ssh".into())],
            "/h/.ssh/id",
            State::Writable,
        ),
        (
            "a stricter rule stays",
            vec![Step::Add(Access::Rw, "~/.ssh".into(), "/h/.ssh".into())],
            "/h/.ssh/id",
            State::Hidden,
        ),
        ("a flag is removed", vec![Step::Drop(flag.clone())], "/h/p/x", State::Writable),
        ("a flag is not negated", vec![Step::Negate(flag)], "/h/p/x", State::Hidden),
        ("rules for git stay", vec![Step::Negate(git)], "/h/p/.git/config", State::ReadOnly),
        (
            "unless git is off",
            vec![Step::PresetOff("@git".into())],
            "/h/p/.git/config",
            State::Writable,
        ),
        (
            "a mount's mode",
            vec![Step::Mode("/c:2".into(), Access::Rw)],
            "/h/p/data",
            State::Writable,
        ),
        (
            "a socket",
            vec![Step::Socket("s.sock".into(), "/h/p/s.sock".into())],
            "/h/p/s.sock",
            State::Writable,
        ),
    ] {
        let mut policy = usual();
        for step in &steps {
            step.apply_to_policy(&mut policy);
        }
        assert_eq!(judge(&policy, Path::new(path)).state, state, "{why}");
    }
}

#[test]
fn changes_are_equal_as_flags_and_in_a_file() {
    let global = line(Access::Ro, "a", Layer::Global, "/c:1");
    let project = line(Access::Ro, "a", Layer::Project, "/p:1");
    for (steps, flags, config, edit) in [
        (
            vec![Step::Negate(global), Step::Add(Access::Rw, "a".into(), "/a".into())],
            "--ro !a --rw a",
            r#"{"filesystem":{"ro":["!a"],"rw":["a"]}}"#,
            "",
        ),
        (vec![Step::Negate(project)], "--ro !a", "", "edit /p:1"),
        (
            vec![Step::Command("git".into(), CommandRule::Raw)],
            "--cmd git=true",
            r#"{"commands":{"git":true}}"#,
            "",
        ),
        (vec![Step::HostTmp], "", r#"{"tmp":"host"}"#, ""),
        (vec![Step::Network(Network::Off)], "--network=false", r#"{"network":false}"#, ""),
    ] {
        let change = Change::of("x", &steps).unwrap();
        assert_eq!(change.flags.join(" "), flags);
        assert_eq!(change.config.map(|config| config.to_string()).unwrap_or_default(), config);
        assert_eq!(change.edit.join(" "), edit);
    }
}

/// Writes descriptions of sandboxes into a directory, the innermost first.
fn write_levels(dir: &Path, levels: &[Policy]) {
    let mut at = dir.to_path_buf();
    for policy in levels {
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join(runtime::POLICY), serde_json::to_vec(policy).unwrap()).unwrap();
        fs::write(at.join("agent-sandbox"), "").unwrap();
        at.push("outer");
    }
}

#[test]
fn the_strictest_sandbox_decides_when_there_are_several() {
    let dir = tempfile::tempdir().unwrap();
    let mut outer = usual();
    outer.network.value = Network::Off;
    outer.rules.retain(|line| line.path != Path::new("/h/.ssh"));
    let inner = usual();
    write_levels(dir.path(), &[inner, outer]);
    let host = host();
    let explainer = Explainer::from_dir(&host, dir.path()).unwrap();
    let network = explainer.host("example.com").unwrap();
    assert_eq!((network.sandboxes, network.decided_by), (2, 2));
    assert_eq!(network.answer.network, Network::Off);
    let to: Vec<_> = network.answer.changes.iter().map(|change| change.to).collect();
    assert_eq!(to, ["on", "reachable"], "the inner sandbox permits it");
    let path = explainer.path("/h/.ssh/id".as_ref()).unwrap();
    assert_eq!((path.decided_by, path.answer.state), (1, State::Hidden));
    let to: Vec<_> = path.answer.changes.iter().map(|change| change.to).collect();
    assert_eq!(to, ["read-only"], "the outer sandbox does not permit writing");
}

#[test]
fn a_description_round_trips_when_names_are_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut policy = usual();
    policy.rules[0].path = Path::new(OsStr::from_bytes(b"/h/\xff")).into();
    let text = serde_json::to_vec(&policy).unwrap();
    assert_eq!(serde_json::from_slice::<Policy>(&text).unwrap(), policy);
}

#[test]
fn invalid_questions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_levels(dir.path(), &[usual()]);
    let host = host();
    let explainer = Explainer::from_dir(&host, dir.path()).unwrap();
    let long = "a".repeat(300);
    for name in [
        "",
        "a b",
        "a\0",
        "a\n",
        "\u{7f}",
        "http://a",
        "u@a",
        "bücher.example",
        "fe80::1%eth0",
        &long,
    ] {
        assert_eq!(explainer.host(name).unwrap_err().exit_code().code(), 2, "{name:?}");
    }
    for name in ["example.com", "::1", "[::1]", "10.0.0.1", "example.com:8443", "[::1]:80"] {
        assert!(explainer.host(name).is_ok(), "{name:?}");
    }
    for name in ["", ".", "..", "a/b", "@git", "a\0"] {
        assert!(explainer.command(name).is_err(), "{name:?}");
    }
    for name in ["", "A=B", "A\n"] {
        assert!(explainer.variable(name).is_err(), "{name:?}");
    }
    assert!(explainer.path("".as_ref()).is_err());
}

#[test]
fn a_sandbox_without_description_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let host = host();
    assert!(matches!(Explainer::from_dir(&host, dir.path()), Err(WhyError::Undescribed { .. })));
    fs::write(dir.path().join(runtime::POLICY), "").unwrap();
    assert!(matches!(Explainer::from_dir(&host, dir.path()), Err(WhyError::Undescribed { .. })));
}
