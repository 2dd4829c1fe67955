//! Creating filesystems, and reading them without a mount.

use testkit::{World, need};

use super::{sql, world};

#[test]
fn fs_without_a_word_shows_its_help() {
    let run = World::new().run(["fs"]).succeeds().stderr("");
    for word in [
        "init", "mount", "unmount", "ls", "cat", "diff", "history", "fsck", "gc", "import",
        "export", "ps",
    ] {
        assert!(run.output().contains(&format!("\n  {word} ")), "no {word}\n{run}");
    }
}

#[test]
fn init_makes_a_private_file_and_never_another_of_that_name() {
    let world = world();
    world.host(["stat", "-c", "%a", ".agentfs/one.db"]).succeeds().stdout("600\n");
    world
        .run(["fs", "init", "one"])
        .code(125)
        .stderr_contains("already exists")
        .stderr_contains("--force");
    world.run(["fs", "ls", "one"]).succeeds().stdout("f gone\nl link\nf read.me\nd src\n");
    world.run(["fs", "init", "--force", "one"]).succeeds();
    world.run(["fs", "ls", "one"]).succeeds().stdout("");
    // One file, with no other file beside it.
    world.host(["ls", "-A", ".agentfs"]).succeeds().stdout("one.db\n");
}

#[test]
fn init_chooses_an_id_when_none_is_given() {
    let world = World::new();
    let id = world.run(["fs", "init"]).succeeds().output();
    assert!(world.has(format!("project/.agentfs/{}.db", id.trim())), "{id}");
    world.run(["fs", "ls", id.trim()]).succeeds();
}

#[test]
fn an_id_is_never_a_path() {
    let world = World::new();
    for bad in ["../one", "a/b", "..", ".", "", "a b", "ü", ".x", ".db", "-x"] {
        world.run(["fs", "init", "--", bad]).code(2);
    }
    assert!(!world.has("project/.agentfs"), "nothing is made for a name that is none");
    world.run(["fs", "ls", "a b"]).code(2).stderr_contains("invalid ID");
    for good in ["A-z_9", "x.y..z", "x.db"] {
        world.run(["fs", "init", good]).succeeds();
        world.run(["fs", "ls", good]).succeeds().stdout("");
    }
}

#[test]
fn init_refuses_a_base_that_is_no_directory() {
    let world = World::new().file("project/file", "");
    world.run(["fs", "init", "--base", "nowhere", "x"]).code(125).stderr_contains("does not exist");
    world
        .run(["fs", "init", "--base", "file", "x"])
        .code(125)
        .stderr_contains("is not a directory");
    assert!(!world.has("project/.agentfs/x.db"));
}

#[test]
fn a_missing_filesystem_is_named_with_those_that_are_there() {
    let world = world();
    world
        .run(["fs", "ls", "two"])
        .code(125)
        .stderr_contains("no filesystem `two` in this directory")
        .stderr_contains("existing: one");
    world.run(["fs", "ls", "./nowhere.db"]).code(125).stderr_contains("no database");
}

#[test]
fn ls_and_cat_show_the_base_through_the_layer() {
    let world = world();
    world
        .run(["fs", "ls", "-R", "one"])
        .succeeds()
        .stdout("f gone\nl link\nf read.me\nd src\nd src/deep\nf src/deep/main.rs\n");
    world.run(["fs", "ls", "one", "src/deep"]).succeeds().stdout("f src/deep/main.rs\n");
    world.run(["fs", "cat", "one", "/read.me"]).succeeds().stdout("from the base\n");
    // By path, from another directory.
    let path = world.path("project/.agentfs/one.db").display().to_string();
    world.clone().cwd("home").run(["fs", "cat", &path, "gone"]).succeeds().stdout("soon\n");
    world.run(["-C", "../project", "fs", "cat", "one", "gone"]).succeeds().stdout("soon\n");
    world.run(["fs", "cat", "one", "nope"]).code(125).stderr_contains("no `nope`");
    world.run(["fs", "cat", "one", "src"]).code(125).stderr_contains("not a regular file");
    world.run(["fs", "cat", "one", "../base/gone"]).code(125);
    world.run(["fs", "diff", "one"]).succeeds().stdout("").stderr("no changes\n");
}

#[test]
fn ls_prints_json_with_where_each_entry_comes_from() {
    let world = world();
    let run = world.run(["fs", "ls", "--json", "one"]).succeeds();
    let rows: serde_json::Value = serde_json::from_str(&run.output()).unwrap();
    let link = rows.as_array().unwrap().iter().find(|row| row["path"] == "link").unwrap();
    assert_eq!(
        (link["type"].as_str(), link["target"].as_str(), link["from"].as_str()),
        (Some("symlink"), Some("read.me"), Some("base"))
    );
}

#[test]
fn names_cannot_fool_a_terminal() {
    let world = World::new().file("base/a\u{1b}[31mb\nc\u{202e}d", "").dir("mnt");
    world.run(["fs", "init", "--base", "../base", "one"]).succeeds();
    let run = world.run(["fs", "ls", "one"]).succeeds();
    assert_eq!(run.output().lines().count(), 1, "{run}");
    assert!(!run.output().contains(['\u{1b}', '\u{202e}']), "{run}");
}

#[cfg(feature = "setup")]
#[test]
fn history_shows_what_callers_have_logged() {
    need("sqlite3");
    let world = world();
    world.run(["fs", "history", "one"]).succeeds().stdout("").stderr("no tool calls\n");
    sql(
        &world,
        "INSERT INTO tool_calls (name, parameters, status, started_at, completed_at, duration_ms) VALUES ('search', '{\"q\":1}', 'success', 1700000000, 1700000002, 2000), ('rm', NULL, 'error', 1700000003, NULL, NULL)",
    );
    world
        .run(["fs", "history", "one"])
        .succeeds()
        .stdout_contains("2023-11-14 22:13:20  search  success  2000 ms  {\"q\":1}")
        .stdout_contains("rm");
    let run = world.run(["fs", "history", "--limit", "1", "--json", "one"]).succeeds();
    let rows: serde_json::Value = serde_json::from_str(&run.output()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["name"], "rm");
}

#[test]
fn a_database_that_cannot_be_written_can_be_read() {
    let world = world();
    world.host(["sh", "-c", "chmod 400 .agentfs/one.db; chmod 500 .agentfs"]).succeeds();
    world.run(["fs", "cat", "one", "gone"]).succeeds().stdout("soon\n");
    world.host(["ls", "-A", ".agentfs"]).succeeds().stdout("one.db\n");
    world.host(["chmod", "700", ".agentfs"]).succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn a_database_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let world = world();
    for version in ["99.0", "0.5", "1.0", "next"] {
        let set = format!(
            "UPDATE fs_config SET value='{version}' WHERE key='schema_version'; PRAGMA wal_checkpoint(TRUNCATE)"
        );
        sql(&world, &set);
        let before = std::fs::read(world.path("project/.agentfs/one.db")).expect("a database");
        for words in [
            vec!["mount", "one", "../mnt"],
            vec!["ls", "one"],
            vec!["cat", "one", "read.me"],
            vec!["diff", "one"],
            vec!["history", "one"],
            vec!["fsck", "one"],
            vec!["fsck", "--repair", "one"],
            vec!["gc", "one"],
            vec!["export", "one", "../out"],
            vec!["import", "new", ".agentfs/one.db"],
        ] {
            let run = world.run(["fs"].iter().chain(&words));
            assert_ne!(run.status().code(), Some(0), "{run}");
            run.stderr_contains(&format!("version `{version}`"));
            let now = std::fs::read(world.path("project/.agentfs/one.db")).expect("a database");
            assert!(before == now, "{words:?} changed it");
        }
    }
    // The control: older versions, and databases without a version, are read.
    for version in ["'0.4'", "'0.2'", "'0.4.1'"] {
        sql(&world, &format!("UPDATE fs_config SET value={version} WHERE key='schema_version'"));
        world.run(["fs", "ls", "one"]).succeeds();
    }
    sql(&world, "DELETE FROM fs_config WHERE key='schema_version'");
    world.run(["fs", "ls", "one"]).succeeds();
    world.run(["fs", "gc", "one"]).succeeds();
}
