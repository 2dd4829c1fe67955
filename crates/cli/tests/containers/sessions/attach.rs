//! Attaching to the terminal of a container's agent, and detaching.

use testkit::CTRL_C;

use super::stage::{NAME, Stage};

fn agent(script: &str) -> String {
    format!("[agent]\ncommand = 'sh'\nargs = ['-c', '''{script}''']")
}

#[test]
fn attach_joins_the_agents_terminal_and_leaves_it_alone_again() {
    let stage = Stage::up(&agent(
        "trap 'echo now $(stty size)' WINCH; echo $$ > pid; while :; do read line && echo \"heard $line at $(tty)\"; done",
    ));
    let mut first = stage.world.terminal(["attach", NAME]);
    first.wait_for("now 24 80");
    first.resize(40, 100);
    first.wait_for("now 40 100");
    first.enter("one");
    first.wait_for("heard one at /dev/");
    // Two clients see the same output.
    let mut second = stage.world.terminal(["attach", NAME]);
    second.wait_for("Ctrl-P Ctrl-Q");
    second.enter("two");
    second.wait_for("heard two");
    first.wait_for("heard two");
    first.keys("\x10\x11");
    first.wait().code(0);
    // A key that only starts like the detach keys is input, and the engine's detach keys have no meaning here.
    second.keys("\x10x\x1e\x1f");
    second.enter("three");
    second.wait_for("three at");
    second.keys("\x10\x11");
    second.wait().code(0);
    // The agent was not disturbed: the same process, with all its output in the log.
    let pid = stage.world.read("project/pid");
    stage.sh(&format!("kill -0 {pid}")).succeeds();
    let log = stage.world.run(["logs", NAME]).succeeds().output();
    assert!(log.contains("heard one at") && !log.contains('\r'), "{log:?}");
}

#[test]
fn attach_ends_with_the_agent_and_its_code() {
    let script = "trap 'exit 9' INT; while :; do echo tick; sleep 0.1; done";
    let stage = Stage::up(&agent(script));
    let mut terminal = stage.world.terminal(["attach", NAME]);
    terminal.wait_for("tick");
    terminal.keys(CTRL_C);
    terminal.wait().code(9);
    // With an init as PID 1, it works alike.
    stage.configure(&format!("{}\ninit = 'supervise'", agent(script)));
    stage.bring_up().succeeds();
    let mut terminal = stage.world.terminal(["attach", NAME]);
    terminal.wait_for("tick");
    terminal.keys(CTRL_C);
    terminal.wait().code(9);
}

/// A client that stops reading does not stop the agent.
#[test]
fn a_watcher_who_does_not_read_is_let_go_of() {
    let stage = Stage::up(&agent(
        "read line; i=0; while [ $i -lt 3000 ]; do printf '%01000d\\n' $i; i=$((i + 1)); done; echo > done; sleep 1000",
    ));
    // Its output is an unread pipe.
    let script = format!(
        "trap 'kill -KILL 0' TERM; (sleep 1; echo go; sleep 1000) | '{}' attach {NAME} | sleep 1000 & wait",
        stage.world.binary().display()
    );
    let watcher = stage.world.start(["sh", "-c", &script]);
    testkit::until("the agent goes on", || stage.world.has("project/done").then_some(()));
    // It ends with all its children.
    watcher.signal(testkit::Signal::TERM);
    drop(watcher);
}

#[test]
fn attach_says_that_there_is_no_agent() {
    let stage = Stage::up("");
    stage
        .world
        .run(["attach", NAME])
        .code(125)
        .stderr_contains("no agent")
        .stderr_contains("exec -it");
}
