//! Tests that do not depend on the user: command, arguments, environment, lookup, exit codes.

use std::os::unix::fs::symlink;

use testkit::Signal;

use crate::room::{PATH, Room, Start};

/// Returns a room whose PID 1 starts as the agent's user, without capabilities.
fn room() -> Room {
    Room::new(Start::As(1000))
}

const SHOW: &str = "for word; do printf '<%s>' \"$word\"; done";

#[test]
fn agent_is_pid_1_because_the_process_is_replaced() {
    room()
        .run(["/opt/entrypoint", "sh", "-c", "echo $$; tr '\\0' ' ' < /proc/1/cmdline"])
        .succeeds()
        .stdout("1\n/usr/bin/sh -c echo $$; tr '\\0' ' ' < /proc/1/cmdline ");
}

#[test]
fn personality_is_chosen_by_the_name_and_under_its_own_by_the_first_word() {
    room().run(["/opt/agent-sandbox-init", "entrypoint", "echo", "hi"]).succeeds().stdout("hi\n");
    room().run(["/opt/agent-sandbox-init", "echo", "hi"]).code(2).stderr_contains("usage:");
    room()
        .env("AGENT_COMMAND", "echo")
        .run(["/opt/entrypoint", "entrypoint"])
        .succeeds()
        .stdout("entrypoint\n");
}

#[test]
fn command_line_follows_the_order_of_its_sources() {
    let line = |room: Room, words: &[&str]| {
        let words: Vec<&str> = ["/opt/entrypoint"].iter().chain(words).copied().collect();
        room.run(words).succeeds().output()
    };
    let sh = format!("#!/bin/sh\n{SHOW}\n");
    let with = || {
        let room = room();
        room.program("opt/show", &sh);
        room
    };
    assert_eq!(line(with(), &["show", "a", "b c"]), "<a><b c>");
    assert_eq!(line(with().env("AGENT_COMMAND", "show"), &["a", "b", "c"]), "<a><b><c>");
    assert_eq!(
        line(with().env("AGENT_COMMAND", "show").env("AGENT_ARGS", "x  y"), &["a"]),
        "<x><y>"
    );
    assert_eq!(line(with().env("AGENT_COMMAND", "show").env("AGENT_ARGS", "   "), &["a"]), "");
    assert_eq!(
        line(with().env("AGENT_ARGS", r#"a "b c" $PATH"#), &["show", "z"]),
        "<a><\"b><c\"><$PATH>"
    );
    let json = with()
        .env("AGENT_COMMAND", "show")
        .env("AGENT_ARGS", "x")
        .env("AGENT_ARGS_JSON", r#"["a b", "", "*"]"#);
    assert_eq!(line(json, &["z"]), "<a b><><*>");
    assert_eq!(line(with().env("AGENT_COMMAND", ""), &["show", "a"]), "<a>");
}

#[test]
fn no_command_ends_with_1() {
    room().run(["/opt/entrypoint"]).code(1).stderr_contains("[entrypoint] error: no agent command");
    room()
        .env("AGENT_COMMAND", "")
        .run(["/opt/entrypoint"])
        .code(1)
        .stderr_contains("hint: set AGENT_COMMAND");
}

#[test]
fn arguments_that_are_no_json_end_with_1_and_stay_unsaid() {
    room()
        .env("AGENT_ARGS_JSON", "[\"hush\", 1]")
        .run(["/opt/entrypoint", "true"])
        .code(1)
        .stderr_contains("AGENT_ARGS_JSON")
        .stderr_lacks("hush");
}

#[test]
fn environment_lacks_what_is_ours_and_keeps_the_rest() {
    let ours = [
        "SESSION_TOKEN",
        "CONTROL_PLANE_URL",
        "SESSION_ID",
        "AGENT_ARGS",
        "AGENT_USER",
        "AGENT_WORKDIR",
        "AGENT_BINARY",
        "AGENT_COW",
        "AGENT_STOP_GRACE",
        "AGENT_DEBUG_HOLD",
        "AGENT_DOCKERD",
        "AGENT_DOCKER_SOCKET",
        "WORKSPACE_PATH",
        "WORKSPACE_COMMIT",
        "session_token",
    ];
    let mut room = room()
        .env("AGENT_COMMAND", "env")
        .env("AGENT_REQUIRE_USER", "0")
        .env("AGENT_ARGS_JSON", "[]");
    for name in ours {
        room = room.env(name, if name == "AGENT_WORKDIR" { "/tmp" } else { "hush" });
    }
    let kept = [
        ("GITHUB_TOKEN", "t"),
        ("ANTHROPIC_BASE_URL", "http://p"),
        ("OLLAMA_HOST", "h"),
        ("EMPTY", ""),
    ];
    for (name, value) in kept {
        room = room.env(name, value);
    }
    let run = room.run(["/opt/entrypoint"]).succeeds();
    let expected = format!(
        "PATH={PATH}\nGITHUB_TOKEN=t\nANTHROPIC_BASE_URL=http://p\nOLLAMA_HOST=h\nEMPTY=\n\
         HOME=/home/agent\nUSER=agent\nLOGNAME=agent\nSHELL=/bin/bash\n"
    );
    run.stdout(&expected).stderr_lacks("hush").stderr_contains("session token set");
}

/// Uses `execve`, because `env` cannot set a name twice.
#[test]
fn environment_lacks_every_duplicate_of_a_stripped_name() {
    let script = "import ctypes
texts = [b'PATH=/usr/bin', b'SESSION_TOKEN=one', b'X=1', b'SESSION_TOKEN=two', b'X=2', b'odd', None]
words = [b'/opt/entrypoint', b'/usr/bin/cat', b'/proc/self/environ', None]
array = lambda items: (ctypes.c_char_p * len(items))(*items)
ctypes.CDLL(None).execve(words[0], array(words), array(texts))";
    let run = room().before(&["/usr/bin/python3", "-c", script]).run(["unused"]).succeeds();
    assert!(run.output().starts_with("PATH=/usr/bin\0X=1\0X=2\0odd\0HOME="), "{run}");
    run.stdout_lacks("SESSION_TOKEN");
}

#[test]
fn log_lines_have_the_prefix_and_no_values() {
    let run = room()
        .env("SESSION_TOKEN", "hush")
        .env("CONTROL_PLANE_URL", "hush")
        .env("SESSION_ID", "hush")
        .run(["/opt/entrypoint", "sh", "-c", "exit 0 # hush"])
        .succeeds()
        .stderr_lacks("hush")
        .stderr_contains("starting `/usr/bin/sh` with 2 arguments");
    assert!(run.messages().lines().all(|line| line.starts_with("[entrypoint] ")), "{run}");
}

#[test]
fn log_lines_escape_what_would_move_the_cursor() {
    room()
        .env("AGENT_WORKDIR", "/x\u{1b}[2J\ny")
        .run(["/opt/entrypoint", "true"])
        .succeeds()
        .stderr_contains("/x\\u{1b}[2J\\ny")
        .stderr_lacks("\u{1b}");
}

#[test]
fn workdir_is_workspace_by_default_and_a_warning_when_it_is_not_there() {
    room()
        .run(["/opt/entrypoint", "pwd"])
        .succeeds()
        .stdout("/workspace\n")
        .stderr_lacks("working directory");
    room().env("AGENT_WORKDIR", "/tmp").run(["/opt/entrypoint", "pwd"]).succeeds().stdout("/tmp\n");
    room()
        .env("AGENT_WORKDIR", "/gone")
        .run(["/opt/entrypoint", "pwd"])
        .succeeds()
        .stdout("/\n")
        .stderr_contains("warning: cannot use the working directory `/gone`");
    let strict = room().env("AGENT_REQUIRE_USER", "1");
    strict.clone().run(["/opt/entrypoint", "pwd"]).succeeds();
    strict.env("AGENT_WORKDIR", "/gone").run(["/opt/entrypoint", "pwd"]).code(1).stdout("");
}

#[test]
fn program_is_looked_for_in_path_and_only_there() {
    let room = room();
    room.program("opt/tool", "#!/bin/sh\necho from path $0\n");
    room.program("workspace/tool", "#!/bin/sh\necho from workspace $0\n");
    room.write("workspace/plain", "#!/bin/sh\n");
    room.run(["/opt/entrypoint", "tool"]).succeeds().stdout("from path /opt/tool\n");
    room.run(["/opt/entrypoint", "./tool"]).succeeds().stdout("from workspace ./tool\n");
    room.run(["/opt/entrypoint", "nothing"])
        .code(1)
        .stderr_contains("`nothing` is not found in PATH");
    room.run(["/opt/entrypoint", "/opt/nothing"]).code(1).stderr_contains("cannot execute");
    room.run(["/opt/entrypoint", "./plain"]).code(1).stderr_contains("cannot execute");
    let path = |path: &str| room.clone().without_env("PATH").env("PATH", path);
    path(".:/opt")
        .run(["/opt/entrypoint", "tool"])
        .code(1)
        .stderr_contains("only in a relative directory");
    path(":/opt")
        .run(["/opt/entrypoint", "tool"])
        .code(1)
        .stderr_contains("only in a relative directory");
    path("/opt:.").run(["/opt/entrypoint", "tool"]).succeeds().stdout("from path /opt/tool\n");
    path("/proc:/opt").run(["/opt/entrypoint", "tool"]).succeeds();
    room.without_env("PATH").run(["/opt/entrypoint", "tool"]).code(1).stderr_contains("not found");
}

#[test]
fn file_that_is_no_program_ends_with_1_and_no_shell_tries_it() {
    let room = room();
    room.program("opt/no-shebang", "echo a shell ran this\n");
    room.run(["/opt/entrypoint", "no-shebang"]).code(1).stdout("").stderr_contains("#!/bin/sh");
    room.run(["sh", "-c", "/opt/no-shebang"]).succeeds().stdout("a shell ran this\n");
    room.program("opt/garbage", "\u{7f}ELF and so on");
    room.run(["/opt/entrypoint", "garbage"]).code(1);
}

#[test]
fn agent_ends_with_its_own_code_and_as_pid_1_ignores_what_it_has_no_handler_for() {
    room().run(["/opt/entrypoint", "sh", "-c", "exit 7"]).code(7);
    let agent = room().start(["/opt/entrypoint", "sh", "-c", "kill -TERM $$; echo still here"]);
    agent.wait_for("still here\n");
    agent.wait().succeeds();
}

#[test]
fn descriptors_above_2_are_closed_and_the_standard_ones_are_passed_on() {
    let list = "ls /proc/self/fd | tr '\\n' ' '; cat";
    let before = &["/bin/sh", "-c", "exec 5</etc/passwd 9>/tmp/x; exec \"$@\"", "sh"];
    let open = |words: &[&str]| {
        let mut process = room().before(before).start(words);
        process.send("input");
        process.wait().succeeds()
    };
    // The standard descriptors, and the one with which `ls` reads the directory.
    open(&["/opt/entrypoint", "sh", "-c", list]).stdout("0 1 2 3 input");
    open(&["sh", "-c", list]).stdout_contains(" 5 ").stdout_contains(" 9 ");
}

#[test]
fn signals_limits_and_privileges_are_as_an_agent_expects() {
    let look =
        "grep -E '^(NoNewPrivs|CapInh|CapPrm|CapEff|CapAmb)' /proc/self/status; ulimit -c; umask";
    let before = [
        "/bin/sh",
        "-c",
        "ulimit -c 5; umask 027; exec /usr/bin/env --block-signal=USR1 \"$@\"",
        "sh",
    ];
    let none = "0000000000000000";
    room().before(&before).run(["/opt/entrypoint", "sh", "-c", look]).succeeds().stdout(&format!(
        "CapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\n5\n0027\n"
    ));
    let blocked = ["grep", "SigBlk", "/proc/self/status"];
    room().before(&before).run(blocked).succeeds().stdout("SigBlk:\t0000000000000200\n");
    let line = ["/opt/entrypoint"].iter().chain(&blocked);
    room().before(&before).run(line).succeeds().stdout(&format!("SigBlk:\t{none}\n"));
    // No signal is ignored, even if the caller ignored some.
    let caller = ["/usr/bin/env", "--ignore-signal=INT,USR1"];
    let ignored = ["grep", "SigIgn", "/proc/self/status"];
    let control = room().before(&caller).run(ignored).succeeds().output();
    assert!(control.ends_with("202\n"), "the control inherits both: {control}");
    let line = ["/opt/entrypoint"].iter().chain(&ignored);
    room().before(&caller).run(line).succeeds().stdout(&format!("SigIgn:\t{none}\n"));
}

#[test]
fn broken_pipe_ends_the_agents_programs() {
    let script = "yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}";
    room()
        .run(["/opt/entrypoint", "bash", "-c", script])
        .succeeds()
        .stdout(&format!("{}\n", 128 + Signal::PIPE.as_raw()));
}

#[test]
fn start_as_another_user_than_root_is_said_and_goes_on() {
    room()
        .run(["/opt/entrypoint", "id", "-u"])
        .succeeds()
        .stdout("1000\n")
        .stderr_contains("warning: running as uid 1000, not as root");
    let strict = room().env("AGENT_REQUIRE_USER", "1");
    strict.clone().run(["/opt/entrypoint", "id", "-u"]).succeeds().stdout("1000\n");
    strict.clone().env("AGENT_USER", "1000:1000").run(["/opt/entrypoint", "id", "-u"]).succeeds();
    strict
        .clone()
        .env("AGENT_USER", "octobot")
        .run(["/opt/entrypoint", "id", "-u"])
        .code(1)
        .stdout("");
    strict.env("AGENT_USER", "absent-user").run(["/opt/entrypoint", "id", "-u"]).code(1).stdout("");
}

/// The kernel refuses the change of user in a user namespace in which only uid 0 is mapped: `user_namespaces(7)`.
#[test]
fn root_that_cannot_change_user_ends_with_1() {
    let lonely = Room::new(Start::LonelyRoot);
    lonely.run(["/opt/entrypoint", "echo", "ran"]).code(1).stdout("").stderr_contains("cannot");
    // With an unknown user, it continues as root without capabilities.
    lonely
        .clone()
        .env("AGENT_USER", "absent-user")
        .run(["/opt/entrypoint", "grep", "CapEff", "/proc/self/status"])
        .succeeds()
        .stdout("CapEff:\t0000000000000000\n")
        .stderr_contains(
            "warning: the user `absent-user` is not in /etc/passwd; continuing as root",
        );
}

#[test]
fn control_file_is_read_and_gone() {
    let room = room().env("AGENT_CONTROL_FILE", "/run/control/file").env("AGENT_COMMAND", "sh");
    room.write(
        "run/control/file",
        "# by the control plane\nSESSION_TOKEN=hush=1\n\nSESSION_ID=hush\n",
    );
    room.mode("run/control/file", 0o600);
    room.give("run/control", 1000);
    let script = ["/opt/entrypoint", "-c", "env; ls -A /run/control"];
    let run =
        room.run(script).succeeds().stdout_lacks("hush").stdout_lacks("file").stderr_lacks("hush");
    run.stderr_contains("session id set, control plane url not set, session token set");
    // The next start of the same container warns that there is none.
    room.run(script).succeeds().stderr_contains("warning: cannot read the control file");
}

type Spoil<'s> = &'s dyn Fn(&Room);

#[test]
fn control_file_is_refused_when_others_could_have_read_or_chosen_it() {
    let cases: [(&str, Spoil<'_>); 5] = [
        ("access to other users", &|room| room.mode("run/control/file", 0o640)),
        ("access to other users", &|room| room.mode("run/control/file", 0o604)),
        ("not a regular file", &|room| {
            std::fs::remove_file(room.path("run/control/file")).unwrap();
            std::fs::create_dir(room.path("run/control/file")).unwrap();
        }),
        ("cannot read", &|room| {
            std::fs::rename(room.path("run/control/file"), room.path("run/control/other")).unwrap();
            symlink("other", room.path("run/control/file")).unwrap();
        }),
        ("line 2", &|room| room.write("run/control/file", "SESSION_ID=x\nSESSION_TOKENS=hush\n")),
    ];
    for (why, spoil) in cases {
        let room = room().env("AGENT_CONTROL_FILE", "/run/control/file");
        room.write("run/control/file", "SESSION_TOKEN=hush\n");
        room.mode("run/control/file", 0o600);
        spoil(&room);
        room.give("run/control", 1000);
        room.run(["/opt/entrypoint", "echo", "ran"])
            .code(1)
            .stdout("")
            .stderr_contains(why)
            .stderr_lacks("hush");
    }
}

#[test]
fn control_file_that_cannot_be_removed_ends_with_1() {
    let room = room().env("AGENT_CONTROL_FILE", "/run/control/file");
    room.write("run/control/file", "SESSION_TOKEN=hush\n");
    room.mode("run/control/file", 0o600);
    room.give("run/control", 1000);
    room.mode("run/control", 0o555);
    room.run(["/opt/entrypoint", "echo", "ran"])
        .code(1)
        .stdout("")
        .stderr_contains("the agent could read it");
    room.mode("run/control", 0o755);
}
