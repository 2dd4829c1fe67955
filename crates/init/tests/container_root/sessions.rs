//! Tests of features of PID 1 that container sessions use: an existing home, the rendezvous with the proxy, checked
//! mounts, and commands that enter later.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixListener;

use testkit::Signal;

use crate::room::{Room, Start, signal};

/// Returns a room with an existing home of a user without an entry, and with a control file of another user.
fn room() -> Room {
    let room = Room::new(Start::Root)
        .env("AGENT_DOCKERD", "off")
        .env("AGENT_HOME", "/home/agent")
        .env("AGENT_USER", "4242:4343")
        .env("AGENT_WORKDIR", "/workspace")
        .env("AGENT_CONTROL_FILE", "/run/private/control/control");
    room.write("run/private/control/control", "SESSION_ID=s1\nSESSION_TOKEN=hush\n");
    room.mode("run/private/control/control", 0o644);
    chown(room.path("run/private/control/control"), Some(4242), Some(4343)).unwrap();
    room.mode("run/private", 0o700);
    room.give("home/agent", 4242);
    room.give("workspace", 4242);
    room
}

#[test]
fn home_that_is_there_needs_no_set_up_and_no_name() {
    let look = "id -u; id -g; pwd; echo $HOME $USER; env | grep -E 'AGENT|SESSION|hush'; cat /run/private/control/control; ls -A /.data";
    let run = room().run(["/opt/init", "sh", "-c", look]);
    run.code(0).stdout("4242\n4343\n/workspace\n/home/agent 4242\n").stderr_contains("Permission");
}

/// The control file of [`room`] is refused in a directory that other users can enter.
#[test]
fn control_file_of_another_user_is_refused_where_others_can_go() {
    let room = room();
    room.mode("run/private", 0o755);
    room.run(["/opt/init", "true"]).code(1).stderr_contains("belongs to another user");
}

/// C4: a directory that was replaced after the inspection.
#[test]
fn c4_a_mount_that_is_another_than_it_was_is_not_used() {
    let known = |room: &Room, ino: u64| {
        let about = fs::metadata(room.path("workspace")).unwrap();
        format!("[[\"/workspace\",{},{}]]", about.dev(), about.ino() + ino)
    };
    for personality in ["/opt/init", "/opt/entrypoint"] {
        let right = room();
        let text = known(&right, 0);
        right.env("AGENT_MOUNTS", text).run([personality, "true"]).code(0);
        let wrong = room();
        let text = known(&wrong, 1);
        let run = wrong.env("AGENT_MOUNTS", text).run([personality, "true"]);
        run.code(1).stderr_contains("is not the one that the session was created with");
    }
}

#[test]
fn rendezvous_is_retried_until_a_proxy_answers_and_again_when_it_leaves() {
    let room = room().env("AGENT_DOOR", "/run/door.sock").env("AGENT_DOOR_PORTS", "tcp:28128");
    let process = room.start(["/opt/init", "sh", "-c", "echo ready; exec sleep 1000"]);
    process.wait_for("ready\n");
    // The path is too long for a socket address, so the test uses `/proc/self/fd`: unix(7).
    let dir = fs::File::open(room.path("run")).unwrap();
    let near = format!("/proc/self/fd/{}/door.sock", std::os::fd::AsRawFd::as_raw_fd(&dir));
    let listener = UnixListener::bind(near).unwrap();
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        let awaited = [(stream.as_fd(), sandbox_linux::channel::Awaited::Data)];
        sandbox_linux::channel::wait(&awaited, Some(20_000)).unwrap();
        let message = sandbox_linux::channel::receive(stream.as_fd()).unwrap().unwrap();
        assert_eq!(message.attached.len(), 1);
        let inside = std::net::TcpListener::from(message.attached.into_iter().next().unwrap());
        assert_eq!(inside.local_addr().unwrap().to_string(), "127.0.0.1:28128");
        stream.write_all(b"ok\n").unwrap();
    }
    signal(&process, Signal::TERM);
    process.wait().code(143);
}

#[test]
fn entered_command_has_neither_variables_nor_capabilities_of_pid_1() {
    let enter = |room: Room, script: &str| {
        room.env("AGENT_COMMAND", "x").env("SESSION_TOKEN", "hush").env("KEPT", "1").run([
            "/opt/agent-sandbox-init",
            "enter",
            "sh",
            "-c",
            script,
        ])
    };
    let script = "env | grep -E 'AGENT_|SESSION|KEPT'; grep -E 'CapEff|CapPrm|NoNewPrivs' /proc/self/status | cut -f2";
    let inside = || Room::new(Start::As(1000));
    enter(inside(), script).code(0).stdout("KEPT=1\n0000000000000000\n0000000000000000\n1\n");
    enter(inside(), "exit 7").code(7);
    inside().run(["/opt/agent-sandbox-init", "enter", "no-such-program"]).code(127);
    inside().run(["/opt/agent-sandbox-init", "enter"]).code(125);
    // Root cannot enter.
    enter(Room::new(Start::Root), "true").code(125).stderr_contains("cannot enter as root");
}
