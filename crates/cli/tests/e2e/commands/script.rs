//! Commands that a script of the user replaces.

use testkit::{Run, Signal, User, World, need, user};

use crate::probe::sh;

const WRAPPER: &str = r#"#!/bin/sh
case $1 in
  stdin) exec cat ;;
  code) exit "$2" ;;
  die) kill -TERM $$ ;;
  real) shift; exec "$AGENT_SANDBOX_REAL" "$@" ;;
  *) echo "$AGENT_SANDBOX_CMD:$#"; for word; do echo "[$word]"; done ;;
esac
"#;

/// Assertions for a launcher that is this binary, and for one that is a shell script.
#[track_caller]
fn each(check: impl Fn(&dyn Fn(&str) -> Run)) {
    let world = World::new()
        .exec_file("project/wrap.sh", WRAPPER)
        .file("binary.toml", "commands.wc = 'wrap.sh'\n")
        .file("shim.toml", "launcher = 'shim'\ncommands.wc = 'wrap.sh'\n");
    for config in ["binary.toml", "shim.toml"] {
        let config = world.path(config).display().to_string();
        check(&|script| world.run(["-c", &config].into_iter().chain(sh(script))));
    }
}

#[test]
fn script_gets_arguments_input_and_the_commands_name() {
    each(|run| {
        run("wc a 'b c' ''").succeeds().stdout("wc:3\n[a]\n[b c]\n[]\n");
        run("echo text | wc stdin").succeeds().stdout("text\n");
        run("/usr/bin/wc -x").succeeds().stdout("wc:1\n[-x]\n");
    });
}

#[test]
fn scripts_exit_code_and_death_come_through() {
    each(|run| {
        run("wc code 7").code(7);
        run("wc code 0").succeeds();
        run("wc die; echo $?").succeeds().stdout("143\n");
        run("exec wc die").code(143);
    });
}

#[test]
fn script_reaches_the_real_program() {
    each(|run| {
        run("printf 'a\\nb\\n' | wc real -l").succeeds().stdout("2\n");
        run("wc real --no-such-flag").code(1).stderr_contains("no-such-flag");
    });
}

#[test]
fn script_that_calls_its_own_command_gets_the_real_one() {
    let world =
        World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho wrapped >&2\nwc \"$@\"\n");
    let run = world.run_with_input("a\n", ["--cmd", "wc=wrap.sh", "wc", "-l"]);
    run.succeeds().stdout("1\n").stderr("wrapped\n");
}

#[cfg(feature = "setup")]
#[test]
fn script_may_be_named_by_home_by_layer_and_by_any_interpreter() {
    need("python3");
    let world = World::new()
        .exec_file("home/bin/wrap.py", "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")
        .file("home/.config/agent-sandbox/config.toml", "commands.wc = '~/bin/wrap.py'\n");
    world.run(["wc", "-l", "x"]).succeeds().stdout("['-l', 'x']\n");
    world.run(["--cmd", "wc=true", "wc", "-l", "/dev/null"]).succeeds().stdout("0 /dev/null\n");
    world.run(["--cmd", "wc=false", "wc"]).code(1);
}

#[test]
fn wrapper_whose_interpreter_is_ruled_itself_still_runs() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho wrapped\n");
    world.run(["--cmd", "wc=wrap.sh", "--cmd", "sh=false", "wc"]).succeeds().stdout("wrapped\n");
    world.run(["--cmd", "wc=wrap.sh", "--cmd", "sh=false", "sh", "-c", "true"]).code(1);
}

#[test]
fn script_that_cannot_be_read_is_refused() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\n");
    world.host(["chmod", "000", "wrap.sh"]).succeeds();
    if user() == User::Ordinary {
        world.run(["--cmd", "wc=wrap.sh", "true"]).code(125).stderr_contains("wrap.sh");
    }
    world.host(["chmod", "644", "wrap.sh"]).succeeds();
    world.run(["--cmd", "wc=wrap.sh", "wc"]).succeeds();
}

#[test]
fn wrapper_script_cannot_be_changed_from_inside() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho mine\n");
    let flags = ["--cmd", "wc=wrap.sh"];
    for tried in ["echo evil > wrap.sh", "mv wrap.sh x", "rm -f wrap.sh"] {
        world.run(flags.into_iter().chain(sh(tried))).fails();
    }
    world.run(flags.into_iter().chain(["wc"])).succeeds().stdout("mine\n");
    world.run(sh("mv wrap.sh x")).succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn real_program_keeps_the_name_it_was_called_by() {
    need("python3");
    let show = "import sys; sys.stdout.write(open('/proc/self/cmdline').read().split(chr(0))[0])";
    let world = World::new()
        .exec_file("project/wrap.sh", "#!/bin/sh\nexec \"$AGENT_SANDBOX_REAL\" \"$@\"\n")
        .exec_file("home/bin/tool", "#!/bin/sh\necho \"tool says ${0##*/}\"\n");
    world.run(["--cmd", "python3=true", "python3", "-c", show]).succeeds().stdout("python3");
    let path = format!("{}:/usr/bin:/bin", world.path("home/bin").display());
    let world = world.env("PATH", path);
    world.run(["--cmd", "tool=wrap.sh", "tool"]).succeeds().stdout("tool says tool\n");
}

#[cfg(feature = "setup")]
#[test]
fn real_program_finds_what_lies_beside_it() {
    need("python3");
    let cli = "#!/usr/bin/env python3\nimport os, sys\n\
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'lib'))\n\
        import helper\nhelper.main(sys.argv[1:])\n";
    let relative =
        "#!/bin/sh\n. \"$(dirname \"$(readlink -f \"$0\")\")/../lib/helper.sh\"\nmain \"$@\"\n";
    let world = World::new()
        .exec_file("home/tools/lib/pkg/bin/cli.py", cli)
        .file("home/tools/lib/pkg/lib/helper.py", "def main(args): print('python', *args)\n")
        .symlink("home/tools/bin/pytool", "../lib/pkg/bin/cli.py")
        .exec_file("home/tools/lib/pkg/bin/cli.sh", relative)
        .file("home/tools/lib/pkg/lib/helper.sh", "main() { echo \"shell $*\"; }\n")
        .symlink("home/tools/bin/shtool", "../lib/pkg/bin/cli.sh")
        .exec_file("project/wrap.sh", "#!/bin/sh\nexec \"$AGENT_SANDBOX_REAL\" \"$@\"\n");
    let path = format!("{}:/usr/bin:/bin", world.path("home/tools/bin").display());
    let world = world.env("PATH", path);
    for (tool, says) in [("pytool", "python"), ("shtool", "shell")] {
        let said = format!("{says} a b\n");
        world.run([tool, "a", "b"]).succeeds().stdout(&said);
        let rule = format!("{tool}=wrap.sh");
        world.run(["--cmd", &rule, tool, "a", "b"]).succeeds().stdout(&said);
    }
}

#[test]
fn death_of_the_real_program_by_a_signal_is_seen_by_the_caller() {
    let world = World::new()
        .exec_file("project/wrap.sh", "#!/bin/sh\nexec \"$AGENT_SANDBOX_REAL\" \"$@\"\n");
    let flags = ["--cmd", "sleep=wrap.sh"];
    let script = "sleep 60 & kill -KILL $!; wait $!; echo $?";
    world.run(flags.into_iter().chain(sh(script))).succeeds().stdout("137\n");
    let run = world.spawn(flags.into_iter().chain(sh("echo up; exec sleep 60")));
    run.wait_for("up");
    run.signal(Signal::TERM);
    run.wait().code(143);
}
