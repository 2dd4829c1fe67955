//! Commands in a session: exit codes, signals, streams and restrictions.

use testkit::{Signal, World, need};

use super::{DATA, eventually, inside, told, up};
use crate::probe::is_plain;

#[test]
fn codes_and_deaths_come_back_as_from_any_command() {
    let world = World::new().file("project/text", "no program");
    let _guard = up(&world, &[]);
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        world.run(inside(script)).code(code);
    }
    world.run(["exec", "-s", "project", "nosuch"]).code(127).stderr_contains("command not found");
    world
        .run(["exec", "-s", "project", "./text"])
        .code(126)
        .stderr_contains("cannot execute `./text`");
    world
        .run(["-C", "/nowhere", "exec", "-s", "project", "true"])
        .code(125)
        .stderr_contains("cannot enter");
}

#[test]
fn streams_pass_every_byte_and_stay_apart() {
    let world = World::new();
    let _guard = up(&world, &[]);
    world.run(inside("echo out; echo err >&2")).succeeds().stdout("out\n").stderr("err\n");
    // Without `-i` there is no input.
    world.run_with_input("secret", inside("cat")).succeeds().stdout("");
    let cat = ["exec", "-i", "-s", "project", "cat"];
    world.run_with_input("all of it\n", cat).succeeds().stdout("all of it\n");
    // Any bytes, more than a pipe holds, from file to file. No descriptor of the host's files goes inside.
    let binary = world.binary().display().to_string();
    let script = format!(
        "head -c 3000000 /dev/urandom > in && {binary} exec -i -s project cat < in > out && cmp in out && \
         {binary} exec -i -s project sh -c 'readlink /proc/self/fd/0 /proc/self/fd/1' < in > links && cat links"
    );
    let run = world.host(["sh", "-c", &script]).succeeds();
    for line in run.output().lines() {
        assert!(line.starts_with("pipe:"), "{line}");
    }
    // The reader may stop early.
    let script = format!("{binary} exec -s project yes | head -n 1");
    world.host(["sh", "-c", &script]).succeeds().stdout("y\n");
}

#[test]
fn signals_reach_the_command_and_its_end_follows_its_caller() {
    let world = World::new();
    let _guard = up(&world, &[]);
    for (signal, name) in
        [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::QUIT, "QUIT")]
    {
        let script =
            format!("trap 'echo got {name}; exit 9' {name}; echo up; while :; do sleep 0.05; done");
        let run = world.spawn(inside(&script));
        run.wait_for("up");
        run.signal(signal);
        run.wait().code(9).stdout_contains(&format!("got {name}"));
    }
    let run = world.spawn(inside("echo $$ > pid; echo up; exec sleep 1000"));
    run.wait_for("up");
    run.signal(Signal::KILL);
    run.wait().killed_by(Signal::KILL);
    eventually("the command has ended with its caller", || {
        world.run(inside("kill -0 $(cat pid) 2>/dev/null")).status().code() != Some(0)
    });
}

#[test]
fn the_environment_is_the_sessions_and_what_is_asked_for() {
    let world = World::new().env("AWS_SECRET_ACCESS_KEY", "s3cret").env("PLAIN", "of up");
    let _guard = up(&world, &[]);
    let later = world.clone().env("PLAIN", "of exec");
    let show = "echo $PLAIN-$AWS_SECRET_ACCESS_KEY-$X";
    later.run(inside(show)).succeeds().stdout("of up--\n");
    let flags = ["--env", "PLAIN", "--env", "X=set"];
    later.run(flags.into_iter().chain(inside(show))).succeeds().stdout("of exec--set\n");
}

#[test]
fn the_directory_is_where_the_caller_stands_in_the_project() {
    let world = World::new().dir("project/sub").dir("elsewhere");
    let _guard = up(&world, &[]);
    for (from, expected) in
        [("project", "project"), ("project/sub", "project/sub"), ("elsewhere", "project")]
    {
        let expected = format!("{}\n", world.path(expected).display());
        world.clone().cwd(from).run(["exec", "-s", "project", "pwd"]).succeeds().stdout(&expected);
    }
}

#[test]
fn c10_a_command_sees_exactly_the_namespaces_of_its_session() {
    let world = World::new();
    let _guard = up(&world, &["--network=false"]);
    let look = "for n in mnt pid net ipc uts user cgroup; do readlink /proc/self/ns/$n; done; \
        grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; readlink /proc/self/root";
    let first = world.run(inside(look)).succeeds().output();
    let second = world.run(inside(look)).succeeds().output();
    assert_eq!(first, second);
    // The server cannot be inspected. The session's first process is in the same namespaces.
    let of_first =
        world.run(inside("readlink /proc/1/ns/pid || readlink /proc/self/ns/pid")).output();
    assert!(first.contains(of_first.trim()), "{first}{of_first}");
    let host = world.host(["sh", "-c", look]).succeeds().output();
    for (inner, outer) in first.lines().zip(host.lines()).take(6) {
        assert_ne!(inner, outer, "shared with the host");
    }
    assert!(first.contains("CapEff:\t0000000000000000"), "{first}");
    assert!(first.contains("NoNewPrivs:\t1") && first.contains("Seccomp:\t2"), "{first}");
}

#[test]
fn d1_a_session_cannot_name_another_one_nor_itself() {
    let world = World::new().dir("other");
    let _guard = up(&world, &[]);
    world.clone().cwd("other").run(["up", "--name", "victim"]).succeeds();
    let data = world.path(DATA).display().to_string();
    // The control: on the host, the sockets exist.
    let sockets = format!("find {data} -type s");
    assert_eq!(world.host(["sh", "-c", &sockets]).succeeds().output().lines().count(), 4);
    world.run(inside(&sockets)).stdout("");
    world.run(inside("agent-sandbox exec -s victim true")).fails();
    world.run(inside(&format!("ls -A {data}"))).stdout("");
    // Nor through the server's open files. Under bubblewrap they are also the first process's input:
    // a process that takes it receives only the requests of the session's owner to that session.
    let steal = "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null; done | grep -c socket:";
    world.run(inside(steal)).stdout(if is_plain(&world) { "1\n" } else { "0\n" });
}

#[test]
fn d4_another_user_reaches_neither_the_socket_nor_the_record() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let data = world.path(DATA);
    let id = told(&world, "id");
    let modes = format!(
        "cd {} && stat -c %a . up up/{id} up/{id}/exec up/{id}/lock sessions.db logs logs/{id}.log",
        data.display()
    );
    world.host(["sh", "-c", &modes]).succeeds().stdout("700\n700\n700\n600\n600\n600\n700\n600\n");
}

#[cfg(feature = "setup")]
#[test]
fn d5_the_log_can_be_added_to_from_inside_and_never_shortened() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let python = need("python3").display().to_string();
    let log = told(&world, "log");
    world.host(["sh", "-c", &format!("echo before >> {log}")]).succeeds();
    // No process inside has the file open or can see it.
    let truncate = format!(
        "import os\nfor p in os.listdir('/proc'):\n  d='/proc/'+p+'/fd'\n  try: fds=os.listdir(d)\n  except OSError: continue\n  \
         for f in fds:\n    try:\n      os.truncate(d+'/'+f, 0)\n      print('shortened', p, f, os.readlink(d+'/'+f))\n    except OSError: pass\n\
         try: os.truncate('{log}', 0); print('shortened the log')\nexcept OSError: pass"
    );
    world.run(["exec", "-s", "project", &python, "-c", &truncate]).succeeds().stdout_lacks("log");
    world.run(["logs"]).succeeds().stdout_contains("before");
}

#[test]
fn many_commands_run_at_once_and_none_is_lost() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let runs: Vec<_> = (0..20)
        .map(|number| (number, world.spawn(inside(&format!("echo {number}; exit {number}")))))
        .collect();
    for (number, run) in runs {
        run.wait().code(number).stdout(&format!("{number}\n"));
    }
}

#[test]
fn a_session_that_is_held_still_from_inside_lets_its_callers_go() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let script =
        "kill -STOP $PPID; echo here; until test -e go; do sleep 0.05; done; kill -CONT $PPID";
    let caller = world.spawn(inside(script));
    caller.wait_for("here");
    // The signals differ, because of two equal pending signals one may be lost (`signal(7)`).
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        caller.signal(signal);
    }
    caller.wait_for_message("does not respond");
    world.write("project/go", "");
    caller.wait();
    world.run(inside("true")).succeeds();
}
