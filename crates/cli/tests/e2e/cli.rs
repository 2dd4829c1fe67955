//! The command line: parsing, pass-through of arguments, and commands that work without a usable system.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use testkit::World;

#[test]
fn words_after_the_command_belong_to_the_command() {
    let world = World::new();
    world.run(["echo", "-h", "--json", "--", "x"]).succeeds().stdout("-h --json -- x\n");
    world.run(["exec", "echo", "--help=no"]).succeeds().stdout("--help=no\n");
    world.run(["--network", "false"]).code(1).stdout("").stderr("");
    world.run(["exec", "--", "echo", "check"]).succeeds().stdout("check\n");
}

#[test]
fn a_command_that_looks_like_a_flag_is_a_command_when_it_stands_after_dashes() {
    let world = World::new();
    world.run(["--", "-x"]).code(127).stderr_contains("command not found: `-x`");
    world.run(["-x"]).code(2).stderr_contains("-x");
}

#[test]
fn arguments_that_are_no_text_reach_the_command_unchanged() {
    let odd = OsString::from_vec(b"a\xffb".to_vec());
    let world = World::new();
    let print: Vec<OsString> =
        ["sh", "-c", "printf %s \"$1\" | od -An -tx1", "sh"].map(Into::into).into();
    world.run(print.into_iter().chain([odd.clone()])).succeeds().stdout(" 61 ff 62\n");
    world.run([odd]).code(127);
}

#[test]
fn an_empty_command_is_not_found() {
    World::new().run([""]).code(127).stderr_contains("command not found");
}

#[test]
#[cfg(feature = "docker")]
fn reserved_words_name_the_way_to_the_program() {
    let world = World::new().file("project/f", "");
    world.run(["rm", "f"]).code(2).stderr_contains("to run the program: agent-sandbox exec rm …");
    assert!(world.has("project/f"));
    world.run(["exec", "rm", "f"]).succeeds();
    assert!(!world.has("project/f"));
}

#[test]
fn mistakes_end_with_2_and_a_suggestion() {
    let world = World::new();
    world.run(["--netwrk", "true"]).code(2).stderr_contains("--network").stdout("");
    world.run(["--cmd", "ls", "true"]).code(2).stderr_contains("NAME=RULE");
    world.run(["--ro", "", "true"]).code(2).stderr_contains("needs a path");
}

#[test]
fn no_words_print_the_usage() {
    let world = World::new();
    world.run([""; 0]).succeeds().stdout_contains("Usage: agent-sandbox").stderr("");
}

#[test]
fn cwd_is_taken_in_every_form() {
    let world = World::new().dir("project/sub");
    let sub = format!("{}\n", world.path("project/sub").display());
    for form in [&["-Csub"][..], &["-C", "sub"], &["-C=sub"], &["--cwd=sub"], &["--cwd", "sub"]] {
        world.run(form.iter().copied().chain(["pwd"])).succeeds().stdout(&sub);
    }
}

/// Runs the binary without bubblewrap: its file is hidden by a mount in a new namespace.
fn without_bwrap(world: &World, args: &[&str]) -> testkit::Run {
    testkit::need("bwrap");
    let script = "for at in /usr/bin/bwrap /usr/local/bin/bwrap; do
        [ ! -e $at ] || mount --bind /dev/null $at || exit 99; done; exec \"$@\"";
    let binary = world.binary().display().to_string();
    let words = ["unshare", "-Urm", "sh", "-c", script, "sh", &binary];
    world.host(words.into_iter().chain(args.iter().copied()))
}

#[test]
fn help_version_and_check_work_when_nothing_else_does() {
    let world = World::new()
        .file("project/.agent-sandbox.json", "{ broken")
        .without_env("HOME")
        .env("PATH", "/usr/bin:/bin");
    without_bwrap(&world, &["--help"]).succeeds().stdout_contains("Usage:");
    without_bwrap(&world, &["exec", "--help"]).succeeds().stdout_contains("Usage:");
    without_bwrap(&world, &["-h"]).succeeds().stdout_contains("Usage:");
    for flag in ["-v", "--version"] {
        without_bwrap(&world, &[flag]).succeeds().stdout_contains("agent-sandbox ");
    }
    for word in ["check", "--check"] {
        without_bwrap(&world, &[word]).code(1).stdout("outside sandbox\n");
    }
    without_bwrap(&world, &["completions", "bash"]).succeeds().stdout_contains("agent-sandbox");
    without_bwrap(&world, &["true"]).code(125).stderr_contains(".agent-sandbox.json:1:");
}

#[test]
fn a_missing_bubblewrap_is_named_with_the_remedy() {
    let world = World::new();
    without_bwrap(&world, &["true"])
        .code(125)
        .stderr("error: bwrap is not in PATH\nhint: install with: apt install bubblewrap\n");
}

#[test]
fn multicall_ends_with_125_outside() {
    let world = World::new();
    world.run(["multicall"]).code(125);
    world.run(["multicall", "git", "status"]).code(125).stderr_contains("inside a sandbox");
}

#[test]
fn manual_pages_have_their_sections() {
    let world = World::new();
    let page = world.run(["man"]).succeeds();
    for section in
        ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "VERSION"]
    {
        let head = if section.contains(' ') {
            format!(".SH \"{section}\"")
        } else {
            format!(".SH {section}")
        };
        assert!(page.output().contains(&head), "{section}\n{page}");
    }
    for name in [
        "AGENT_SANDBOX_TRUST",
        "AGENT_SANDBOX_MOUNTS",
        "NO_COLOR",
        "DOCKER_HOST",
        "XDG_CONFIG_HOME",
    ] {
        assert!(page.output().contains(name), "{name}\n{page}");
    }
    world.run(["man", "--dir", "pages"]).succeeds();
    for name in ["agent-sandbox", "agent-sandbox-why", "agent-sandbox-config-show"] {
        assert!(world.has(format!("project/pages/{name}.1")), "{name}");
    }
}

/// Command lines that start a sandbox.
#[cfg(feature = "docker")]
const STARTING: &[&[&str]] = &[
    &["true"],
    &["exec", "true"],
    &["--cow", "true"],
    &["--session", "s", "true"],
    &["up"],
    &["restart"],
    &["attach"],
    &["--dry-run", "true"],
    &["--dry-run", "up"],
];

/// Command lines that read or write state in the home directory.
#[cfg(feature = "docker")]
const KEEPING: &[&[&str]] = &[
    &["proxy", "--detach"],
    &["serve", "--socket", "s"],
    &["fs", "init", "x"],
    &["fs", "ls", "x"],
    &["ps"],
    &["down"],
    &["down", "--all"],
    &["rm", "x"],
    &["prune", "--yes"],
    &["--dry-run", "prune"],
    &["logs"],
    &["inspect"],
    &["snapshot"],
    &["restore", "x"],
    &["fork", "x"],
    &["history"],
    &["diff"],
    &["apply"],
    &["discard", "--yes"],
    &["undo"],
    &["trust"],
    &["trust", "--list"],
    &["secret", "list"],
    &["usage"],
    &["blocked"],
];

/// Command lines that work without a home directory.
#[cfg(feature = "docker")]
const OTHERS: &[&[&str]] = &[
    &["doctor"],
    &["check"],
    &["config", "path"],
    &["config", "schema"],
    &["host-command", "check"],
    &["completions", "bash"],
    &["man"],
    &["init"],
];

#[test]
#[cfg(feature = "docker")]
fn a_home_that_does_not_exist_is_an_error_and_is_not_made() {
    const MISSING: &str = "does not exist, or is not a directory";
    let world = World::new().file("file", "");
    for home in ["no/home", "file"] {
        let lost = world.clone().env("HOME", world.path(home));
        for line in STARTING {
            let run = lost.run(*line).code(125).stdout("").stderr_contains(MISSING);
            run.stderr_contains("hint: set `HOME`");
        }
        for line in KEEPING {
            lost.run(*line).code(1).stdout("").stderr_contains(MISSING);
        }
        lost.run_with_input("key", ["secret", "set", "x"]).code(1);
        for line in OTHERS {
            lost.run(*line).stderr_lacks(MISSING);
        }
        for line in [&["why", "x"][..], &["config", "show"]] {
            lost.run(line).fails();
        }
        assert!(!world.has("no"), "{home}");
    }
    // The control: a home directory that exists, and one that stores nothing.
    world.run(["true"]).succeeds();
    std::fs::write(world.path("home/bare.json"), "{\"filesystem\": {\"presets\": [\"!@base\"]}}")
        .unwrap();
    let elsewhere = ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].into_iter().fold(
        world.clone().env("HOME", world.path("no/home")),
        |world, name| {
            let dir = world.path("elsewhere");
            world.env(name, dir)
        },
    );
    elsewhere.run(["-c", "../home/bare.json", "true"]).succeeds();
    assert!(!world.has("no"));
}

#[test]
#[cfg(feature = "docker")]
fn host_command_check_prints_a_line_for_each_entry() {
    let config = "[host_commands]\nenabled = true\nallowed = ['mytool', { cmd = 'git status', args = 'none' },\n\
        { cmd = 'make', args = ['test', 'lint*'], deny = ['-C'], paths = 'any', timeout = 60, cwd = '/srv', env = { A = 'hush' } }]\n";
    let world = World::new().file("project/sandbox.toml", config);
    let check = ["--trust", "host-command", "check", "--list", "/nowhere"];
    let run = world.run(check).succeeds();
    for line in [
        "mytool: any arguments, shared paths only, no rules for this tool\n",
        "git status: no arguments, shared paths only, rules for this tool\n",
        "make: arguments test lint*, never -C, any path, in /srv, with A, at most 60 s, ",
    ] {
        assert!(run.output().contains(line), "{line}: {}", run.output());
    }
    let json = world.run(check.iter().copied().chain(["--json"])).succeeds().output();
    assert!(json.contains("\"means\": \"no arguments, shared") && !json.contains("hush"), "{json}");
    // The control: without entries, only the last line is printed.
    let none = World::new().run(["host-command", "check", "--list", "/nowhere"]).succeeds();
    assert_eq!(none.output().lines().count(), 1);
}

#[test]
#[cfg(feature = "docker")]
fn commands_that_only_read_make_nothing_in_the_home() {
    let world = World::new();
    let found = || world.host(["find", &world.path("home").display().to_string()]).output();
    let before = found();
    for line in [
        &["ps"][..],
        &["down", "--all"],
        &["down"],
        &["logs"],
        &["inspect"],
        &["attach"],
        &["restart"],
        &["history"],
        &["diff"],
        &["usage"],
        &["blocked"],
        &["prune", "--yes"],
        &["--dry-run", "prune"],
        &["--dry-run", "up"],
        &["--dry-run", "--cow", "true"],
        &["--dry-run", "true"],
    ] {
        world.run(line);
        assert_eq!(found(), before, "{line:?}");
    }
    // The control: a session is recorded in the home directory.
    world.run(["up"]).succeeds();
    assert_ne!(found(), before);
    world.run(["down"]).succeeds();
}
