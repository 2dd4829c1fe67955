//! A terminal for a command in a session.

use testkit::{CTRL_C, CTRL_Z, World};

use super::{inside, up};

fn on_terminal(script: &str) -> [&str; 7] {
    ["exec", "-it", "-s", "project", "sh", "-c", script]
}

#[test]
fn a_terminal_has_the_callers_size_and_follows_it() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let script =
        "trap 'echo now $(stty size)' WINCH; echo at $(stty size); while :; do sleep 0.05; done";
    let mut terminal = world.terminal(on_terminal(script));
    terminal.wait_for("at 24 80");
    terminal.resize(40, 100);
    terminal.wait_for("now 40 100");
    terminal.keys(CTRL_C);
    terminal.wait().code(130);
}

#[test]
fn a_terminal_is_one_inside_and_never_the_callers_own() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let own =
        world.terminal(["exec", "-s", "project", "sh", "-c", "test -t 1 && echo yes || echo no"]);
    own.wait_for("no");
    own.wait().code(0);
    let mut terminal = world.terminal(on_terminal(
        "test -t 0 && test -t 1 && test -t 2 && echo is-one; echo $TERM; read x; echo got-$x",
    ));
    terminal.wait_for("is-one");
    terminal.wait_for("xterm-256color");
    terminal.enter("words");
    terminal.wait_for("got-words");
    terminal.wait().code(0);
}

/// Programs that open their terminal by name find it, and no terminal of the host.
#[cfg(feature = "setup")]
#[test]
fn a_terminal_has_a_name_inside_and_is_none_of_this_machines() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let script = "name=$(tty); echo \"is $name\"; echo by-name > $name; ls /dev/pts; read x < $name; echo got-$x";
    let mut terminal = world.terminal(on_terminal(script));
    terminal.wait_for("is /dev/pts/0");
    terminal.wait_for("by-name");
    terminal.enter("words");
    terminal.wait_for("got-words");
    terminal.wait().code(0);
    // The next one has the same number: the devpts instance belongs to the session.
    let mut first = world.terminal(on_terminal("tty; read x"));
    first.wait_for("/dev/pts/0");
    let second = world.terminal(on_terminal("tty"));
    second.wait_for("/dev/pts/1");
    second.wait().code(0);
    first.enter("");
    first.wait().code(0);
    let tmux = "tmux -L named new-session 'echo in-$((40 + 2)); read x'";
    let mut full = world.terminal(on_terminal(tmux));
    full.wait_for("in-42");
    full.enter("");
    full.wait().code(0);
}

/// End of input on a terminal is a key. After half a line it must be typed twice.
#[test]
fn the_end_of_the_input_is_told_on_a_terminal() {
    let world = World::new();
    let _guard = up(&world, &[]);
    for (typed, heard) in [("line\n", "line\r\nline\r\n"), ("half", "halfhalf"), ("", "")] {
        let run = world.run_with_input(typed, ["exec", "-it", "-s", "project", "cat"]);
        run.succeeds().stdout(heard);
    }
    // Without `-i` there is no input.
    world.run(["exec", "-t", "-s", "project", "cat"]).succeeds().stdout("");
    world.run(["exec", "-t", "-s", "project", "echo", "said"]).succeeds().stdout("said\r\n");
}

#[test]
fn keys_reach_the_job_in_front_and_jobs_can_be_stopped() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let mut terminal = world.terminal(["exec", "-it", "-s", "project", "sh", "-i"]);
    terminal.enter("echo read''y");
    terminal.wait_for("ready");
    // Waits for the foreground program, because a signal key flushes the input queue (`termios(3)`, NOFLSH).
    terminal.enter("sh -c 'echo slee''ping; exec sleep 1000'");
    terminal.wait_for("sleeping");
    terminal.keys(CTRL_C);
    terminal.enter("echo still-$((40+2))");
    terminal.wait_for("still-42");
    terminal.enter("sh -c 'echo rest''ing; exec sleep 1000'");
    terminal.wait_for("resting");
    terminal.keys(CTRL_Z);
    terminal.wait_for("topped");
    terminal.enter("kill %1; exit 5");
    terminal.enter("exit 5");
    terminal.wait().code(5);
    world.run(inside("true")).succeeds();
}

#[test]
fn a_command_is_suspended_and_continued_by_the_callers_shell() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let binary = world.binary().display().to_string();
    let mut shell = world.host_terminal(["bash", "--norc", "-i"]);
    // Its shell does not fork from here on: a child that is stopped between vfork(2) and its exec would keep the shell
    // from stopping, as on every terminal.
    shell.suspends_and_continues(&format!("'{binary}' exec -it -s project"));
    // Without a shell to return to, it continues.
    let mut terminal = world.terminal(on_terminal("echo began; read x; echo got-$x"));
    terminal.wait_for("began");
    terminal.keys(CTRL_Z);
    terminal.enter("more");
    terminal.wait_for("got-more");
    terminal.wait().code(0);
    shell.enter("exit");
    shell.wait();
}

#[test]
fn attach_joins_the_agents_terminal_and_leaves_it_alone_again() {
    let world = World::new();
    world.write(
        "agent.toml",
        "backend = 'bwrap'\n[agent]\ncommand = 'sh'\n\
         args = ['-c', 'while read line; do echo heard-$line at $(stty size); test $line = end && exit 6; done']\n",
    );
    let file = world.path("agent.toml").display().to_string();
    let _guard = up(&world, &["-c", &file]);
    let mut terminal = world.terminal(["attach"]);
    terminal.wait_for("Attached. Detach with");
    terminal.enter("one");
    terminal.wait_for("heard-one at 24 80");
    // Two clients may be attached, and each sees the other's input.
    let mut second = world.terminal(["attach", "project"]);
    second.wait_for("Attached. Detach with");
    terminal.resize(30, 90);
    second.enter("two");
    terminal.wait_for("heard-two");
    second.keys("\x10\x11");
    second.wait().code(0);
    terminal.enter("end");
    terminal.wait_for("heard-end");
    terminal.wait().code(6);
    world.run(["logs"]).succeeds().stdout_contains("heard-two").stdout_contains("heard-end");
    // The client ended, and the session did not.
    world.run(["attach"]).code(6);
    world.run(inside("true")).succeeds();
}

#[test]
fn t2_a_log_commands_no_terminal_but_keeps_its_colours() {
    let world = World::new();
    // The clipboard, and a query that terminals answer as if it had been typed.
    let script = r"printf '\033]52;c;eA==\007\033[6n\033[31mred\033[0m said\n'; sleep 1000";
    let config = format!(
        "backend = 'bwrap'\n[agent]\ncommand = 'sh'\nargs = ['-c', \"\"\"{}\"\"\"]\n",
        script.replace('\\', "\\\\")
    );
    world.write("agent.toml", config);
    let file = world.path("agent.toml").display().to_string();
    let _guard = up(&world, &["-c", &file]);
    let raw = "\x1b]52;c;eA==\x07\x1b[6n\x1b[31mred\x1b[0m said\n";
    super::eventually("the agent has spoken", || world.run(["logs"]).succeeds().output() == raw);
    let terminal = world.terminal(["logs"]);
    terminal.wait_for("said");
    let shown = terminal.output();
    assert!(shown.contains(r"\u{1b}]52;c;eA==\u{7}\u{1b}[6n"), "{shown:?}");
    assert!(shown.contains("\x1b[31mred\x1b[0m"), "{shown:?}");
    terminal.wait().code(0);
}
