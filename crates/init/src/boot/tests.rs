//! Tests over tables of environments, arguments and users.

use sandbox_protocol::variable;

use super::*;

const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/ash\nagent:x:1000:1000::/home/agent:/bin/bash\nbroken:x:one:1::/:/bin/sh\n";

/// Decides about these entries, without a uid of PID 1.
pub(crate) fn with_situation<T>(
    entries: &[&str],
    words: &[&str],
    uid: u32,
    passwd: &[u8],
    decide: impl Fn(&Situation<'_>) -> T,
) -> T {
    let environment = Environment::of(entries.iter().map(|entry| entry.as_bytes().to_vec()));
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    decide(&Situation { environment: &environment, words: &words, uid, passwd, init_uid: None })
}

fn decided(entries: &[&str], words: &[&str], uid: u32) -> Result<Boot, String> {
    with_situation(entries, words, uid, PASSWD, decide).map_err(|error| error.to_string())
}

fn texts(boot: &Boot) -> Vec<String> {
    boot.environment.entries().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

#[test]
fn decide_takes_seed_defaults_when_nothing_is_set() {
    let boot = decided(&[], &["cmd", "a"], 0).unwrap();
    assert_eq!(boot.workdir, PathBuf::from("/workspace"));
    assert_eq!(boot.identity, Identity::Become(user::find(PASSWD, "agent").unwrap()));
    assert!(!boot.strict);
    assert_eq!(
        boot.session,
        "session id not set, control plane url not set, session token not set"
    );
}

#[test]
fn decide_needs_a_command() {
    assert_eq!(decided(&["AGENT_COMMAND="], &[], 0).err().unwrap(), "no agent command given");
}

#[test]
fn identity_follows_the_user_and_how_strictly_it_is_wanted() {
    let agent = || Identity::Become(user::find(PASSWD, "agent").unwrap());
    let numeric = Identity::Become(user::find(PASSWD, "4242:43").unwrap());
    let unknown = |name: &str| Identity::Stay(Reason::NoUser(UserError::Unknown(name.into())));
    let broken = Identity::Stay(Reason::NoUser(UserError::Broken("broken".into())));
    for (wanted, uid, strict, expected) in [
        (None, 0, false, Some(agent())),
        (Some(""), 0, false, Some(agent())),
        (Some("agent"), 0, true, Some(agent())),
        (Some("1000:1000"), 0, true, Some(agent())),
        (Some("4242:43"), 0, true, Some(numeric)),
        (Some("absent"), 0, false, Some(unknown("absent"))),
        (Some("broken"), 0, false, Some(broken)),
        (Some("root"), 0, false, Some(Identity::Stay(Reason::RootWanted))),
        (Some("agent"), 1000, true, Some(Identity::Stay(Reason::NotRoot(1000)))),
        (Some("agent"), 1001, false, Some(Identity::Stay(Reason::NotRoot(1001)))),
        (Some("absent"), 1001, false, Some(Identity::Stay(Reason::NotRoot(1001)))),
        (Some("absent"), 0, true, None),
        (Some("absent"), 1000, true, None),
        (Some("broken"), 0, true, None),
        (Some("root"), 0, true, None),
        (Some("0"), 0, true, None),
        (Some("agent"), 1001, true, None),
    ] {
        let mut entries = vec!["AGENT_COMMAND=x".to_owned()];
        entries.extend(wanted.map(|wanted| format!("AGENT_USER={wanted}")));
        entries.extend(strict.then(|| "AGENT_REQUIRE_USER=1".to_owned()));
        let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
        let found = decided(&entries, &[], uid).ok().map(|boot| boot.identity);
        assert_eq!(found, expected, "{wanted:?} by {uid}, strict: {strict}");
    }
}

#[test]
fn environment_follows_the_user_where_it_was_missing_or_roots() {
    let agents = ["HOME=/home/agent", "USER=agent", "LOGNAME=agent", "SHELL=/bin/bash"];
    for (why, entries, uid, expected) in [
        ("missing", vec![], 0, agents.to_vec()),
        (
            "root's",
            vec!["HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/ash"],
            0,
            agents.to_vec(),
        ),
        ("empty", vec!["HOME=", "USER=", "LOGNAME=", "SHELL="], 0, agents.to_vec()),
        (
            "chosen",
            vec!["HOME=/data", "USER=bob", "LOGNAME=bob", "SHELL=/bin/zsh"],
            0,
            vec!["HOME=/data", "USER=bob", "LOGNAME=bob", "SHELL=/bin/zsh"],
        ),
        ("already the user", vec!["HOME=/root"], 1000, agents.to_vec()),
        (
            "a number without an entry",
            vec!["HOME=/root"],
            4242,
            vec!["HOME=/", "USER=4242", "LOGNAME=4242", "SHELL=/bin/sh"],
        ),
    ] {
        let boot = decided(&entries, &["cmd"], uid).unwrap();
        assert_eq!(texts(&boot), expected, "{why}");
    }
    let stays = decided(&["AGENT_USER=absent", "HOME=/root"], &["cmd"], 0).unwrap();
    assert_eq!(texts(&stays), ["HOME=/root"], "a process that stays root keeps root's variables");
}

#[test]
fn environment_has_nothing_of_ours_and_everything_else_in_order() {
    let ours: Vec<String> = variable::all().map(|name| format!("{name}=[\"x\"]")).collect();
    let mut entries: Vec<&str> = ours.iter().map(String::as_str).collect();
    let others = [
        "GITHUB_TOKEN=t",
        "HOME=/h",
        "USER=u",
        "LOGNAME=u",
        "SHELL=/s",
        "ANTHROPIC_BASE_URL=http://p",
    ];
    entries.splice(3..3, others);
    entries.extend(["SESSION_TOKEN=again", "Session_Id=x"]);
    let environment = Environment::of(entries.iter().map(|entry| entry.as_bytes().to_vec()));
    // The made-up user is unknown, which is an error because the switch is on.
    let situation = Situation {
        environment: &environment,
        words: &[],
        uid: 1000,
        passwd: PASSWD,
        init_uid: None,
    };
    let error = decide(&situation).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("required")), "the switch is on");
    entries.retain(|entry| !entry.starts_with("AGENT_REQUIRE_USER"));
    let boot = decided(&entries, &[], 1000).unwrap();
    assert_eq!(texts(&boot), others);
    assert_eq!(boot.session, "session id set, control plane url set, session token set");
}
