//! Tests of the test kit, with a shell in place of the binary.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

fn world() -> World {
    World::with_binary("/bin/sh")
}

/// Returns the panic message of a failing test.
fn failure(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("the assertion fails");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn run_starts_in_the_project_with_a_home_of_its_own() {
    let world = world().file("home/diary", "dear");
    let project = format!("{}\n", world.path("project").display());
    world.run(["-c", "pwd"]).succeeds().stdout(&project).stderr("");
    world.run(["-c", "cat ~/diary"]).succeeds().stdout("dear");
    world.host(["sh", "-c", "cat ~/diary"]).succeeds().stdout("dear");
    world.clone().cwd("home").run(["-c", "cat diary"]).succeeds().stdout("dear");
}

#[test]
fn run_passes_no_variable_of_the_developer_on() {
    let world = world().env("WANTED", "yes").env("DROPPED", "x").without_env("DROPPED");
    let run = world.host(["env"]).succeeds().stdout_contains("WANTED=yes\n");
    run.stdout_lacks("DROPPED").stdout_lacks("CARGO").stdout_lacks("RUST");
}

#[test]
fn run_reports_code_and_signal_apart() {
    let world = world();
    world.run(["-c", "exit 7"]).fails().code(7);
    world.run(["-c", "kill -TERM $$"]).killed_by(Signal::TERM);
    let text = failure(|| drop(world.run(["-c", "kill -TERM $$"]).fails()));
    assert!(text.contains("expected an exit code other than 0"), "{text}");
}

#[test]
fn assertion_shows_the_transcript_when_it_fails() {
    let world = world();
    let run = || world.run(["-c", "echo out; echo err >&2; exit 3"]);
    for (wanted, assertion) in [
        ("exit code 0", (|run: Run| run.succeeds()) as fn(Run) -> Run),
        ("stdout to be \"x\"", |run| run.stdout("x")),
        ("\"x\" in stdout", |run| run.stdout_contains("x")),
        ("no \"out\" in stdout", |run| run.stdout_lacks("out")),
        ("stderr to be \"x\"", |run| run.stderr("x")),
        ("\"x\" in stderr", |run| run.stderr_contains("x")),
        ("no \"err\" in stderr", |run| run.stderr_lacks("err")),
        ("death by", |run| run.killed_by(Signal::KILL)),
    ] {
        let text = failure(|| drop(assertion(run())));
        for part in
            [wanted, "'echo out; echo err >&2; exit 3'", "exit status: 3", "\nout\n", "\nerr\n"]
        {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
    }
}

#[test]
fn run_fails_when_something_outlives_the_command() {
    let world = world();
    let text = failure(|| drop(world.run(["-c", "sleep 15 & echo left"])));
    assert!(text.contains("another process outlived the command"), "{text}");
}

#[test]
fn input_reaches_the_command() {
    let world = world();
    world.run_with_input("a b\n", ["-c", "read x; echo \"<$x>\""]).succeeds().stdout("<a b>\n");
    world.run(["-c", "cat"]).succeeds().stdout("");
    world.run_with_input("this is not read", ["-c", "exec <&-; exit 0"]).succeeds();
}

#[test]
fn files_links_and_programs_are_made_with_their_parents() {
    let world = world()
        .exec_file("project/bin/greet", "#!/bin/sh\necho hello \"$1\"\n")
        .symlink("project/link", "bin/greet")
        .symlink("project/dangling", "nowhere")
        .dir("outside/deep/er");
    world.host(["./link", "you"]).succeeds().stdout("hello you\n");
    world.write("outside/deep/note", "one");
    assert_eq!(world.read("outside/deep/note"), "one");
    for (path, there) in
        [("outside/deep/er", true), ("project/dangling", true), ("project/nowhere", false)]
    {
        assert_eq!(world.has(path), there, "{path}");
    }
}

#[test]
fn world_lies_in_no_private_place_and_in_no_repository() {
    let world = world();
    assert!(!world.path("").starts_with("/tmp"), "{}", world.path("").display());
    world.host(["git", "rev-parse", "--git-dir"]).fails().stderr_contains("not a git repository");
}

#[test]
fn world_is_gone_with_its_last_clone_although_parts_were_locked() {
    let world = world().file("project/locked/file", "");
    let (locked, root) = (world.path("project/locked"), world.path(""));
    std::fs::set_permissions(locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    let clone = world.clone();
    drop(world);
    assert!(root.try_exists().unwrap());
    drop(clone);
    assert!(!root.try_exists().unwrap());
}

#[test]
fn git_init_commits_what_is_there() {
    let world = world().file("project/a", "one").git_init("project").git_init("outside");
    world
        .host(["git", "log", "--format=%an %s", "--name-only"])
        .succeeds()
        .stdout("Test start\n\na\n");
    world.host(["git", "status", "--porcelain", "--branch"]).succeeds().stdout("## main\n");
    world.clone().cwd("outside").host(["git", "log", "--format=%s"]).succeeds().stdout("start\n");
}

#[test]
fn process_answers_while_it_runs() {
    let world = world();
    let mut process = world.spawn([
        "-c",
        "trap 'echo got TERM; exit 9' TERM; echo up >&2; while read x; do echo [$x]; done",
    ]);
    process.wait_for_message("up");
    for word in ["one", "two"] {
        process.send(&format!("{word}\n"));
        process.wait_for(&format!("[{word}]"));
    }
    assert!(process.is_running());
    process.signal(Signal::TERM);
    process.send("three\n");
    process.wait_for("got TERM");
    process.wait().code(9);
}

#[test]
fn process_and_its_group_end_when_the_test_lets_go() {
    let world = world();
    let process = world.spawn(["-c", "sleep 1000 & echo $!; wait"]);
    process.wait_for("\n");
    let group = process.pid();
    drop(process);
    // The sleeper was reparented. It disappears once its new parent reaps it.
    let gone = || rustix::process::test_kill_process_group(group).is_err();
    assert!((0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        gone()
    }));
}

#[test]
fn wait_for_fails_at_once_when_the_command_is_over() {
    let world = world();
    let text = failure(|| world.spawn(["-c", "echo other"]).wait_for("this"));
    assert!(text.contains("never saw \"this\"") && text.contains("other"), "{text}");
}

#[test]
fn terminal_is_a_terminal_with_a_size() {
    let world = world();
    let mut terminal = world.terminal(["-c", "tty; stty size; read x; stty size; exit 4"]);
    terminal.wait_for("/dev/pts/");
    terminal.wait_for("24 80");
    terminal.resize(50, 132);
    terminal.keys(ENTER);
    terminal.wait_for("50 132");
    terminal.wait().code(4).stdout_contains("/dev/pts/");
}

#[test]
fn terminal_has_job_control() {
    need("bash");
    let mut terminal = world().env("PS1", "now> ").host_terminal(["bash", "--norc", "-i"]);
    terminal.wait_for("now> ");
    // The job must not fork: a child that is stopped between vfork and exec prevents its parent from stopping.
    terminal.enter("bash -c 'trap \"echo ag\"ain CONT; echo rea\"\"dy; read'");
    terminal.wait_for("ready");
    terminal.keys(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.wait_for("now> ");
    terminal.enter("fg");
    terminal.wait_for("again");
    terminal.keys(CTRL_C);
    terminal.wait_for("now> ");
    terminal.enter("exit $((40 + 2))");
    terminal.wait().code(42);
}

#[test]
fn terminal_ends_with_its_input() {
    let mut terminal = world().terminal(["-c", "cat; echo over"]);
    terminal.enter("text");
    terminal.wait_for("text\r\ntext\r\n");
    terminal.keys(CTRL_D);
    terminal.wait_for("over");
    terminal.wait().succeeds();
}

#[test]
fn need_says_how_to_install_what_is_missing() {
    assert!(need("sh").is_absolute());
    let text = failure(|| drop(need("no-such-tool")));
    assert!(text.contains("apt install no-such-tool"), "{text}");
}

#[test]
fn new_world_uses_the_binary_that_cargo_built_beside_the_test() {
    let binary = World::new().binary().to_owned();
    assert!(binary.ends_with("agent-sandbox"), "{}", binary.display());
}

#[test]
fn user_is_root_exactly_when_its_id_is_0() {
    let root = world().host(["id", "-u"]).succeeds().output() == "0\n";
    assert_eq!(user() == User::Root, root);
}

#[test]
fn rounds_are_short_unless_this_is_a_soak() {
    let wanted = if crate::caller::setting("AGENT_SANDBOX_SOAK").is_some() { 900 } else { 3 };
    assert_eq!(rounds(3, 900), wanted);
}
