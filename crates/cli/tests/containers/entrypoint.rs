//! The entrypoint as PID 1 of real containers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use testkit::{Docker, Run};

use crate::images;

/// Runs `docker run` with arguments before and after the image's name.
#[track_caller]
fn run(flags: &[&str], words: &[&str]) -> Run {
    let docker = Docker::new();
    let image = images::entrypoint(&docker);
    docker.once(flags.iter().copied().chain([image]).chain(words.iter().copied()))
}

const SECRETS: [&str; 12] = [
    "--env",
    "SESSION_TOKEN=topsecret-1",
    "--env",
    "CONTROL_PLANE_URL=http://cp-1",
    "--env",
    "SESSION_ID=si-1",
    "--env",
    "AGENT_USER=agent",
    "--env",
    "AGENT_WORKDIR=/tmp",
    "--env",
    "GITHUB_TOKEN=kept",
];

#[test]
fn control_variables_are_gone_and_others_stay() {
    let seen = run(&SECRETS, &["sh", "-c", "env; tr '\\0' '\\n' </proc/1/environ"]).succeeds();
    let seen = seen.stdout_contains("GITHUB_TOKEN=kept\n").stdout_contains("PATH=");
    for gone in ["SESSION_", "CONTROL_PLANE", "AGENT_", "topsecret-1", "cp-1", "si-1"] {
        seen.clone().stdout_lacks(gone).stderr_lacks("topsecret-1");
    }
    let bare: Vec<&str> = SECRETS.into_iter().chain(["--entrypoint", "env"]).collect();
    run(&bare, &[])
        .succeeds()
        .stdout_contains("SESSION_TOKEN=topsecret-1\n")
        .stdout_contains("AGENT_WORKDIR=/tmp\n");
}

#[test]
fn the_agent_takes_the_place_of_the_entrypoint() {
    run(&[], &["sh", "-c", "echo $$; readlink /proc/1/exe"]).succeeds().stdout("1\n/bin/busybox\n");
    run(&[], &["sh", "-c", "exit 42"]).code(42);
}

#[test]
fn command_and_arguments_come_from_variables_first() {
    let print = "AGENT_COMMAND=printf";
    for (why, flags, words, expected) in [
        ("words of the command line", vec![], vec!["echo", "a", "b"], "a b\n"),
        ("all of them are arguments", vec!["--env", "AGENT_COMMAND=echo"], vec!["a", "b"], "a b\n"),
        (
            "AGENT_ARGS comes first",
            vec!["--env", "AGENT_COMMAND=echo", "--env", "AGENT_ARGS=x  y"],
            vec!["a"],
            "x y\n",
        ),
        (
            "blanks alone are no arguments, but they are set",
            vec!["--env", "AGENT_COMMAND=echo", "--env", "AGENT_ARGS=  "],
            vec!["a"],
            "\n",
        ),
        (
            "quotes are nothing but characters",
            vec!["--env", print, "--env", r#"AGENT_ARGS=[%s] a "b c" d"#],
            vec![],
            r#"[a]["b][c"][d]"#,
        ),
        (
            "a path is relative to the workspace",
            vec!["--env", "AGENT_WORKDIR=/bin"],
            vec!["./echo", "a"],
            "a\n",
        ),
        ("for any command", vec!["--env", "AGENT_ARGS=x y"], vec!["echo", "a"], "x y\n"),
        (
            "blanks survive as JSON",
            vec![
                "--env",
                print,
                "--env",
                r#"AGENT_ARGS_JSON=["[%s]","a b"]"#,
                "--env",
                "AGENT_ARGS=x",
            ],
            vec![],
            "[a b]",
        ),
    ] {
        // The label identifies the case in a failure.
        run(&[&["--label", &format!("why={why}")], &flags[..]].concat(), &words)
            .succeeds()
            .stdout(expected);
    }
}

#[test]
fn working_directory_is_the_workspace_unless_another_is_named() {
    run(&["--workdir", "/"], &["pwd"]).succeeds().stdout("/workspace\n");
    run(&["--env", "AGENT_WORKDIR=/tmp"], &["pwd"]).succeeds().stdout("/tmp\n");
    let missing = ["--workdir", "/", "--env", "AGENT_WORKDIR=/nowhere"];
    run(&missing, &["pwd"]).succeeds().stdout("/\n").stderr_contains("[entrypoint] warning: ");
    let strict = [&missing[..], &["--env", "AGENT_REQUIRE_USER=1"]].concat();
    run(&strict, &["pwd"]).code(1).stdout("");
}

const WHO: [&str; 3] = ["sh", "-c", "id -u; id -g; id -G; echo $HOME $USER"];

#[test]
fn root_becomes_the_agent_or_the_named_user() {
    run(&[], &WHO).succeeds().stdout("1000\n1000\n1000\n/home/agent agent\n");
    let number = run(&["--env", "AGENT_USER=1234:99"], &["sh", "-c", "id -u; id -g; id -G"]);
    number.succeeds().stdout("1234\n99\n99\n");
}

#[test]
fn an_unknown_user_is_a_warning_or_fatal_when_one_is_required() {
    let unknown = ["--env", "AGENT_USER=nobody-here"]; // words: quoted
    run(&unknown, &["id", "-u"]).succeeds().stdout("0\n").stderr_contains("[entrypoint] warning: ");
    let strict = [&unknown[..], &["--env", "AGENT_REQUIRE_USER=1"]].concat();
    run(&strict, &["id", "-u"]).code(1).stdout("");
}

#[test]
fn the_user_is_the_first_whole_line_of_that_name() {
    for (why, passwd, expected, warned) in [
        ("short lines are none", "agent:x:1\nagent:x:7:8::/:\nagent:x:9:9::/:\n", "7\n8\n", ""),
        ("a number that is none", "agent:x:one:1::/:\n", "0\n0\n", "[entrypoint] warning: "),
    ] {
        let docker = Docker::new();
        docker.world().write("passwd", passwd);
        let volume = format!("{}:/etc/passwd:ro", docker.world().path("passwd").display());
        let label = format!("why={why}");
        let flags = ["--label", &label, "--volume", &volume, images::entrypoint(&docker)];
        let run = docker.once(flags.into_iter().chain(["sh", "-c", "id -u; id -g"]));
        run.succeeds().stdout(expected).stderr_contains(warned);
    }
}

#[test]
fn a_file_is_run_only_when_the_agent_may_and_the_kernel_can() {
    let docker = Docker::new();
    let volume = format!("{}:/files:ro", docker.world().path("files").display());
    let run = |mode: u32, content: &str| {
        docker.world().write("files/agent", content);
        let file = docker.world().path("files/agent");
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        docker.once(["--volume", &volume, images::entrypoint(&docker), "/files/agent"])
    };
    run(0o755, "#!/bin/sh\necho ran\n").succeeds().stdout("ran\n");
    run(0o644, "#!/bin/sh\necho ran\n").code(1).stdout("").stderr_contains("[entrypoint] error: ");
    run(0o700, "#!/bin/sh\necho ran\n").code(1).stdout("").stderr_contains("[entrypoint] error: ");
    run(0o755, "echo ran\n").code(1).stdout("").stderr_contains("[entrypoint] error: ");
}

/// Returns the kernel's view of the agent's privileges.
const POWERS: [&str; 3] =
    ["sh", "-c", "grep -E '^(Uid|Cap|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '"];
const NO_POWERS: &str = "Uid: 1000 1000 1000 1000\nCapInh: 0000000000000000\nCapPrm: 0000000000000000\n\
    CapEff: 0000000000000000\nCapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\n";

#[test]
fn the_agent_has_no_powers_however_the_container_was_started() {
    run(&[], &POWERS).succeeds().stdout(NO_POWERS);
    let few =
        ["--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "SETPCAP"];
    run(&few, &POWERS).succeeds().stdout(NO_POWERS);
    run(&["--cap-drop", "ALL", "--user", "1000:1000"], &POWERS).succeeds().stdout(NO_POWERS);
    let locked = [
        "--cap-drop",
        "ALL",
        "--user",
        "1000:1000",
        "--security-opt",
        "no-new-privileges",
        "--read-only",
    ];
    run(&locked, &POWERS).succeeds().stdout(NO_POWERS);
    let bare = run(&["--entrypoint", "/bin/sh"], &POWERS[1..]).succeeds();
    bare.stdout_contains("Uid: 0 0 0 0\n").stdout_contains("NoNewPrivs: 0\n");
}

#[test]
fn what_cannot_be_done_is_fatal_with_1() {
    for (why, flags, words) in [
        ("no command", vec![], vec![]),
        ("not found", vec![], vec!["no-such-program"]),
        ("no program", vec![], vec!["/etc/passwd"]),
        ("nowhere to look", vec!["--env", "PATH="], vec!["echo", "a"]),
        ("only here", vec!["--env", "PATH=.", "--env", "AGENT_WORKDIR=/bin"], vec!["echo", "a"]),
        ("root that may not change", vec!["--cap-drop", "ALL"], vec!["id", "-u"]),
    ] {
        let run = run(&[&["--label", &format!("why={why}")], &flags[..]].concat(), &words);
        run.code(1).stdout("").stderr_contains("[entrypoint] error: ");
    }
}

#[test]
fn a_control_file_is_seen_neither_by_inspect_nor_by_exec_nor_by_the_agent() {
    let docker = Docker::new();
    let world = docker.world();
    world.write("control/variables", "SESSION_TOKEN=topsecret-2\nSESSION_ID=si-2\n");
    world.host(["chmod", "600", "../control/variables"]).succeeds();
    world.host(["chmod", "700", "../control"]).succeeds();
    let mount = format!("{}:/run/control", world.path("control").display());
    let container = docker.container([
        "--volume",
        &mount,
        "--env",
        "AGENT_CONTROL_FILE=/run/control/variables",
        images::entrypoint(&docker),
        "sleep",
        "1000",
    ]);
    container.wait_for("session token set");
    container.wait_for("starting `/bin/sleep`");
    container
        .does(["inspect"])
        .succeeds()
        .stdout_contains("AGENT_CONTROL_FILE")
        .stdout_lacks("topsecret-2");
    container.exec([], ["env"]).succeeds().stdout_lacks("topsecret-2");
    container
        .exec(["-u", "1000"], ["cat", "/proc/1/environ"])
        .succeeds()
        .stdout_lacks("AGENT_")
        .stdout_lacks("topsecret-2");
    container.logs().stderr_lacks("topsecret-2").stdout_lacks("topsecret-2");
    assert!(!world.has("control/variables"), "it is removed");

    let open = docker.container([
        "--env",
        "SESSION_TOKEN=topsecret-3",
        images::entrypoint(&docker),
        "sleep",
        "1000",
    ]);
    open.does(["inspect"]).succeeds().stdout_contains("topsecret-3");
    open.exec([], ["env"]).succeeds().stdout_contains("topsecret-3");
}

#[test]
fn a_control_file_that_others_can_read_is_refused() {
    let docker = Docker::new();
    let world = docker.world();
    world.write("control/variables", "SESSION_TOKEN=topsecret-4\n");
    world.host(["chmod", "644", "../control/variables"]).succeeds();
    let mount = format!("{}:/run/control", world.path("control").display());
    let flags = ["--volume", &mount, "--env", "AGENT_CONTROL_FILE=/run/control/variables"];
    run(&flags, &["true"]).code(1).stderr_contains("is refused").stderr_lacks("topsecret-4");
    world.host(["chmod", "600", "../control/variables"]).succeeds();
    run(&flags, &["true"]).succeeds();
}

#[test]
fn signals_of_docker_reach_the_agent_itself() {
    let docker = Docker::new();
    let script = "trap 'echo asked to end; exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    let container = docker.container([images::entrypoint(&docker), "sh", "-c", script]);
    container.wait_for("ready\n");
    container.does(["stop", "--time", "60"]).succeeds();
    assert_eq!(container.wait(), 9);
    container.logs().stdout("ready\nasked to end\n");
}
