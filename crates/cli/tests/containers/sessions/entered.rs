//! Commands in a container: their terminal, their output, and their end when the caller disconnects.

use testkit::{CTRL_C, CTRL_Z, Signal, rounds};

use super::stage::{NAME, Stage};

/// Waits until no process of the container has this in its command line.
#[track_caller]
fn is_gone(stage: &Stage, pattern: &str) {
    let script =
        format!("for i in $(seq 100); do ps | grep '{pattern}' || exit 0; sleep 0.1; done; exit 1");
    stage.sh(&script).succeeds();
}

#[test]
fn a_terminal_loses_nothing_that_was_said_at_the_end() {
    let stage = Stage::up("");
    for _ in 0..rounds(15, 100) {
        stage.world.run(["exec", "-t", "-s", NAME, "echo", "hello"]).succeeds().stdout("hello\r\n");
    }
    // End of input is a key on a terminal. After half a line it must be typed twice.
    for (typed, heard) in [("line\n", "line\r\nline\r\n"), ("half", "halfhalf"), ("", "")] {
        let run = stage.world.run_with_input(typed, ["exec", "-it", "-s", NAME, "cat"]);
        run.succeeds().stdout(heard);
    }
    let all = ["exec", "-t", "-s", NAME, "sh", "-c", "seq 20000; exit 7"];
    let run = stage.world.run(all).code(7);
    assert_eq!(run.output().lines().count(), 20_000);
}

#[test]
fn a_terminal_has_the_callers_size_from_the_beginning() {
    let stage = Stage::up("");
    for _ in 0..rounds(5, 50) {
        let terminal = stage.world.terminal(["exec", "-it", "-s", NAME, "stty", "size"]);
        terminal.wait_for("24 80");
        terminal.wait().code(0);
    }
    let script =
        "trap 'echo now $(stty size)' WINCH; echo at $(stty size); while :; do sleep 0.05; done";
    let mut terminal = stage.world.terminal(["exec", "-it", "-s", NAME, "sh", "-c", script]);
    terminal.wait_for("at 24 80");
    terminal.resize(40, 100);
    terminal.wait_for("now 40 100");
    terminal.keys(CTRL_C);
    terminal.wait().code(130);
}

#[test]
fn a_command_ends_when_its_output_has_no_reader() {
    let stage = Stage::up("");
    let binary = stage.world.binary().display().to_string();
    for (flags, end) in [("", "head -n 1"), ("-t", "head -n 1"), ("", "true")] {
        let script = format!("'{binary}' exec {flags} -s {NAME} yes endless-words | {end}");
        let run = stage.world.host(["sh", "-c", &script]).succeeds();
        assert_eq!(run.output().contains("endless-words"), end != "true");
        is_gone(&stage, "[y]es endless-words");
    }
    // The command gets a signal first, so that it can clean up.
    let script = format!(
        "'{binary}' exec -s {NAME} sh -c 'trap \"echo cleaned > note; exit 0\" PIPE; while :; do echo x; done 2>/dev/null' | head -n 1"
    );
    stage.world.host(["sh", "-c", &script]).succeeds().stdout("x\n");
    stage
        .sh("for i in $(seq 100); do test -e note && break; sleep 0.1; done; cat note")
        .stdout("cleaned\n");
}

#[test]
fn a_command_ends_with_its_caller_when_it_does_not_read_its_input() {
    let stage = Stage::up("");
    let binary = stage.world.binary().display().to_string();
    for flags in ["-is", "-its"] {
        let script = format!(
            "yes | '{binary}' exec {flags} {NAME} sh -c 'echo began > note; exec sleep 4323' & \
             for i in $(seq 100); do test -e note && break; sleep 0.1; done; sleep 2; kill -KILL $!"
        );
        stage.world.host(["sh", "-c", &script]).succeeds();
        is_gone(&stage, "[s]leep 4323");
        is_gone(&stage, "[g]uard ");
        stage.sh("rm note").succeeds();
    }
    // The control: a command that reads gets all of it, and no process remains beside it.
    let script = format!("head -c 5000000 /dev/zero | '{binary}' exec -is {NAME} wc -c");
    stage.world.host(["sh", "-c", &script]).succeeds().stdout("5000000\n");
    let late =
        format!("head -c 5000000 /dev/zero | '{binary}' exec -is {NAME} sh -c 'sleep 1; wc -c'");
    stage.world.host(["sh", "-c", &late]).succeeds().stdout("5000000\n");
    is_gone(&stage, "[g]uard ");
}

#[test]
fn a_command_ends_with_its_caller_and_so_does_what_it_started() {
    let stage = Stage::up("");
    for flags in ["-s", "-is", "-ts"] {
        let script = "(sleep 4321 & wait) & trap '' HUP TERM; echo began; sleep 4321";
        let process = stage.world.spawn(["exec", flags, NAME, "sh", "-c", script]);
        process.wait_for("began");
        process.signal(Signal::KILL);
        process.wait().killed_by(Signal::KILL);
        is_gone(&stage, "[s]leep 4321");
    }
    // End of input is not the end of the caller, and processes that left the session remain.
    stage
        .world
        .run_with_input("in\n", ["exec", "-is", NAME, "sh", "-c", "cat; sleep 0.3; echo after"])
        .succeeds()
        .stdout("in\nafter\n");
    stage.sh("setsid sleep 4322 > /dev/null 2>&1 &").succeeds();
    stage.sh("ps | grep '[s]leep 4322'").succeeds();
}

#[test]
fn a_command_on_a_terminal_is_suspended_and_continued_by_the_callers_shell() {
    let stage = Stage::up("");
    let binary = stage.world.binary().display().to_string();
    let mut shell = stage.world.host_terminal(["bash", "--norc", "-i"]);
    shell.suspends_and_continues(&format!("'{binary}' exec -it -s {NAME}"));
    // Without a shell to return to, it continues.
    let mut terminal = stage.world.terminal([
        "exec",
        "-it",
        "-s",
        NAME,
        "sh",
        "-c",
        "echo began; read x; echo got-$x",
    ]);
    terminal.wait_for("began");
    terminal.keys(CTRL_Z);
    terminal.enter("more");
    terminal.wait_for("got-more");
    terminal.wait().code(0);
    shell.enter("exit");
    shell.wait();
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let stage = Stage::up("");
    stage.world.write("project/sub/file", "");
    stage.world.host(["mkdir", "-p", "../beside"]).succeeds();
    let beside = stage.world.path("beside").display().to_string();
    for dir in ["/no/such", "no/such", &beside] {
        let run = stage.world.run(["exec", "-s", NAME, "-C", dir, "pwd"]);
        run.code(125).stdout("").stderr_contains("cannot change to the directory");
    }
    let sub = stage.world.path("project/sub").display().to_string();
    for (dir, inside) in [
        ("sub", "/workspace/sub"),
        (&sub, "/workspace/sub"),
        ("/tmp", "/tmp"),
        ("/workspace/sub", "/workspace/sub"),
    ] {
        let run = stage.world.run(["exec", "-s", NAME, "-C", dir, "pwd"]);
        run.succeeds().stdout(&format!("{inside}\n"));
    }
}

#[test]
fn a_command_that_does_not_exist_ends_with_127_as_everywhere() {
    let stage = Stage::up("");
    stage.sh("echo text > plain; chmod 644 plain").succeeds();
    for (program, code) in [("/no/such", 127), ("nosuch", 127), ("./plain", 126), ("/bin/false", 1)]
    {
        stage.world.run(["exec", "-s", NAME, program]).code(code);
        stage.world.run(["exec", "-t", "-s", NAME, program]).code(code);
    }
}
