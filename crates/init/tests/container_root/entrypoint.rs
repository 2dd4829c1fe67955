//! Tests of giving up root, which need root.

use std::fs;
use std::os::unix::fs::chown;

use crate::room::{Room, Start};

fn room() -> Room {
    Room::new(Start::Root)
}

const IDS: &str = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '";

fn ids(uid: u32, gid: u32, bounding: &str) -> String {
    let none = "0000000000000000";
    format!(
        "Uid: {uid} {uid} {uid} {uid}\nGid: {gid} {gid} {gid} {gid}\nGroups: {gid} \nCapInh: {none}\nCapPrm: {none}\n\
         CapEff: {none}\nCapBnd: {bounding}\nCapAmb: {none}\nNoNewPrivs: 1\n"
    )
}

const EMPTY: &str = "0000000000000000";

#[test]
fn root_becomes_the_agent_with_one_group_and_no_capability() {
    let groups = &["/usr/bin/setpriv", "--groups=0,4,24"];
    for (user, uid, gid) in [
        (None, 1000, 1000),
        (Some("agent"), 1000, 1000),
        (Some("octobot"), 1001, 1001),
        (Some("1001"), 1001, 1001),
        (Some("4242"), 4242, 4242),
        (Some("4242:4243"), 4242, 4243),
        (Some("agent:50"), 1000, 50),
    ] {
        let room = user.map_or_else(room, |user| room().env("AGENT_USER", user)).before(groups);
        room.env("AGENT_REQUIRE_USER", "1")
            .run(["/opt/entrypoint", "sh", "-c", IDS])
            .succeeds()
            .stdout(&ids(uid, gid, EMPTY))
            .stderr_lacks("warning");
    }
    room().before(groups).run(["sh", "-c", IDS]).succeeds().stdout_contains("Groups: 0 4 24");
}

#[test]
fn capabilities_for_the_change_are_enough() {
    let few = "--bounding-set=-all,+setuid,+setgid,+setpcap";
    let room = room().before(&["/usr/bin/setpriv", few, "--inh-caps=-all", "--ambient-caps=-all"]);
    room.run(["/opt/entrypoint", "sh", "-c", IDS]).succeeds().stdout(&ids(1000, 1000, EMPTY));
}

/// Without `CAP_SETPCAP` the bounding set cannot be emptied, but `no_new_privs` makes it ineffective.
#[test]
fn set_user_id_programs_give_nothing_back() {
    let no_pcap = "--bounding-set=-setpcap";
    let room = room().before(&["/usr/bin/setpriv", no_pcap]);
    fs::copy("/usr/bin/id", room.path("opt/id")).unwrap();
    room.mode("opt/id", 0o4755);
    room.run(["/opt/entrypoint", "/opt/id", "-u"]).succeeds().stdout("1000\n");
    let drop = ["/usr/bin/setpriv", "--reuid=1000", "--clear-groups", "/opt/id", "-u"];
    room.run(drop).succeeds().stdout("0\n");
}

#[test]
fn root_without_the_capabilities_ends_with_1() {
    for missing in ["setuid", "setgid"] {
        let room = room().before(&[
            "/usr/bin/setpriv",
            &format!("--bounding-set=-{missing}"),
            "--groups=0",
        ]);
        room.run(["/opt/entrypoint", "echo", "ran"])
            .code(1)
            .stdout("")
            .stderr_contains("hint: start the container as the agent's user, or as root with the capabilities SETUID");
    }
}

#[test]
fn user_with_all_capabilities_dropped_needs_none() {
    let room = Room::new(Start::Root).before(&[
        "/usr/bin/setpriv",
        "--bounding-set=-all",
        "--reuid=1000",
        "--regid=1000",
        "--clear-groups",
    ]);
    room.env("AGENT_REQUIRE_USER", "1")
        .run(["/opt/entrypoint", "sh", "-c", IDS])
        .succeeds()
        .stdout(&ids(1000, 1000, EMPTY).replace("Groups: 1000 ", "Groups: "));
}

#[test]
fn inherited_and_ambient_capabilities_are_gone() {
    let caps = [
        "/usr/bin/setpriv",
        "--reuid=1000",
        "--clear-groups",
        "--inh-caps=+net_raw,+setpcap",
        "--ambient-caps=+net_raw,+setpcap",
    ];
    let room = room().before(&caps);
    room.run(["/opt/entrypoint", "sh", "-c", IDS]).succeeds().stdout_contains("CapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nCapAmb: 0000000000000000");
    room.run(["sh", "-c", IDS]).succeeds().stdout_lacks("CapAmb: 0000000000000000");
}

#[test]
fn unknown_user_is_a_warning_or_when_required_the_end() {
    for user in ["absent-user", "broken", "1000:staff", "-1"] {
        let room = room().env("AGENT_USER", user);
        room.run(["/opt/entrypoint", "sh", "-c", IDS])
            .succeeds()
            .stdout_contains("Uid: 0 0 0 0")
            .stdout_contains("CapEff: 0000000000000000")
            .stderr_contains("continuing as root");
        room.env("AGENT_REQUIRE_USER", "1")
            .run(["/opt/entrypoint", "echo", "ran"])
            .code(1)
            .stdout("")
            .stderr_contains("the agent's user is required");
    }
    room()
        .env("AGENT_USER", "root")
        .run(["/opt/entrypoint", "id", "-u"])
        .succeeds()
        .stderr_contains("the agent's user is root");
    room()
        .env("AGENT_USER", "0:0")
        .env("AGENT_REQUIRE_USER", "1")
        .run(["/opt/entrypoint", "id"])
        .code(1);
}

#[test]
fn home_follows_the_user_unless_an_operator_chose_it() {
    let look = ["/opt/entrypoint", "sh", "-c", "echo $HOME $USER $LOGNAME $SHELL"];
    let roots = room().env("HOME", "/root").env("USER", "root").env("LOGNAME", "root");
    roots.run(look).succeeds().stdout("/home/agent agent agent /bin/bash\n");
    room().run(look).succeeds().stdout("/home/agent agent agent /bin/bash\n");
    let chosen =
        room().env("HOME", "/tmp").env("USER", "u").env("LOGNAME", "l").env("SHELL", "/bin/zsh");
    chosen.run(look).succeeds().stdout("/tmp u l /bin/zsh\n");
    room().env("AGENT_USER", "4242").run(look).succeeds().stdout("/ 4242 4242 /bin/sh\n");
}

#[test]
fn working_directory_is_judged_as_the_agent() {
    let room = room();
    fs::create_dir(room.path("of-root")).unwrap();
    room.mode("of-root", 0o700);
    let strict = |room: &Room| room.clone().env("AGENT_REQUIRE_USER", "1");
    let enters = room.clone().env("AGENT_WORKDIR", "/of-root");
    enters
        .run(["/opt/entrypoint", "echo", "ran"])
        .succeeds()
        .stderr_contains("cannot use the working directory");
    strict(&enters).run(["/opt/entrypoint", "echo", "ran"]).code(1).stdout("");
    // The reverse: root without capabilities cannot enter, but the agent can.
    room.mode("workspace", 0o700);
    let weak = room.before(&["/usr/bin/setpriv", "--bounding-set=-all,+setuid,+setgid,+setpcap"]);
    strict(&weak)
        .run(["/opt/entrypoint", "pwd"])
        .succeeds()
        .stdout("/workspace\n")
        .stderr_lacks("warning");
}

#[test]
fn program_is_looked_for_as_the_agent() {
    let room = room();
    room.program("opt/secret", "#!/bin/sh\necho ran\n");
    room.mode("opt/secret", 0o700);
    room.run(["/opt/entrypoint", "secret"]).code(1).stderr_contains("not executable for this user");
    chown(room.path("opt/secret"), Some(1000), None).unwrap();
    room.run(["/opt/entrypoint", "secret"]).succeeds().stdout("ran\n");
}

#[test]
fn control_file_of_another_user_is_refused_and_roots_is_taken() {
    let room = room().env("AGENT_CONTROL_FILE", "/run/control/file");
    room.write("run/control/file", "SESSION_TOKEN=hush\n");
    room.mode("run/control/file", 0o600);
    chown(room.path("run/control/file"), Some(1000), Some(1000)).unwrap();
    room.run(["/opt/entrypoint", "echo", "ran"])
        .code(1)
        .stdout("")
        .stderr_contains("belongs to another user");
    chown(room.path("run/control/file"), Some(0), Some(0)).unwrap();
    room.run(["/opt/entrypoint", "ls", "/run/control"])
        .succeeds()
        .stdout("")
        .stderr_contains("session token set");
}

/// While secrets are in memory, no process of the same user may read them, and no core dump may contain them.
#[test]
fn memory_is_closed_until_the_agent_takes_over() {
    testkit::need("strace");
    let room = Room::new(Start::As(1000)).env("SESSION_TOKEN", "hush");
    let strace =
        ["/usr/bin/strace", "-o", "/tmp/trace", "-e", "trace=prctl,prlimit64,execve,close_range"];
    room.clone().before(&strace).run(["/opt/entrypoint", "true"]).succeeds();
    let trace = fs::read_to_string(room.path("tmp/trace")).unwrap();
    let at = |text: &str| trace.find(text).unwrap_or_else(|| panic!("no {text} in\n{trace}"));
    assert!(at("execve(\"/opt/entrypoint\"") < at("RLIMIT_CORE, {rlim_cur=0"));
    // The tracer cannot read the arguments of `execve` any more, so it prints addresses.
    assert!(at("PR_SET_DUMPABLE, SUID_DUMP_DISABLE") < at("execve(0x"));
    assert!(!trace.contains("execve(\"/usr/bin/true\""), "{trace}");
}
