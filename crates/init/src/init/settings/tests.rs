//! Tests over tables of environments.

use crate::boot::tests::with_situation;

use super::*;

const PASSWD: &[u8] = b"root:x:0:0::/root:/bin/sh\noctobot:x:1001:1001::/home/octobot:/bin/bash\nagent:x:1000:1000::/var/agent:/bin/sh\n../x:x:5:5::/:/bin/sh\n";

fn decided(entries: &[&str], words: &[&str], uid: u32) -> Result<Settings, String> {
    with_situation(entries, words, uid, PASSWD, decide).map_err(|error| error.to_string())
}

#[test]
fn decide_takes_the_documented_places_when_only_the_session_is_set() {
    let settings = decided(&["SESSION_ID=s1"], &[], 0).unwrap();
    assert_eq!(settings.paths.base, PathBuf::from("/.data/octobot"));
    assert_eq!(settings.paths.home, PathBuf::from("/home/octobot"));
    assert_eq!(settings.workdir, PathBuf::from("/home/octobot/workspace"));
    assert_eq!((settings.cow, settings.docker), (Cow::Agentfs, Docker::AllUsers));
    assert_eq!(settings.grace, Duration::from_secs(10));
    assert!(settings.agent.is_none() && settings.workspace.is_none());
}

#[test]
fn decide_refuses_session_names_that_could_be_paths() {
    let long = format!("SESSION_ID={}", "x".repeat(129));
    for entry in [
        "X=1",
        "SESSION_ID=",
        "SESSION_ID=../x",
        "SESSION_ID=a/b",
        "SESSION_ID=.x",
        "SESSION_ID=-x",
        "SESSION_ID=a b",
        "SESSION_ID=ü",
        &long,
    ] {
        assert!(decided(&[entry], &[], 0).is_err(), "{entry}");
    }
    let longest = format!("SESSION_ID={}", "x".repeat(128));
    for entry in ["SESSION_ID=a", "SESSION_ID=0b5c.x_y-Z", &longest] {
        assert!(decided(&[entry], &[], 0).is_ok(), "{entry}");
    }
}

#[test]
fn decide_refuses_users_that_are_unknown_or_root_or_differ() {
    for (user, uid, fine) in [
        ("agent", 0, true),
        ("1000", 0, true),
        ("agent", 1000, true),
        ("octobot", 1000, false),
        ("absent", 0, false),
        ("4242", 0, false),
        ("root", 0, false),
        ("../x", 0, false),
    ] {
        let entry = format!("AGENT_USER={user}");
        assert_eq!(decided(&["SESSION_ID=s", &entry], &[], uid).is_ok(), fine, "{user} by {uid}");
    }
}

#[test]
fn places_follow_the_user_and_the_engine() {
    let settings =
        decided(&["SESSION_ID=s", "AGENT_USER=agent", "AGENT_COW=none"], &[], 0).unwrap();
    assert_eq!(settings.paths.home, PathBuf::from("/.data/agent"), "the copy is the home");
    let entries: Vec<_> = settings.environment.entries().map(String::from_utf8_lossy).collect();
    assert!(entries.contains(&"HOME=/.data/agent".into()), "{entries:?}");
    assert!(!entries.iter().any(|entry| entry.starts_with("SESSION_ID")), "{entries:?}");
}

#[test]
fn agent_is_the_binary_else_the_command_else_our_own_words() {
    for (entries, words, expected) in [
        (&["AGENT_BINARY=b", "AGENT_COMMAND=c"][..], &["x"][..], Some(("b", &["x"][..]))),
        (&["AGENT_COMMAND=c"], &["x"], Some(("c", &["x"]))),
        (&["AGENT_COMMAND=c", "AGENT_ARGS=y"], &["x"], Some(("c", &["y"]))),
        (&[], &["x", "y"], Some(("x", &["y"]))),
        (&[], &[], None),
    ] {
        let entries: Vec<&str> = entries.iter().copied().chain(["SESSION_ID=s"]).collect();
        let found = decided(&entries, words, 0).unwrap().agent;
        let expected = expected.map(|(program, arguments)| CommandLine {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
        });
        assert_eq!(found, expected, "{entries:?}");
    }
}

#[test]
fn unknown_values_are_refused() {
    for entry in [
        "AGENT_COW=zfs",
        "AGENT_STOP_GRACE=soon",
        "AGENT_STOP_GRACE=-1",
        "AGENT_DOCKERD=yes",
        "AGENT_DOCKER_SOCKET=0666",
        "AGENT_ARGS_JSON={",
    ] {
        assert!(decided(&["SESSION_ID=s", "AGENT_COMMAND=c", entry], &[], 0).is_err(), "{entry}");
    }
    let fine = decided(&["SESSION_ID=s", "AGENT_STOP_GRACE=0", "AGENT_DOCKERD=off"], &[], 0);
    let fine = fine.unwrap();
    assert_eq!((fine.grace, fine.docker), (Duration::ZERO, Docker::Off));
}
