//! Attacks on the broker from inside, each with a request that passes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::stage::{Stage, until};

#[test]
fn h1_no_shell_reads_what_the_agent_sent() {
    let stage = Stage::new();
    let odd = ["; id", "$(id)", "`id`", "*", "~", "a\nb", "| id", "&& id", "'", "\"", "\\"];
    let argv: Vec<&str> = ["mytool"].into_iter().chain(odd).collect();
    stage.ask(&argv).gave(&format!("<{}>\n", odd.join("><")));
    stage.ask(&["mytool; id"]).denied("mytool; id", "not among the host commands");
}

#[test]
fn h2_options_that_run_programs_do_not_pass() {
    let stage = Stage::new();
    stage.world.clone().git_init("work");
    for argv in [
        &["git", "-c", "alias.x=!id", "x"][..],
        &["git", "-c", "core.pager=id", "log"],
        &["git", "-c", "core.sshCommand=id", "status"],
        &["git", "-c", "diff.external=id", "diff"],
        &["git", "-c", "core.fsmonitor=id", "status"],
        &["git", "push", "--force"],
        &["git", "diff", "--ext-diff"],
        &["git", "log", "--output=x"],
        &["git", "fetch", "--upload-pack=id"],
        &["/usr/bin/git", "status"],
        &["sudo", "git", "status"],
        &["FOO=1", "git", "status"],
        &["env", "git", "status"],
        &["docker", "run", "-v", "/:/h", "x"],
    ] {
        stage.ask(argv).denied(argv[0], "reason: ");
    }
    stage.ask(&["git", "status", "--short"]).gave("");
    assert_eq!(stage.ask(&["git", "log", "--format=%s"]).out, "start\n");
}

/// Real tools, called with their less known options.
#[test]
fn h2_known_tools_run_nothing_and_show_nothing() {
    let stage = Stage::with(&json!({ "allowed": [
        "sort", "find", "timeout 60", "timeout 60 find", "xargs find", "git grep", "head", "tar", "curl",
        "curl -s http://localhost:1",
    ] }));
    let world = stage.world.clone().git_init("work").cwd("work");
    let mark = world.path("mark");
    let evil = format!("#!/bin/sh\ntouch {}\ncat\n", mark.display());
    let world = world.exec_file("work/evil", evil);
    world.write("work/big", "spread over several files\n".repeat(50_000));
    symlink("../secret", world.path("work/-link")).unwrap();
    world.write("work/rc", format!("url = file://{}\n", world.path("secret").display()));
    for argv in [
        &["sort", "--co=./evil", "-S", "16k", "big"][..],
        &["find", ".", "-maxdepth", "0", "-exec", "./evil", ";"],
        &["timeout", "60", "find", ".", "-maxdepth", "0", "-exec", "./evil", ";"],
        &["timeout", "60", "sh", "evil"],
        &["xargs", "find"],
        &["git", "grep", "-e", "--", "-Osh", "-e", "touch"],
        &["head", "--", "-link"],
        &["curl", "-sKrc"],
        &["curl", "-s", "http://localhost:1", "-sKrc"],
        &["tar", "-xf", "evil.tar"],
    ] {
        stage.ask(argv).denied(argv[0], "reason: ");
        assert!(!world.has("mark"), "{argv:?}");
    }
    stage.ask(&["sort", "-S", "16k", "file"]).gave("shared\n");
    stage.ask(&["timeout", "60", "find", "file"]).gave("file\n");
    // The control: the tools work.
    world.host(["sort", "--co=./evil", "-S", "16k", "big"]).succeeds();
    assert!(world.has("mark"));
    world.host(["head", "--", "-link"]).succeeds().stdout("the host's\n");
    world.host(["curl", "-sKrc"]).succeeds().stdout("the host's\n");
}

#[test]
fn h5_commands_get_a_clean_environment() {
    let stage = Stage::new();
    let container = stage
        .container(&["mytool"])
        .env("LD_PRELOAD", "/x.so")
        .env("GIT_DIR", "/x")
        .env("SECRET", "x");
    let env = container.host(["mytool", "env"]).succeeds().output();
    for name in ["LD_PRELOAD", "GIT_DIR", "SECRET", "SSH_ORIGINAL_COMMAND", "AGENT_SANDBOX"] {
        assert!(!env.contains(name), "{env}");
    }
    for name in ["PATH=", "HOME=", "LANG=C.UTF-8"] {
        assert!(env.contains(name), "{env}");
    }
}

#[test]
fn h6_programs_are_found_where_the_list_says_and_nowhere_else() {
    let stage = Stage::with(&json!({ "allowed": ["mytool", "ls", "tool"] }));
    let evil = "#!/bin/sh\necho evil\n";
    let world = stage
        .world
        .clone()
        .exec_file("work/mytool", evil)
        .exec_file("work/ls", evil)
        .exec_file("work/tool", evil);
    // A container that shadows its own PATH changes nothing on the host.
    let container = stage.container(&["mytool", "ls"]);
    let workspace = stage.world.path("container/workspace");
    let path = format!("/run/agent-sandbox/bridge/bin:{}:/usr/bin:/bin", workspace.display());
    container.env("PATH", path).host(["mytool", "x"]).succeeds().stdout("<x>\n");
    assert!(stage.ask(&["ls"]).out.contains("file"));
    assert_eq!(stage.ask(&["tool"]).code, Some(127));
    // Also not if a directory of the list leads there.
    symlink(world.path("work/tool"), world.path("bin/tool")).unwrap();
    stage.ask(&["tool"]).denied("tool", "in a directory that the container can write to");
}

/// The audit log contains the program that ran, not only its name.
#[test]
fn h6_a_program_in_the_place_of_another_is_told_apart_on_record() {
    let stage = Stage::new();
    let program = stage.world.path("bin/mytool").display().to_string();
    let hash = || {
        let sum = stage.world.host(["sha256sum", &program]).succeeds().output();
        json!(sum.split(' ').next().unwrap())
    };
    stage.ask(&["mytool", "x"]).gave("<x>\n");
    let first = hash();
    let _ = stage.world.clone().exec_file("bin/mytool", "#!/bin/sh\necho another\n");
    stage.ask(&["mytool", "x"]).gave("another\n");
    let lines = stage.audit(2);
    assert_eq!((&lines[0]["sha256"], &lines[1]["sha256"]), (&first, &hash()));
    assert_ne!(first, hash());
    // If no program ran, there is none to log.
    stage.ask(&["rm"]).denied("rm", "not among");
    assert!(stage.audit(3)[2]["sha256"].is_null());
}

#[test]
fn h8_paths_that_the_container_does_not_share_are_refused() {
    let stage = Stage::new();
    let secret = stage.world.path("secret");
    let workspace = stage.world.path("container/workspace");
    symlink(&secret, stage.world.path("work/link")).unwrap();
    symlink("../secret", stage.world.path("work/relative")).unwrap();
    let inside = |path: &str| workspace.join(path).into_os_string().into_string().unwrap();
    for path in [
        secret.to_str().unwrap(),
        "/etc/passwd",
        "../secret",
        "sub/../../secret",
        "link",
        "relative",
        &inside("link"),
        &inside("relative"),
        &inside("../secret"),
        "/proc/self/environ",
    ] {
        stage.ask(&["mytool", "read", path]).denied("mytool", "shares with the host");
        stage
            .ask(&["mytool", "read", &format!("--file={path}")])
            .denied("mytool", "shares with the host");
    }
    stage.ask(&["mytool", "read", "file"]).gave("shared\n");
    stage.ask(&["mytool", "read", &inside("file")]).gave("shared\n");
    // The control: a list that allows it passes the same path.
    let open = Stage::with(&json!({ "allowed": [{ "cmd": "mytool", "paths": "any" }] }));
    open.ask(&["mytool", "read", open.world.path("secret").to_str().unwrap()]).gave("the host's\n");
}

#[test]
fn h9_the_broker_does_not_run_its_own_program() {
    let stage = Stage::with(&json!({ "allowed": ["agent-sandbox", "innocent", "mytool"] }));
    let binary = stage.world.binary();
    symlink(binary, stage.world.path("bin/agent-sandbox")).unwrap();
    symlink(binary, stage.world.path("bin/innocent")).unwrap();
    stage.ask(&["agent-sandbox", "--version"]).denied("agent-sandbox", "its own host");
    stage.ask(&["innocent", "--version"]).denied("innocent", "its own host");
    stage.ask(&["mytool", "x"]).gave("<x>\n");
}

#[test]
fn h11_a_working_directory_that_leads_out_is_not_entered() {
    let stage = Stage::new();
    symlink("/etc", stage.world.path("work/etc")).unwrap();
    symlink("..", stage.world.path("work/up")).unwrap();
    let workspace = stage.world.path("container/workspace");
    for dir in ["etc", "up", "..", "sub/../..", "none"] {
        stage
            .ask_in(&["mytool", "pwd"], workspace.join(dir))
            .denied("mytool", "the working directory");
    }
    stage.ask_in(&["mytool", "pwd"], "/").denied("mytool", "the working directory");
    let sub = stage.world.path("work/sub");
    stage.ask_in(&["mytool", "pwd"], workspace.join("sub")).gave(&format!("{}\n", sub.display()));
}

#[test]
fn h11_a_directory_that_is_swapped_again_and_again_never_becomes_another() {
    let stage = Stage::new();
    let work = stage.world.path("work");
    fs::create_dir(work.join("real")).unwrap();
    fs::write(work.join("real/mark"), "inside\n").unwrap();
    fs::write(stage.world.path("mark"), "outside\n").unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (real, turn) = (work.join("real"), work.join("turn"));
        scope.spawn(move || {
            // Until the other end is closed, also by a panic.
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                let _ = fs::rename(&real, &turn);
                let _ = fs::rename(&turn, &real);
                let _ = symlink("..", &turn).and_then(|()| fs::remove_file(&turn));
            }
        });
        let _stop = stop;
        let mut inside = 0;
        for _ in 0..testkit::rounds(60, 2000) {
            for name in ["real", "turn"] {
                let answer = stage.ask_in(
                    &["mytool", "read", "mark"],
                    stage.world.path("container/workspace").join(name),
                );
                assert!(!answer.out.contains("outside"), "{answer:?}");
                inside += usize::from(answer.out == "inside\n");
            }
        }
        assert!(inside > 0, "the control never passed");
    });
}

#[test]
fn both_lists_must_allow_a_request() {
    let deployment = |world: &std::path::Path| {
        format!("allowed = ['mytool x', 'git status']\npath = [{world:?}, '/usr/bin']\ntimeout = 7")
    };
    let probe = Stage::new();
    let stage = Stage::under(&json!({}), &deployment(&probe.world.path("bin")));
    stage.ask(&["mytool", "x", "y"]).gave("<x><y>\n");
    stage.ask(&["mytool", "y"]).denied("mytool", "only `mytool x`");
    stage.ask(&["git", "log"]).denied("git", "only `git status`");
    probe.ask(&["mytool", "y"]).gave("<y>\n");
}

#[test]
fn each_request_is_written_down_and_none_runs_unwritten() {
    let stage = Stage::new();
    stage.ask(&["mytool", "code", "3"]);
    stage.ask(&["rm", "-rf", "/"]).denied("rm", "not among");
    let lines = stage.audit(2);
    assert_eq!(lines[0]["argv"], json!(["mytool", "code", "3"]));
    assert_eq!(
        (&lines[0]["outcome"], &lines[0]["code"], &lines[0]["transport"]),
        (&json!("ended"), &json!(3), &json!("unix"))
    );
    assert_eq!(lines[0]["program"], json!(stage.world.path("bin/mytool")));
    assert_eq!((&lines[1]["outcome"], &lines[1]["code"]), (&json!("denied"), &json!(1)));
    let log = stage.world.path("state/audit.jsonl");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let answer = stage.ask(&["mytool", "x"]);
    assert!(
        answer.err.contains("cannot write the audit log") && answer.code == Some(1),
        "{answer:?}"
    );
    fs::remove_dir(&log).unwrap();
    // Also not when the log is full: a client that floods it blocks only itself.
    fs::File::create(&log).unwrap().set_len(256 << 20).unwrap();
    let answer = stage.ask(&["mytool", "x"]);
    assert!(answer.err.contains("it is full") && answer.code == Some(1), "{answer:?}");
    fs::remove_file(&log).unwrap();
    stage.ask(&["rm", &"x".repeat(900_000)]).denied("rm", "not among");
    stage.audit(1);
    assert!(fs::metadata(&log).unwrap().len() < 40_000);
    until("it works again", || (stage.ask(&["mytool", "x"]).code == Some(0)).then_some(()));
}
