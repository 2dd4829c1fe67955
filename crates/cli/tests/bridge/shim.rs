//! What the agent types, and what comes of it.

use serde_json::json;
use testkit::Signal;

use crate::stage::{Stage, denied};

#[test]
fn routed_commands_run_on_the_host_with_their_words_as_they_are() {
    let stage = Stage::new();
    let container = stage.container(&["pipo", "git"]);
    container
        .host(["pipo", "a b", "", "$(id)", ";", "*", "äß\n"])
        .succeeds()
        .stdout("<a b><><$(id)><;><*><äß\n>\n");
    // The control: the container itself has no such program.
    container.clone().env("PATH", "/usr/bin:/bin").host(["sh", "-c", "pipo x"]).code(127);
}

#[test]
fn both_streams_and_the_exit_code_come_back() {
    let stage = Stage::new();
    let container = stage.container(&["pipo"]);
    container.host(["pipo", "both"]).succeeds().stdout("to-out\n").stderr("to-err\n");
    container.host(["pipo", "code", "7"]).code(7);
    container.host(["pipo", "die"]).code(137);
}

#[test]
fn input_is_streamed_both_ways() {
    let stage = Stage::new();
    let container = stage.container(&["pipo"]);
    let mut cat = container.start(["pipo", "cat"]);
    // One line comes back before the next is sent.
    for line in ["one\n", "two\n"] {
        cat.send(line);
        cat.wait_for(line);
    }
    cat.wait().succeeds().stdout("one\ntwo\n");
    let script = "head -c 3000000 /dev/zero | pipo cat | wc -c; yes | pipo code 5; echo $?; pipo flood | head -n 1";
    container.host(["sh", "-c", script]).succeeds().stdout("3000000\n5\ny\n");
}

#[test]
fn signals_reach_the_command_behind_any_amount_of_input() {
    let stage = Stage::new();
    let container = stage.container(&["pipo"]);
    let trap = container.start(["pipo", "trap"]);
    trap.wait_for("ready");
    trap.signal(Signal::INT);
    trap.wait().code(3).stdout_contains("caught");
    // Input that nobody reads does not hold a signal up.
    let full =
        container.start(["sh", "-c", "yes | { pipo trap & pid=$!; echo $pid > pid; wait $pid; }"]);
    full.wait_for("ready");
    let pid = stage.pid_in("work/pid");
    container.host(["kill", "-TERM", &pid.to_string()]).succeeds();
    full.wait().code(143);
}

#[test]
fn the_working_directory_is_the_hosts_own_name_for_it() {
    let stage = Stage::new();
    let container = stage.container(&["pipo"]);
    let sub = container.clone().cwd("container/workspace/sub");
    sub.host(["pipo", "pwd"])
        .succeeds()
        .stdout(&format!("{}\n", stage.world.path("work/sub").display()));
    let file = stage.world.path("container/workspace/file").into_os_string();
    container.host(["pipo".into(), "read".into(), file]).succeeds().stdout("shared\n");
    let outside = container.clone().cwd("home");
    denied(outside.host(["pipo", "pwd"]), "pipo", "lies in no directory that the container shares");
}

#[test]
fn what_is_not_routed_runs_in_the_container() {
    let stage = Stage::new();
    let container = stage.container(&["pipo", "git"]).git_init("work");
    // Both print the same repository's state; only one of them is asked of the host.
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
    let stage = Stage::with(&json!({ "allowed": ["pipo run", "no-such-program-anywhere"] }));
    let container = stage.container(&["pipo", "no-such-program-anywhere"]);
    container
        .host(["pipo", "other"])
        .code(127)
        .stderr_contains("this use of `pipo` is no host command");
    container
        .host(["no-such-program-anywhere"])
        .code(127)
        .stderr_contains("is not installed on the host");
}

#[test]
fn a_broker_that_is_gone_is_an_error_and_not_a_hang() {
    let mut stage = Stage::new();
    let container = stage.container(&["pipo"]);
    let wait = container.start(["pipo", "wait"]);
    wait.wait_for("pid");
    stage.stop(Signal::TERM);
    wait.wait().code(137);
    container.host(["pipo", "x"]).code(125).stderr_contains("cannot be asked");
}
