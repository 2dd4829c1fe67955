//! Commands that the agent types, and their results.

use serde_json::json;
use testkit::Signal;

use crate::stage::{Stage, denied, ends, until};

#[test]
fn routed_commands_run_on_the_host_with_their_words_as_they_are() {
    let stage = Stage::new();
    let container = stage.container(&["mytool", "git"]);
    container
        .host(["mytool", "a b", "", "$(id)", ";", "*", "äß\n"])
        .succeeds()
        .stdout("<a b><><$(id)><;><*><äß\n>\n");
    // The control: the container has no such program.
    container.clone().env("PATH", "/usr/bin:/bin").host(["sh", "-c", "mytool x"]).code(127);
}

#[test]
fn both_streams_and_the_exit_code_come_back() {
    let stage = Stage::new();
    let container = stage.container(&["mytool"]);
    container.host(["mytool", "both"]).succeeds().stdout("to-out\n").stderr("to-err\n");
    container.host(["mytool", "code", "7"]).code(7);
    container.host(["mytool", "die"]).code(137);
}

#[test]
fn input_is_streamed_both_ways() {
    let stage = Stage::new();
    let container = stage.container(&["mytool"]);
    let mut cat = container.start(["mytool", "cat"]);
    // One line returns before the next is sent.
    for line in ["one\n", "two\n"] {
        cat.send(line);
        cat.wait_for(line);
    }
    cat.wait().succeeds().stdout("one\ntwo\n");
    let script = "head -c 3000000 /dev/zero | mytool cat | wc -c; yes | mytool code 5; echo $?; mytool flood | head -n 1";
    container.host(["sh", "-c", script]).succeeds().stdout("3000000\n5\ny\n");
}

#[test]
fn signals_reach_the_command_behind_any_amount_of_input() {
    let stage = Stage::new();
    let container = stage.container(&["mytool"]);
    let trap = container.start(["mytool", "trap"]);
    trap.wait_for("ready");
    trap.signal(Signal::INT);
    trap.wait().code(3).stdout_contains("caught");
    // Unread input does not delay a signal.
    let full = container.start([
        "sh",
        "-c",
        "yes | { mytool trap & pid=$!; echo $pid > pid; wait $pid; }",
    ]);
    full.wait_for("ready");
    let pid = stage.pid_in("work/pid");
    container.host(["kill", "-TERM", &pid.to_string()]).succeeds();
    full.wait().code(143);
}

#[test]
fn every_signal_that_can_be_passed_on_is() {
    let stage = Stage::new();
    let container = stage.container(&["mytool"]);
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
        (Signal::CONT, "CONT"),
    ] {
        let trap = container.start(["mytool", "usr", name]);
        trap.wait_for("ready");
        trap.signal(signal);
        trap.wait().code(3).stdout_contains("caught");
    }
    // The control: a command that expects no signal ends by it.
    let wait = container.start(["mytool", "wait"]);
    wait.wait_for("pid");
    wait.signal(Signal::USR1);
    wait.wait().code(128 + 10);
}

#[test]
fn a_command_stops_and_goes_on_with_its_stand_in() {
    let stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let container = stage.container(&["mytool"]);
    let file = stage.world.path("stops").display().to_string();
    let stand_in =
        container.start(["sh", "-c", "echo $$ > inside; exec mytool stops \"$0\"", &file]);
    let (command, inside) = (stage.pid_in("stops"), stage.pid_in("work/inside"));
    stand_in.signal(Signal::TSTP);
    until("the command stops", || (state(command) == 'T').then_some(()));
    until("its stand-in stops", || (state(inside) == 'T').then_some(()));
    stand_in.signal(Signal::CONT);
    until("the command goes on", || (state(command) != 'T').then_some(()));
    until("its stand-in goes on", || (state(inside) != 'T').then_some(()));
    // A stopped command can still be ended.
    stand_in.signal(Signal::TSTP);
    until("the command stops", || (state(command) == 'T').then_some(()));
    stand_in.signal(Signal::KILL);
    ends(command);
    stand_in.wait();
}

/// Returns the kernel's letter for the state of a process (`proc_pid_stat(5)`).
fn state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

#[test]
fn the_working_directory_is_the_hosts_own_name_for_it() {
    let stage = Stage::new();
    let container = stage.container(&["mytool"]);
    let sub = container.clone().cwd("container/workspace/sub");
    sub.host(["mytool", "pwd"])
        .succeeds()
        .stdout(&format!("{}\n", stage.world.path("work/sub").display()));
    let file = stage.world.path("container/workspace/file").into_os_string();
    container.host(["mytool".into(), "read".into(), file]).succeeds().stdout("shared\n");
    let outside = container.clone().cwd("home");
    denied(
        outside.host(["mytool", "pwd"]),
        "mytool",
        "is not in a directory that the container shares",
    );
}

#[test]
fn what_is_not_routed_runs_in_the_container() {
    let stage = Stage::new();
    let container = stage.container(&["mytool", "git"]).git_init("work");
    // Both print the state of the same repository, and only one of them runs on the host.
    container.host(["git", "status", "--short"]).succeeds();
    assert_eq!(stage.audit(1).len(), 1);
    for line in [
        "git rev-parse --show-toplevel",
        "git -C . status",
        "env FOO=1 /usr/bin/git status",
        "FOO=1 git branch",
    ] {
        container.host(["sh", "-c", line]).succeeds();
    }
    container.host(["git", "rev-parse", "--show-toplevel"]).stdout_contains("container/workspace");
    assert_eq!(stage.audit(1).len(), 1);
}

#[test]
fn a_missing_program_says_so_on_either_side() {
    let stage = Stage::with(&json!({ "allowed": ["mytool run", "no-such-program-anywhere"] }));
    let container = stage.container(&["mytool", "no-such-program-anywhere"]);
    container
        .host(["mytool", "other"])
        .code(127)
        .stderr_contains("this use of `mytool` is not a host command");
    container
        .host(["no-such-program-anywhere"])
        .code(127)
        .stderr_contains("is not installed on the host");
}

#[test]
fn a_broker_that_is_gone_is_an_error_and_not_a_hang() {
    let mut stage = Stage::new();
    let container = stage.container(&["mytool"]);
    let wait = container.start(["mytool", "wait"]);
    wait.wait_for("pid");
    stage.stop(Signal::TERM);
    wait.wait().code(137);
    container.host(["mytool", "x"]).code(125).stderr_contains("cannot reach the host");
}
