//! Signals, exit codes and terminals. A run leaves nothing behind.

use std::time::{Duration, Instant};

use testkit::{CTRL_C, CTRL_Z, Signal, World, need};

use crate::git::assert_gone;
use crate::probe::sh;

/// Returns a number of seconds for `sleep` that no other process has in its command line.
fn unique(test: u32) -> String {
    format!("{}.{test}", 5_000_000 + std::process::id())
}

#[test]
fn exit_codes_pass_and_signals_count_from_128() {
    let world = World::new();
    for code in [0, 1, 4, 42, 125, 126, 127, 200, 255] {
        world.run(sh(&format!("exit {code}"))).code(code);
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("INT", 130), ("HUP", 129)]
    {
        world.run(sh(&format!("kill -{signal} $$"))).code(code);
    }
}

#[test]
fn signals_to_the_supervisor_reach_the_command() {
    for (signal, name, code) in [
        (Signal::INT, "INT", 130),
        (Signal::TERM, "TERM", 143),
        (Signal::HUP, "HUP", 129),
        (Signal::QUIT, "QUIT", 131),
    ] {
        let world = World::new();
        let traps =
            format!("trap 'echo got {name}; exit 5' {name}; echo up; while :; do sleep 0.05; done");
        let run = world.spawn(sh(&traps));
        run.wait_for("up");
        run.signal(signal);
        run.wait().code(5).stdout(&format!("up\ngot {name}\n"));

        let run = world.spawn(sh("echo up; exec sleep 60"));
        run.wait_for("up");
        run.signal(signal);
        run.wait().code(code);
    }
}

#[cfg(feature = "setup")]
#[test]
fn command_that_ignores_the_end_is_killed_after_its_grace() {
    let sleep = unique(1);
    let run =
        World::new().spawn(sh(&format!("trap '' TERM; echo up; sleep {sleep}; sleep {sleep}")));
    run.wait_for("up");
    let start = Instant::now();
    run.signal(Signal::TERM);
    run.wait().code(137);
    let took = start.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(15), "{took:?}");
    assert_gone(&sleep);
}

#[test]
fn command_may_clean_up_within_its_grace() {
    let run = World::new().spawn(sh(
        "trap 'sleep 1; echo cleaned; exit 9' TERM; echo up; while :; do sleep 0.05; done",
    ));
    run.wait_for("up");
    run.signal(Signal::TERM);
    run.wait().code(9).stdout("up\ncleaned\n");
}

#[test]
fn second_request_kills_at_once() {
    let run =
        World::new().spawn(sh("trap 'echo first' TERM; echo up; while :; do sleep 0.05; done"));
    run.wait_for("up");
    let start = Instant::now();
    run.signal(Signal::TERM);
    run.wait_for("first");
    run.signal(Signal::TERM);
    run.wait().code(137);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn interrupt_key_lets_the_command_clean_up_and_keep_its_code() {
    let cleanup =
        "trap 'sleep 0.5; echo cleaned; exit 7' INT; echo up; while :; do sleep 0.05; done";
    let mut terminal = World::new().terminal(sh(cleanup));
    terminal.wait_for("up");
    terminal.keys(CTRL_C);
    terminal.wait_for("cleaned");
    terminal.wait().code(7);
}

#[test]
fn interrupt_key_that_the_command_handles_does_not_end_it() {
    let world = World::new();
    let script = "trap 'echo again' INT; echo up; while ! [ -e stop ]; do sleep 0.05; done; exit 3";
    let mut terminal = world.terminal(sh(script));
    terminal.wait_for("up");
    for _ in 0..3 {
        terminal.keys(CTRL_C);
        terminal.wait_for("again");
    }
    world.write("project/stop", "");
    terminal.wait().code(3);
}

#[test]
fn interrupt_key_ends_a_command_that_does_not_handle_it() {
    let mut terminal = World::new().terminal(sh("echo up; exec sleep 60"));
    terminal.wait_for("up");
    terminal.keys(CTRL_C);
    terminal.wait().code(130);
}

#[cfg(feature = "setup")]
#[test]
fn killed_supervisor_leaves_no_process() {
    let sleep = unique(2);
    let script = format!(
        "setsid sleep {sleep} & (sleep {sleep} &); nohup sleep {sleep} >/dev/null 2>&1 & echo up; trap '' TERM HUP INT; while :; do sleep {sleep}; done"
    );
    let run = World::new().spawn(sh(&script));
    run.wait_for("up");
    run.signal(Signal::KILL);
    run.wait().killed_by(Signal::KILL);
    assert_gone(&sleep);
}

#[cfg(feature = "setup")]
#[test]
fn children_that_detached_end_with_the_command() {
    let sleep = unique(3);
    let detach = format!(
        "setsid sleep {sleep} >/dev/null 2>&1 </dev/null & (setsid sh -c 'sleep {sleep} & sleep {sleep}' >/dev/null 2>&1 </dev/null &) ; sleep 0.2; echo done"
    );
    World::new().run(sh(&detach)).succeeds().stdout("done\n");
    assert_gone(&sleep);
}

#[test]
fn terminal_has_its_size_and_follows_changes() {
    let world = World::new();
    let script =
        "trap 'stty size' WINCH; stty size; echo up; while ! [ -e stop ]; do sleep 0.05; done";
    let terminal = world.terminal(sh(script));
    terminal.wait_for("24 80");
    terminal.wait_for("up");
    terminal.resize(50, 132);
    terminal.wait_for("50 132");
    world.write("project/stop", "");
    terminal.wait().succeeds();
}

#[test]
fn controlling_terminal_can_be_opened() {
    let mut terminal = World::new().terminal(sh(
        "test -t 0 && test -t 1 && tty && echo asked > /dev/tty && read answer < /dev/tty && echo \"<$answer>\"",
    ));
    terminal.wait_for("/dev/");
    terminal.wait_for("asked");
    terminal.enter("yes");
    terminal.wait_for("<yes>");
    terminal.wait().succeeds();
}

#[test]
fn run_without_a_terminal_has_none_inside() {
    World::new()
        .run(sh("(: > /dev/tty) 2>/dev/null && echo terminal; test -t 0 || echo none"))
        .stdout("none\n");
}

#[test]
fn job_control_of_the_users_shell_works_around_the_sandbox() {
    need("bash");
    let world = World::new();
    let mut terminal = world.host_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    terminal.enter("PS1='$'; set -m");
    let binary = world.binary().display().to_string();
    terminal.enter(&format!("{binary} sh -c 'echo u\"\"p; read x; echo \"<$x>\"'"));
    terminal.wait_for("up");
    terminal.keys(CTRL_Z);
    terminal.wait_for("Stopped");
    // A shell without line editing may lose a key that arrives with the notice of the stop.
    terminal.enter("");
    terminal.enter("echo back$((40+2))");
    terminal.wait_for("back42");
    terminal.enter("fg");
    terminal.wait_for("sh -c");
    terminal.enter("typed");
    terminal.wait_for("<typed>");
    terminal.enter("echo code$?; exit");
    terminal.wait_for("code0");
    terminal.wait().succeeds();
}

#[test]
fn job_control_works_in_a_shell_inside() {
    need("bash");
    let mut terminal =
        World::new().terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    terminal.enter("PS1='$'; sleep 60");
    std::thread::sleep(Duration::from_millis(500));
    terminal.keys(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.enter("kill -KILL %1; sleep 1; jobs; echo ended$((40+2))");
    terminal.wait_for("ended42");
    terminal.enter("exit 6");
    terminal.wait().code(6);
}

#[test]
fn background_job_is_stopped_when_it_reads_and_goes_on_in_front() {
    need("bash");
    let world = World::new();
    let mut terminal = world.host_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    let binary = world.binary().display().to_string();
    terminal.enter(&format!("PS1='$'; {binary} sh -c 'echo u\"\"p; read x; echo \"<$x>\"' &"));
    terminal.wait_for("up");
    std::thread::sleep(Duration::from_millis(300));
    terminal.enter("jobs; echo list$((40+2))");
    terminal.wait_for("Stopped");
    terminal.wait_for("list42");
    terminal.enter("fg");
    terminal.wait_for("sh -c");
    terminal.enter("typed");
    terminal.wait_for("<typed>");
    terminal.enter("exit");
    terminal.wait();
}

#[test]
fn command_that_is_stopped_and_woken_by_hand_goes_on() {
    let script = "(sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; echo woken";
    World::new().run(sh(script)).succeeds().stdout("woken\n");
}

#[test]
fn command_that_suspends_itself_gives_the_prompt_back() {
    need("bash");
    let world = World::new();
    let mut terminal = world.host_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    let binary = world.binary().display().to_string();
    terminal.enter(&format!("PS1='$'; set -m; {binary} sh -c 'kill -STOP 0; echo wo\"\"ken'"));
    terminal.wait_for("Stopped");
    terminal.enter("");
    terminal.enter("echo back$((40+2)); fg");
    terminal.wait_for("back42");
    terminal.wait_for("woken");
    terminal.enter("exit");
    terminal.wait();
}

#[cfg(feature = "setup")]
#[test]
fn closed_terminal_ends_the_command() {
    let sleep = unique(4);
    let terminal = World::new().terminal(sh(&format!("echo up; sleep {sleep}; sleep {sleep}")));
    terminal.wait_for("up");
    drop(terminal);
    assert_gone(&sleep);
}

#[test]
fn input_and_output_pass_through_unchanged() {
    let world = World::new();
    let text = "a line of text\n".repeat(20_000);
    world.run_with_input(&text, ["cat"]).succeeds().stdout(&text).stderr("");
    world.run(sh("echo out; echo err >&2")).succeeds().stdout("out\n").stderr("err\n");
    world.run(sh("cat; echo end")).stdout("end\n");
}

#[test]
fn descriptors_of_the_caller_are_closed() {
    let world = World::new().file("home/.netrc", "secret");
    let binary = world.binary().display().to_string();
    let script = format!("exec 7< ~/.netrc; exec {binary} sh -c 'ls /proc/self/fd; cat <&7'");
    world.host(sh(&script)).fails().stdout_lacks("7").stdout_lacks("secret");
}

/// Rust ignores SIGPIPE, and ignored signals stay ignored across `execve(2)`.
#[test]
fn a_broken_pipe_ends_a_command_unless_the_caller_ignores_it() {
    for world in [World::new(), World::new().env("AGENT_SANDBOX_MOUNTS", "bwrap")] {
        let run = world.run(["sh", "-c", "yes | head -n 1"]).succeeds();
        run.stdout("y\n").stderr_lacks("roken pipe");
        let ignored = "grep -q '^SigIgn:.*[13579bdf]...$' /proc/self/status";
        world.run(["sh", "-c", ignored]).code(1);
        // The control: a signal that the caller ignores stays ignored.
        let binary = world.binary().display().to_string();
        let script = format!("trap '' PIPE; exec '{binary}' sh -c \"{ignored}\"");
        world.host(["sh", "-c", &script]).succeeds();
    }
}
