//! `host-command serve` as the forced command of a real sshd, with a real client.

use std::io::Write;

use serde_json::Value;
use testkit::Signal;

use crate::sshd::Sshd;
use crate::stage::{denied, ends, runs, until};

fn audit(sshd: &Sshd, lines: usize) -> Vec<Value> {
    until("the audit log has its lines", || {
        let text =
            std::fs::read_to_string(sshd.world.path("state/audit.jsonl")).unwrap_or_default();
        let parsed: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (parsed.len() >= lines).then_some(parsed)
    })
}

fn pid_in(sshd: &Sshd, path: &str) -> i32 {
    until("a process has written its number", || {
        std::fs::read_to_string(sshd.world.path(path)).ok()?.trim().parse().ok()
    })
}

#[test]
fn requests_run_with_streams_and_exit_codes() {
    let sshd = Sshd::new("");
    sshd.ask("mytool 'a b' \"c  d\" e\\ f ''").succeeds().stdout("<a b><c  d><e f><>\n");
    sshd.ask("mytool both").succeeds().stdout("to-out\n").stderr("to-err\n");
    sshd.ask("mytool code 7").code(7);
    sshd.ask("mytool die").code(137);
    let mut cat = sshd.world.start(sshd.words("key", &[], &["mytool", "cat"]));
    for line in ["one\n", "two\n"] {
        cat.send(line);
        cat.wait_for(line);
    }
    cat.wait().succeeds().stdout("one\ntwo\n");
    denied(sshd.ask("rm -rf /"), "rm", "not among the host commands");
    denied(sshd.client(&[], &[]), "", "there is no command");
    let lines = audit(&sshd, 7);
    assert_eq!((&lines[2]["transport"], &lines[2]["code"]), (&"ssh".into(), &7.into()));
    assert_eq!((&lines[5]["outcome"], &lines[6]["outcome"]), (&"denied".into(), &"denied".into()));
}

/// Bypasses that worked on earlier wrapper scripts.
#[test]
fn e2_bypasses_of_wrappers_do_nothing() {
    let sshd = Sshd::new(
        "allowed = ['mytool', 'git status', 'git', 'docker ps', 'systemctl', 'journalctl']",
    );
    sshd.world.clone().git_init("work");
    let mark = sshd.world.path("mark");
    let mark = mark.display();
    for line in [
        &format!("git version; touch {mark}"),
        &format!("mytool x && touch {mark}"),
        &format!("mytool $(touch {mark})"),
        &format!("mytool `touch {mark}`"),
        &format!("mytool x\ntouch {mark}"),
        &format!("git -c 'alias.x=!touch {mark}' x"),
        &format!("git -c 'core.pager=touch {mark}' -p log"),
        &format!("git -c 'core.sshCommand=touch {mark}' fetch ssh://x/y"),
        &format!("git -c 'diff.external=touch {mark}' diff"),
        &format!("git ls-remote '--upload-pack=touch {mark};' ."),
        &format!("git fetch 'ext::touch {mark}'"),
        "git push --force",
        "docker run -v /:/h x",
        "systemctl link /workspace/x.service",
        "journalctl --file=/etc/shadow",
        "cd /workspace && git status",
        "FOO=1 git status",
        "/usr/bin/git status",
        "sudo git status",
        "sh -c id",
        "mytool *",
        "mytool ~",
        "mytool > /tmp/x",
        "mytool 'open",
    ] {
        let run = sshd.ask(line);
        assert!(!sshd.world.has("mark"), "{line} ran\n{run}");
        if line.starts_with("git fetch 'ext::") {
            run.fails();
            continue;
        }
        let name =
            if line.starts_with("cd") { "cd" } else { line.split([' ', '\n']).next().unwrap() };
        assert!(run.messages().starts_with(&format!("denied: {name}\n")), "{line}\n{run}");
        run.code(1).stdout("");
    }
    sshd.ask("git version").succeeds();
    // The control: a shell runs the first of them.
    sshd.plain(&[], &[&format!("git version; touch {mark}")]).succeeds();
    assert!(sshd.world.has("mark"));
}

#[test]
fn h3_forwarding_terminals_sftp_and_variables_are_refused() {
    let sshd = Sshd::new("");
    let target = format!("127.0.0.1:{}", sshd.port());
    // `-W` opens a channel to the target, which is sshd and sends its greeting.
    sshd.client(&["-W", &target], &[]).fails().stdout("");
    sshd.plain(&["-W", &target], &[]).stdout_contains("SSH-2.0");
    let back = ["-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1"];
    sshd.client(&back, &["mytool", "x"]).fails().stdout("");
    sshd.plain(&back, &["echo", "x"]).succeeds().stdout_contains("x\n");
    let socket = format!("{}:127.0.0.1:1", sshd.world.path("back").display());
    let back = ["-o", "ExitOnForwardFailure=yes", "-R", &socket];
    sshd.client(&back, &["mytool", "x"]).fails().stdout("");
    let tty = ["-tt", "-o", "LogLevel=INFO"];
    let run = sshd.client(&tty, &["mytool", "x"]);
    assert!(run.messages().contains("PTY allocation request failed"), "{run}");
    if testkit::user() == testkit::User::Root {
        // sshd of an ordinary user cannot chown terminals.
        sshd.plain(&["-tt"], &["tty"]).stdout_contains("/dev/pts");
    }
    // A subsystem has no standard error.
    sshd.client(&["-s"], &["sftp"]).code(1).stdout("");
    let last = audit(&sshd, 1).pop().unwrap();
    assert_eq!((&last["argv"][0], &last["outcome"]), (&"internal-sftp".into(), &"denied".into()));
    let variable = ["-o", "SetEnv=LD_PRELOAD=/x.so GIT_SSH=x SECRET=x"];
    sshd.client(&variable, &["mytool", "env"])
        .succeeds()
        .stdout_lacks("SECRET")
        .stdout_lacks("LD_PRELOAD");
    sshd.plain(&["-o", "SetEnv=SECRET=x"], &["env"]).stdout_contains("SECRET=x");
    let agent = sshd.world.clone().env("SSH_AUTH_SOCK", sshd.world.path("agent"));
    agent.host(sshd.words("key", &["-A"], &["mytool", "env"])).stdout_lacks("SSH_AUTH_SOCK");
}

#[test]
fn h4_a_key_is_bound_to_its_place_and_time() {
    for (options, works) in [
        (",from=\"127.0.0.1\",expiry-time=\"29990101\"", true),
        (",from=\"192.0.2.1\"", false),
        (",expiry-time=\"20200101\"", false),
    ] {
        let sshd = Sshd::with_options("", options);
        let run = sshd.ask("mytool x");
        if works {
            run.succeeds().stdout("<x>\n");
        } else {
            run.code(255).stdout("");
        }
    }
}

#[test]
fn h7_a_client_that_goes_takes_its_command_along() {
    let sshd = Sshd::new("allowed = [{ cmd = 'mytool', paths = 'any' }]");
    for (name, signal) in [("one", Signal::TERM), ("two", Signal::KILL)] {
        let file = sshd.world.path(name).display().to_string();
        let client = sshd.world.start(sshd.words("key", &[], &["mytool", "flee", &file, "stay"]));
        let pid = pid_in(&sshd, name);
        assert!(runs(pid));
        client.signal(signal);
        drop(client);
        ends(pid);
    }
    assert!(audit(&sshd, 2).iter().all(|line| line["outcome"] == "gone"));
    // The control: sshd itself does not restrict such a command.
    let file = sshd.world.path("three").display().to_string();
    let mytool = sshd.world.path("bin/mytool").display().to_string();
    sshd.plain(&[], &[&mytool, "flee", &file]).succeeds();
    let pid = pid_in(&sshd, "three");
    assert!(runs(pid));
    sshd.world.host(["kill", "-KILL", &pid.to_string()]).succeeds();
}

#[test]
fn h7_time_output_and_number_have_limits() {
    let sshd = Sshd::new(
        "allowed = ['mytool', { cmd = 'mytool wait', timeout = 1 }]\noutput = 1000\nparallel = 1",
    );
    sshd.ask("mytool wait").code(124).stderr_contains("took longer than 1 seconds");
    let run = sshd.ask("mytool flood").code(137).stderr_contains("printed more than 1000 bytes");
    assert_eq!(run.output().len(), 1000);
    let mut first = sshd.world.start(sshd.words("key", &[], &["mytool", "echo", "here"]));
    first.wait_for("here");
    denied(sshd.ask("mytool x"), "mytool", "1 host commands are already running");
    first.close_input();
    first.wait().succeeds();
    sshd.ask("mytool x").succeeds();
}

#[test]
fn nothing_passes_without_a_list() {
    let sshd = Sshd::new("");
    std::fs::remove_file(sshd.world.path("list.toml")).unwrap();
    sshd.ask("mytool x").code(1).stdout("").stderr_contains("without it, no command is allowed");
    let mut file = std::fs::File::create(sshd.world.path("list.toml")).unwrap();
    file.write_all(b"allowed = ['mytool'").unwrap();
    sshd.ask("mytool x").code(1).stdout("").stderr_contains("invalid list of host commands");
}
