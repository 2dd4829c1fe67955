//! Tests of signals, exit codes and orphans, as the agent's user.

use std::fs;
use std::time::{Duration, Instant};

use testkit::{CTRL_C, Process, Signal, rounds};

use crate::room::{Room, Start, pid_1, signal};

fn room() -> Room {
    let room = Room::new(Start::As(1000));
    room.give(".data", 1000);
    room.env("SESSION_ID", "s1").env("AGENT_USER", "agent").env("AGENT_COW", "none")
}

/// Starts a shell script under `init` and waits until it prints `ready`.
fn ready(room: &Room, script: &str) -> Process {
    let process = room.start(["/opt/init", "sh", "-c", script]);
    process.wait_for("ready\n");
    process
}

#[test]
fn exit_code_is_the_agents_or_that_of_its_signal() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
    ] {
        room().run(["/opt/init", "sh", "-c", script]).code(code);
    }
}

#[test]
fn agent_without_handlers_ends_at_once() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::QUIT, 131)] {
        // With a long grace period, the test would time out if it were used up.
        let process = ready(&room().env("AGENT_STOP_GRACE", "1000"), "echo ready; exec sleep 1000");
        signal(&process, sent);
        process.wait().code(code);
    }
}

#[test]
fn agent_that_ignores_the_end_is_killed_with_all_it_started() {
    let script = "trap '' TERM; setsid sleep 1000 & (trap '' TERM INT; sleep 1000) & echo ready; while :; do sleep 1; done";
    let process = ready(&room().env("AGENT_STOP_GRACE", "1"), script);
    signal(&process, Signal::TERM);
    process.wait().code(137).stderr_contains("killing all processes");
}

#[test]
fn agent_that_ends_in_time_keeps_its_code() {
    let process = ready(&room(), "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    signal(&process, Signal::TERM);
    process.wait().code(3);
}

#[test]
fn other_signals_are_passed_on_and_end_nothing() {
    let names = ["HUP", "USR1", "USR2", "WINCH", "CONT", "TSTP"];
    // Not a shell: it would wait forever for its stopped child.
    let script = "import os, signal, sys
for name in sys.argv[1:]:
    signal.signal(getattr(signal, 'SIG' + name), lambda number, _: os.write(1, signal.Signals(number).name.encode() + b'\\n'))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
print('ready', flush=True)
while True: signal.pause()";
    let line = ["/opt/init", "/usr/bin/python3", "-c", script].into_iter().chain(names);
    let process = room().start(line);
    process.wait_for("ready\n");
    let sent = [Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP];
    for (name, sent) in names.iter().zip(sent) {
        signal(&process, sent);
        process.wait_for(&format!("SIG{name}\n"));
    }
    signal(&process, Signal::TERM);
    process.wait().code(4);
}

#[test]
fn signals_reach_the_agents_whole_group() {
    let process = ready(
        &room(),
        "trap : USR1; sh -c 'trap \"echo grandchild\" USR1; echo ready; while :; do sleep 0.05; done'; :",
    );
    signal(&process, Signal::USR1);
    process.wait_for("grandchild\n");
}

#[test]
fn what_the_agent_leaves_behind_ends_with_it() {
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & sh -c 'trap \"\" TERM; while :; do sleep 1; done' & exit 5";
    room().run(["/opt/init", "sh", "-c", script]).code(5);
}

/// Creates orphans: ten thousand in `./dev soak`, fewer otherwise.
#[test]
fn orphans_are_reaped_however_many_end_at_once() {
    let count = rounds(2000, 10_000);
    let storm = format!(
        "import os
for _ in range({count}):
    if (child := os.fork()) == 0:
        if os.fork() == 0: os._exit(3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print('ready', flush=True)
input()
os._exit(9)"
    );
    let mut process = room().start(["/opt/init", "/usr/bin/python3", "-c", &storm]);
    process.wait_for("ready\n");
    let deadline = Instant::now() + Duration::from_secs(60);
    while zombies(&process) > 0 {
        assert!(Instant::now() < deadline, "{} zombies", zombies(&process));
        std::thread::sleep(Duration::from_millis(10));
    }
    process.send("\n");
    process.wait().code(9);
}

/// Returns the number of zombies among the children of PID 1.
fn zombies(process: &Process) -> usize {
    let pid = pid_1(process);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_zombie = |child: &&str| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
    };
    children.split_whitespace().filter(is_zombie).count()
}

/// The agent exits together with orphans. Its exit code must not be confused with theirs.
#[test]
fn no_exit_code_is_lost_among_orphans() {
    let script = "i=0
while [ $i -lt 500 ]; do
  code=$((i % 250))
  /opt/init sh -c \"(true &) ; (exit 3 &) ; (true &) ; exit $code\" 2>/dev/null
  [ $? = $code ] || { echo lost $i; exit 1; }
  i=$((i + 1))
done
echo $i";
    room().run(["sh", "-c", script]).succeeds().stdout("500\n");
}

#[test]
fn without_a_command_it_waits_and_ends_when_asked() {
    let process = room().start(["/opt/init"]);
    process.wait_for_message("no agent command");
    signal(&process, Signal::HUP);
    signal(&process, Signal::TERM);
    process.wait().code(143);
}

#[test]
fn set_up_that_fails_ends_with_1_and_says_the_step_and_a_hint() {
    let start = |room: Room| room.run(["/opt/init", "echo", "ran"]).code(1).stdout("");
    start(room().without_env("SESSION_ID")).stderr_contains("hint: set SESSION_ID");
    start(room().without_env("SESSION_ID").env("SESSION_ID", "../x"))
        .stderr_contains("invalid SESSION_ID");
    start(room().env("AGENT_WORKDIR", "/gone"))
        .stderr_contains("the agent's start failed: cannot enter `/gone`");
    start(room().without_env("AGENT_USER").env("AGENT_USER", "absent-user"))
        .stderr_contains("is not in /etc/passwd");
    start(room().env("AGENT_COMMAND", "nothing-here"))
        .stderr_contains("`nothing-here` is not found in PATH");
    let full = room();
    full.write(".data/agent", "in the way");
    start(full)
        .stderr_contains("[init] error: the base home failed: `/.data/agent` is not a directory");
}

#[test]
fn debug_hold_keeps_a_failed_container_until_a_signal() {
    let process = room()
        .env("AGENT_WORKDIR", "/gone")
        .env("AGENT_DEBUG_HOLD", "1")
        .start(["/opt/init", "true"]);
    process.wait_for_message("AGENT_DEBUG_HOLD is set");
    signal(&process, Signal::HUP);
    signal(&process, Signal::TERM);
    process.wait().code(1);
}

#[test]
fn agent_has_its_own_environment_and_directory() {
    let run = room()
        .env("SESSION_TOKEN", "hush")
        .env("HOME", "/root")
        .env("KEPT", "1")
        .env("AGENT_STOP_GRACE", "3")
        .run(["/opt/init", "sh", "-c", "pwd; env | sort | grep -v '^_\\|^PWD\\|^OLDPWD\\|^SHLVL'"])
        .succeeds()
        .stderr_lacks("hush");
    let path = crate::room::PATH;
    run.stdout(&format!(
        "/.data/agent/workspace\nHOME=/.data/agent\nKEPT=1\nLOGNAME=agent\nPATH={path}\nSHELL=/bin/bash\nUSER=agent\n"
    ));
}

#[test]
fn control_file_that_the_agent_could_read_is_refused() {
    let room = room().env("AGENT_CONTROL_FILE", "/run/control/file");
    room.write("run/control/file", "SESSION_TOKEN=hush\n");
    room.mode("run/control/file", 0o600);
    room.give("run/control", 1000);
    room.run(["/opt/init", "echo", "ran"])
        .code(1)
        .stdout("")
        .stderr_contains("could read it")
        .stderr_lacks("hush");
}

#[test]
fn agent_has_the_terminal_and_its_keys() {
    let script =
        "trap 'echo got-int; exit 3' INT; read line; echo line-$line; while :; do sleep 0.05; done";
    let mut terminal = room().terminal(["/opt/init", "sh", "-c", script]);
    terminal.wait_for("the workspace link");
    terminal.enter("typed");
    terminal.wait_for("line-typed");
    terminal.keys(CTRL_C);
    terminal.wait_for("got-int");
    terminal.wait().code(3);
}

#[test]
fn child_dies_with_a_parent_that_is_killed() {
    // Not as PID 1, whose end kills all processes in the namespace. Only the parent-death signal ends the agent here.
    let script = "/opt/init sh -c 'trap \"echo asked-to-end; exit\" TERM; echo ready; while :; do sleep 0.05; done' &
        init=$!; read go; kill -KILL $init; wait; read end";
    let mut process = room().start(["sh", "-c", script]);
    process.wait_for("ready\n");
    process.send("go\n");
    process.wait_for("asked-to-end\n");
}
