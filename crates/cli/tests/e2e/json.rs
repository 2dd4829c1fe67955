//! `--json`: every command that reads prints JSON, and every error is JSON.

use serde_json::Value;
use testkit::{Run, World};

use crate::help::commands;

/// Words after `agent-sandbox --json`.
type Line = &'static [&'static str];

enum Kind {
    /// Prints JSON: for a line that succeeds, and for one that fails.
    Reads(Line, Line),
    /// Changes something, or runs until it is stopped. Its errors are JSON.
    Acts(Line),
    /// Prints a format of its own, and refuses `--json`.
    Refuses(Line),
}
use Kind::{Acts, Reads, Refuses};

/// Every command. A test fails if one is missing.
const TABLE: &[(&str, Kind)] = &[
    ("exec", Acts(&["--session", "nosuch", "exec", "true"])),
    ("up", Reads(&["--dry-run", "up", "--name", "x"], &["up", "--name", "a b"])),
    ("down", Acts(&["down", "nosuch"])),
    ("restart", Acts(&["restart", "nosuch"])),
    ("attach", Acts(&["attach", "nosuch"])),
    ("diff", Reads(&["diff", "-s", "fix"], &["diff", "-s", "nosuch"])),
    ("apply", Reads(&["--dry-run", "apply", "-s", "fix"], &["apply", "-s", "nosuch"])),
    ("discard", Acts(&["discard", "-s", "nosuch"])),
    ("undo", Acts(&["undo", "-s", "nosuch"])),
    ("history", Reads(&["history", "fix"], &["history", "nosuch"])),
    ("snapshot", Acts(&["snapshot", "-s", "nosuch"])),
    ("restore", Acts(&["restore", "-s", "fix", "nosuch"])),
    ("fork", Acts(&["fork", "-s", "nosuch", "x"])),
    ("ps", Reads(&["ps"], &["ps", "x"])),
    ("inspect", Reads(&["inspect", "web"], &["inspect", "nosuch"])),
    ("logs", Reads(&["logs", "web"], &["logs", "--follow", "web"])),
    ("rm", Acts(&["rm", "nosuch"])),
    ("prune", Reads(&["--dry-run", "prune"], &["prune", "nosuch"])),
    ("serve", Reads(&["serve", "--openapi"], &["serve", "--listen", "127.0.0.1:1"])),
    ("why", Reads(&["why", "f"], &["why", "--host", "bad host"])),
    ("init", Reads(&["--dry-run", "init"], &["init", "x"])),
    ("trust", Reads(&["trust", "--list"], &["trust", "nosuch"])),
    ("config show", Reads(&["config", "show"], &["-c", "nosuch", "config", "show"])),
    ("config path", Reads(&["config", "path"], &["config", "path", "x"])),
    ("config schema", Reads(&["config", "schema"], &["config", "schema", "x"])),
    ("secret set", Acts(&["secret", "set", "a/b"])),
    ("secret list", Reads(&["secret", "list"], &["secret", "list", "x"])),
    ("secret rm", Acts(&["secret", "rm", "nosuch"])),
    ("secret test", Acts(&["secret", "test", "nosuch"])),
    ("proxy", Acts(&["proxy", "--listen", "x"])),
    ("usage", Reads(&["usage"], &["usage", "--days", "x"])),
    ("blocked", Reads(&["blocked"], &["blocked", "x"])),
    ("host-command serve", Acts(&["host-command", "serve", "--list", "nosuch"])),
    (
        "host-command check",
        Reads(
            &["host-command", "check", "--list", "nosuch"],
            &["-c", "nosuch", "host-command", "check"],
        ),
    ),
    (
        "host-command setup",
        Reads(&["host-command", "setup", "--undo"], &["host-command", "setup", "--user", "A B"]),
    ),
    ("fs init", Acts(&["fs", "init", "one"])),
    ("fs mount", Reads(&["fs", "mount"], &["fs", "mount", "nosuch", "."])),
    ("fs unmount", Acts(&["fs", "unmount", "nosuch"])),
    ("fs ls", Reads(&["fs", "ls", "one"], &["fs", "ls", "one", "/x"])),
    ("fs cat", Reads(&["fs", "cat", "one", "/text"], &["fs", "cat", "one", "/x"])),
    ("fs diff", Reads(&["fs", "diff", "one"], &["fs", "diff", "nosuch"])),
    ("fs history", Reads(&["fs", "history", "one"], &["fs", "history", "nosuch"])),
    ("fs fsck", Reads(&["fs", "fsck", "one"], &["fs", "fsck", "nosuch"])),
    ("fs gc", Acts(&["fs", "gc", "nosuch"])),
    ("fs import", Acts(&["fs", "import", "one", "nosuch"])),
    ("fs export", Acts(&["fs", "export", "nosuch", "x.tar"])),
    ("fs ps", Reads(&["fs", "ps"], &["fs", "ps", "x"])),
    (
        "image build",
        Reads(&["--dry-run", "image", "build"], &["image", "build", "--init", "nosuch"]),
    ),
    ("doctor", Reads(&["doctor"], &["doctor", "x"])),
    ("check", Reads(&["check"], &["check", "x"])),
    ("completions", Refuses(&["completions", "bash"])),
    ("man", Refuses(&["man"])),
    ("help", Reads(&["help", "exec"], &["help", "nosuch"])),
    ("version", Reads(&["version"], &["version", "x"])),
];

#[track_caller]
fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.output()).unwrap_or_else(|error| panic!("not JSON: {error}\n{run}"))
}

#[track_caller]
fn is_error(run: &Run) {
    let value = parsed(run);
    let error = value["error"].as_object().unwrap_or_else(|| panic!("no error\n{run}"));
    let keys: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(keys, ["code", "hint", "message"], "{run}");
    for key in ["code", "message"] {
        assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{key}\n{run}");
    }
    assert!(error["hint"].is_null() || error["hint"].is_string(), "{run}");
    assert!(!run.status().success(), "{run}");
}

/// Returns a world with a session that was up, a session of a command, and a filesystem.
fn world() -> World {
    let world = World::new().file("files/text", "text\n").file("files/bytes", [0, 255]);
    world.run(["--session", "fix", "sh", "-c", "echo a > f"]).succeeds();
    world.run(["up", "--name", "web"]).succeeds();
    world.run(["down", "web"]).succeeds();
    world.run(["fs", "import", "one", "../files"]).succeeds();
    world
}

#[test]
fn commands_that_read_print_json_and_all_errors_are_json() {
    let world = world();
    let run = |line: Line| world.run(["--json"].iter().chain(line));
    let (mut leaves, above) = commands(&world);
    for (path, kind) in TABLE {
        let failing = match kind {
            Reads(line, failing) => {
                let value = parsed(&run(line));
                assert!(value.get("error").is_none(), "{line:?}: {value}");
                failing
            }
            Acts(failing) | Refuses(failing) => failing,
        };
        is_error(&run(failing));
        if *path != "exec" {
            // An unknown flag, before and after `--json`.
            is_error(&world.run(path.split(' ').chain(["--no-such-flag", "--json"])));
            is_error(
                &world.run(["--json"].into_iter().chain(path.split(' ')).chain(["--no-such-flag"])),
            );
        }
    }
    for path in above {
        is_error(&world.run(["--json"].into_iter().chain(path.split(' '))));
    }
    let mut listed: Vec<_> = TABLE.iter().map(|(path, _)| (*path).to_owned()).collect();
    leaves.sort();
    listed.sort();
    assert_eq!(leaves, listed, "the table lists every command");
}

#[test]
fn errors_have_the_code_that_fits_them() {
    let world = world();
    for (line, code) in [
        (&["rm", "nosuch"][..], "not_found"),
        (&["prune", "nosuch"], "not_found"),
        (&["inspect", "fix"], "not_found"),
        (&["fs", "cat", "one", "/x"], "not_found"),
        (&["fs", "cat", "one", "/"], "invalid"),
        (&["config"], "invalid"),
        (&["completions", "bash"], "invalid"),
    ] {
        let value = parsed(&world.run(["--json"].iter().chain(line)).fails());
        assert_eq!(value["error"]["code"], code, "{line:?}: {value}");
    }
    let config = parsed(&world.run(["--json", "config"]));
    assert_eq!(config["error"]["message"], "`config` needs a subcommand");
}

#[test]
fn fs_cat_prints_text_or_base64_under_json() {
    let world = world();
    let cat = |path: &str| parsed(&world.run(["--json", "fs", "cat", "one", path]).succeeds());
    assert_eq!(cat("/text"), serde_json::json!({ "path": "text", "text": "text\n" }));
    assert_eq!(cat("/bytes"), serde_json::json!({ "path": "bytes", "base64": "AP8=" }));
    world.run(["fs", "cat", "one", "/text"]).succeeds().stdout("text\n");
}

/// A session of single commands is in `ps`, so an error must not say that it does not exist.
#[test]
fn a_session_that_was_never_up_is_named_as_such() {
    let world = world();
    for word in ["inspect", "logs", "down", "restart", "attach"] {
        let run = world.run([word, "fix"]).code(2).stdout("");
        run.stderr_contains("session `fix` was never up")
            .stderr_contains("agent-sandbox diff -s fix");
        world.run([word, "nosuch"]).code(2).stderr_contains("there is no session `nosuch`");
    }
}
