//! H7: limits for time, output and parallel requests. No process outlives its request.

use sandbox_protocol::frame::{self, Kind};
use serde_json::json;
use testkit::Signal;

use crate::stage::{Answer, Stage, denied, ends, runs, try_write, until};

#[test]
fn h7_a_command_that_takes_too_long_ends_with_all_that_it_started() {
    let stage =
        Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "timeout": 1, "paths": "any" }] }));
    let file = stage.world.path("fled");
    let answer = stage.ask(&["mytool", "flee", file.to_str().unwrap(), "stay"]);
    assert_eq!(answer.code, Some(124));
    assert!(answer.err.contains("took longer than 1 seconds"), "{answer:?}");
    assert!(
        !runs(stage.pid_in("fled")),
        "a grandchild in a session of its own has outlived its request"
    );
    assert_eq!(stage.audit(1)[0]["outcome"], "timeout");
}

#[test]
fn h7_what_a_command_leaves_behind_ends_with_it() {
    let stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("fled");
    stage.ask(&["mytool", "flee", file.to_str().unwrap()]).gave("");
    assert!(!runs(stage.pid_in("fled")));
    // The control: without the broker, it remains.
    let other = stage.world.path("stayed");
    stage
        .world
        .host([stage.world.path("bin/mytool").into_os_string(), "flee".into(), other.into()])
        .succeeds();
    let pid = stage.pid_in("stayed");
    assert!(runs(pid));
    stage.world.host(["kill", "-KILL", &pid.to_string()]).succeeds();
}

#[test]
fn h7_a_client_that_goes_takes_its_command_along() {
    let stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("fled");
    let socket = stage.request(
        &["mytool", "flee", file.to_str().unwrap(), "stay"],
        stage.world.path("container/workspace"),
    );
    let pid = stage.pid_in("fled");
    assert!(runs(pid));
    drop(socket);
    ends(pid);
    assert_eq!(stage.audit(1)[0]["outcome"], "gone");
}

#[test]
fn h7_a_request_process_that_is_killed_leaves_nothing() {
    let stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("fled");
    let _socket = stage.request(
        &["mytool", "flee", file.to_str().unwrap(), "stay"],
        stage.world.path("container/workspace"),
    );
    let pid = stage.pid_in("fled");
    // The broker's only child runs the request.
    let broker = stage.broker().pid().as_raw_pid().to_string();
    stage.world.host(["pkill", "-KILL", "-P", &broker]).succeeds();
    ends(pid);
    stage.ask(&["mytool", "x"]).gave("<x>\n");
}

#[test]
fn h7_a_broker_that_ends_or_is_killed_leaves_nothing() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
        let file = stage.world.path("fled");
        let _socket = stage.request(
            &["mytool", "flee", file.to_str().unwrap(), "stay"],
            stage.world.path("container/workspace"),
        );
        let pid = stage.pid_in("fled");
        stage.stop(signal);
        ends(pid);
        assert_eq!(stage.world.has("session/bridge/socket"), signal == Signal::KILL);
        // The socket of a killed broker does not prevent a start.
        stage.start();
        stage.ask(&["mytool", "x"]).gave("<x>\n");
    }
}

/// Returns the signal masks of a process, from `/proc`.
#[track_caller]
fn masks(status: &str) -> Vec<&str> {
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    ["SigBlk:", "SigIgn:"].into_iter().map(|name| of(name).unwrap()).collect()
}

#[test]
fn a_host_command_starts_with_no_signal_blocked_or_ignored() {
    let none = ["0000000000000000"; 2];
    let mut stage = Stage::new();
    assert_eq!(masks(&stage.ask(&["mytool", "status"]).out), none);
    // Also if the broker's caller ignored and blocked some signals.
    stage.stop(Signal::TERM);
    stage.start_by(&["env", "--ignore-signal=HUP,INT,USR1,CHLD", "--block-signal=TERM,USR2,RTMIN"]);
    assert_eq!(masks(&stage.ask(&["mytool", "status"]).out), none);
    // The control: without the broker, a program inherits them.
    let inherits =
        ["env", "--ignore-signal=INT", "--block-signal=TERM", "cat", "/proc/self/status"];
    assert_ne!(masks(&stage.world.host(inherits).output()), none);
}

#[test]
fn a_host_command_ends_at_the_first_signal_when_its_client_goes() {
    let stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("caught");
    let socket = stage.request(
        &["mytool", "ends", file.to_str().unwrap()],
        stage.world.path("container/workspace"),
    );
    let pid = stage.pid_in("caught");
    drop(socket);
    ends(pid);
    assert_eq!(stage.world.read("caught.end"), "TERM\n", "it was killed without having been asked");
}

#[test]
fn nothing_is_left_when_the_broker_and_its_requests_are_killed_at_once() {
    let mut stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("pid");
    let _socket = stage.request(
        &["mytool", "parent", file.to_str().unwrap()],
        stage.world.path("container/workspace"),
    );
    let (command, below) = (stage.pid_in("pid"), stage.pid_in("pid.below"));
    let broker = stage.broker().pid().as_raw_pid().to_string();
    // Stopped first, so that neither can react to the other's end.
    let script = "r=$(pgrep -P $0); kill -STOP $0 $r; kill -KILL $0 $r";
    stage.world.host(["sh", "-c", script, &broker]).succeeds();
    // The kernel ends the command. Its children are recorded, and end when the session stops or starts.
    ends(command);
    stage.stop(Signal::KILL);
    assert!(runs(below));
    stage.start();
    ends(below);
    stage.ask(&["mytool", "x"]).gave("<x>\n");
    let left = std::fs::read_dir(stage.world.path("state/running")).unwrap().count();
    assert_eq!(left, 0, "records are removed");
}

#[test]
fn a_broker_ends_when_its_socket_is_gone_or_replaced() {
    let mut stage = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    let file = stage.world.path("fled");
    let _socket = stage.request(
        &["mytool", "flee", file.to_str().unwrap(), "stay"],
        stage.world.path("container/workspace"),
    );
    let (pid, broker) = (stage.pid_in("fled"), stage.broker().pid().as_raw_pid());
    let first = stage.hand_over();
    ends(pid);
    ends(broker);
    first.wait().succeeds();
    // The end of the first one does not remove the second one's socket.
    stage.ask(&["mytool", "x"]).gave("<x>\n");
    let second = stage.broker().pid().as_raw_pid();
    std::fs::remove_dir_all(stage.world.path("session/bridge")).unwrap();
    ends(second);
    stage.stop(Signal::KILL);
}

#[test]
fn h7_output_has_an_end() {
    let stage = Stage::with(&json!({ "output": 1000 }));
    let answer = stage.ask(&["mytool", "flood"]);
    assert_eq!(answer.out.len(), 1000);
    assert_eq!(answer.code, Some(137));
    assert!(answer.err.contains("printed more than 1000 bytes"), "{}", answer.err);
    assert_eq!(stage.audit(1)[0]["outcome"], "flood");
}

#[test]
fn h7_only_so_many_run_at_a_time() {
    let stage = Stage::with(&json!({ "parallel": 2 }));
    let cwd = stage.world.path("container/workspace");
    let first = stage.request(&["mytool", "wait"], &cwd);
    let second = stage.request(&["mytool", "wait"], &cwd);
    for mut socket in [&first, &second] {
        assert_eq!(frame::read(&mut socket).unwrap().unwrap().kind, Kind::Output);
    }
    stage.ask(&["mytool", "x"]).denied("too many", "2 host commands are already running");
    let container = stage.container(&["mytool"]);
    denied(container.host(["mytool", "x"]), "too many", "2 host commands are already running");
    drop(first);
    until("a place is free", || (stage.ask(&["mytool", "x"]).code == Some(0)).then_some(()));
}

#[test]
fn h7_clients_that_say_nothing_sensible_are_hung_up_on() {
    let stage = Stage::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"R\xff\xff\xff\xff",
        b"R\x02\0\0\0/\0",
        b"I\x01\0\0\0a",
        b"R\x01",
    ] {
        let socket = stage.connect();
        try_write(&socket, bytes);
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = Answer::read(socket);
        assert_eq!((answer.out.as_str(), answer.code), ("", None));
    }
    // More input than was granted is refused completely.
    let mut socket = stage.request(&["mytool", "wait"], stage.world.path("container/workspace"));
    for _ in 0..16 {
        try_write(&socket, b"I\0\0\x01\0");
        try_write(&socket, &vec![0; 65536]);
    }
    while matches!(frame::read(&mut socket), Ok(Some(frame)) if frame.kind != Kind::Exit) {}
    assert_eq!(stage.audit(1)[0]["outcome"], "gone");
    stage.ask(&["mytool", "x"]).gave("<x>\n");
}
