//! Databases that are damaged, or built to exploit their reader.

use std::time::{Duration, Instant};

use testkit::{World, need};

use super::{Mount, sql, world};

/// Creates a filesystem with a few entries.
fn filled() -> World {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount
        .sh("mkdir -p a/b; echo one > a/file; echo two > a/b/two; ln -s file a/link; rm gone")
        .succeeds();
    mount.end();
    world.run(["fs", "fsck", "one"]).succeeds().stdout("");
    world
}

#[test]
fn fsck_names_every_broken_rule() {
    let ino = |path: &str| format!("(SELECT ino FROM fs_dentry WHERE name = '{path}')");
    for (rule, statement) in [
        ("dangling", "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('lost', 1, 999)".to_owned()),
        ("dangling", format!("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('x', {}, 1)", ino("file"))),
        ("nameless", "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) VALUES (999, 33188, 1, 0, 0, 0)".into()),
        ("links", format!("UPDATE fs_inode SET nlink = 7 WHERE ino = {}", ino("file"))),
        ("chunk", format!("INSERT INTO fs_data VALUES ({}, 50, x'00')", ino("file"))),
        ("chunk", format!("INSERT INTO fs_data VALUES ({}, -1, x'00')", ino("file"))),
        ("chunk", format!("UPDATE fs_inode SET size = 0 WHERE ino = {}", ino("file"))),
        ("orphan", "INSERT INTO fs_data VALUES (999, 0, x'00')".into()),
        ("cycle", format!("UPDATE fs_dentry SET parent_ino = {} WHERE name = 'a'", ino("b"))),
        ("cycle", format!("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('again', 1, {})", ino("b"))),
        ("name", format!("UPDATE fs_dentry SET name = '../up' WHERE ino = {}", ino("file"))),
        ("inode", format!("UPDATE fs_inode SET size = -5 WHERE ino = {}", ino("file"))),
        ("inode", format!("UPDATE fs_inode SET mode = 'x' WHERE ino = {}", ino("file"))),
        ("symlink", "DELETE FROM fs_symlink".into()),
        ("whiteout", "INSERT INTO fs_whiteout VALUES ('/never-there', 0)".into()),
        ("redirect", format!("INSERT INTO sandbox_dir VALUES ({}, CAST('/never-there' AS BLOB))", ino("b"))),
        ("loose", format!("INSERT INTO sandbox_loose VALUES ({})", ino("file"))),
        ("setting", "UPDATE fs_config SET value = '0' WHERE key = 'chunk_size'".into()),
        ("setting", "UPDATE fs_overlay_config SET value = '/never-there'".into()),
        ("root", "UPDATE fs_inode SET mode = 33188 WHERE ino = 1".into()),
    ] {
        let world = filled();
        sql(&world, &statement);
        world.run(["fs", "fsck", "one"]).code(1).stdout_contains(&format!("{rule:<9}  "));
        let run = world.run(["fs", "fsck", "--json", "one"]).code(1);
        assert!(run.output().contains(&format!("\"rule\": \"{rule}\"")), "{run}");
    }
}

#[test]
fn fsck_mends_what_is_safe_and_leaves_the_rest() {
    let world = filled();
    sql(&world, "INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('lost', 1, 999);
        INSERT INTO fs_data VALUES (998, 0, x'00'); INSERT INTO fs_whiteout VALUES ('/never-there', 0);
        UPDATE fs_inode SET nlink = 7 WHERE ino = (SELECT ino FROM fs_dentry WHERE name = 'file')");
    world.run(["fs", "fsck", "one"]).code(1).stderr_contains("--repair");
    world.run(["fs", "fsck", "--repair", "one"]).succeeds().stdout("");
    world.run(["fs", "cat", "one", "a/file"]).succeeds().stdout("one\n");
    world.run(["fs", "ls", "one"]).succeeds().stdout_lacks("gone");
    sql(
        &world,
        "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime) VALUES (999, 33188, 1, 0, 0, 0)",
    );
    world.run(["fs", "fsck", "--repair", "one"]).code(1).stdout_contains("nameless");
    // `fs gc` removes files without a name.
    world.run(["fs", "gc", "one"]).succeeds().stderr_contains("unnamed files: 1");
    world.run(["fs", "fsck", "one"]).succeeds();
}

#[test]
fn gc_gives_space_back() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("head -c 3000000 /dev/urandom > big; cp big keep; rm big").succeeds();
    mount.end();
    world.run(["fs", "gc", "--json", "one"]).succeeds().stdout_contains("\"after\"");
    let size = std::fs::metadata(world.path("project/.agentfs/one.db")).unwrap().len();
    assert!((3_000_000..3_500_000).contains(&size), "{size}");
    world.run(["fs", "fsck", "one"]).succeeds();
}

/// Commands that read must end soon, with or without an error.
#[track_caller]
fn all_end(world: &World, what: &str) {
    let out = world.path("out").display().to_string();
    for words in [
        &["fs", "ls", "-R", "one"][..],
        &["fs", "cat", "one", "a/file"],
        &["fs", "diff", "one"],
        &["fs", "history", "one"],
        &["fs", "fsck", "one"],
        &["fs", "export", "--skip", "one", &out],
        &["fs", "export", "one", "../out.tar"],
    ] {
        let begun = Instant::now();
        let run = world.run(words);
        let code = run.status().code();
        assert!(matches!(code, Some(0 | 1 | 125)), "{what}\n{run}");
        assert!(!run.messages().contains("panicked"), "{what}\n{run}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}\n{run}");
        world.host(["rm", "-rf", &out, "../out.tar"]).succeeds();
    }
}

/// Hostile changes to a database, by name.
const HOSTILE: &[(&str, &str)] = &[
    (
        "a directory inside itself",
        "UPDATE fs_dentry SET parent_ino = (SELECT ino FROM fs_dentry WHERE name = 'b') WHERE name = 'a'; UPDATE fs_dentry SET parent_ino = 1, name = 'top' WHERE name = 'b'",
    ),
    (
        "the root inside a directory",
        "INSERT INTO fs_dentry (name, parent_ino, ino) SELECT 'loop', ino, 1 FROM fs_dentry WHERE name = 'b'",
    ),
    (
        "a table that is a view without end",
        "DROP TABLE tool_calls; CREATE VIEW tool_calls AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS name, 's' AS status, 0 AS started_at, 0 AS duration_ms, '' AS parameters, '' AS result, '' AS error FROM n",
    ),
    (
        "inodes that are a view without end",
        "ALTER TABLE fs_inode RENAME TO other; CREATE VIEW fs_inode AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS ino, 16877 AS mode, 1 AS nlink, 0 AS uid, 0 AS gid, 0 AS size, 0 AS mtime, 0 AS mtime_nsec, 0 AS rdev FROM n",
    ),
    ("chunks of no size", "UPDATE fs_config SET value = '0' WHERE key = 'chunk_size'"),
    (
        "chunks of endless size",
        "UPDATE fs_config SET value = '9223372036854775807' WHERE key = 'chunk_size'",
    ),
    (
        "a chunk size that is not a number",
        "UPDATE fs_config SET value = 'x' WHERE key = 'chunk_size'",
    ),
    (
        "a file of endless size",
        "UPDATE fs_inode SET size = 9223372036854775807 WHERE ino IN (SELECT ino FROM fs_dentry WHERE name = 'file')",
    ),
    ("a negative size", "UPDATE fs_inode SET size = -1"),
    ("numbers that are texts", "UPDATE fs_inode SET uid = 'x', mtime = 1.5"),
    ("an impossible mode", "UPDATE fs_inode SET mode = 4294967295 WHERE ino <> 1"),
    ("names that are paths", "UPDATE fs_dentry SET name = '../../etc/' || name"),
    ("names that are no text", "UPDATE fs_dentry SET name = CAST(id AS BLOB) || x'00'"),
    ("a link to nothing", "UPDATE fs_symlink SET target = ''"),
    ("a base that is not a path", "UPDATE fs_overlay_config SET value = '../..'"),
    (
        "a redirect out of the base",
        "INSERT OR REPLACE INTO sandbox_dir SELECT ino, CAST('/../../etc' AS BLOB) FROM fs_dentry WHERE name = 'a'",
    ),
    (
        "many directories that show the whole base",
        "INSERT OR REPLACE INTO sandbox_dir SELECT ino, CAST('/' AS BLOB) FROM fs_dentry",
    ),
    (
        "a loose file that is a link",
        "INSERT INTO sandbox_loose SELECT ino FROM fs_dentry WHERE name = 'file'",
    ),
    ("no root", "DELETE FROM fs_inode WHERE ino = 1"),
    ("no tables", "DROP TABLE fs_dentry"),
];

#[test]
fn w8_hostile_databases_give_errors() {
    for (what, statement) in HOSTILE {
        let world = filled();
        sql(&world, statement);
        if what.contains("loose") {
            let script = "mkdir .agentfs/one.db-loose; for i in $(seq 1 40); do ln -s /etc/passwd .agentfs/one.db-loose/$i; done";
            world.host(["sh", "-c", script]).succeeds();
            world.run(["fs", "cat", "one", "a/file"]).code(125).stdout("");
        }
        all_end(&world, what);
    }
}

#[test]
fn w8_a_database_that_stands_on_itself_gives_an_error() {
    let world = filled();
    let path = world.path("project/.agentfs/one.db");
    sql(&world, &format!("UPDATE fs_overlay_config SET value = '{}'", path.display()));
    world.run(["fs", "ls", "one"]).code(125).stderr_contains("stacked on each other");
}

#[test]
fn w8_torn_files_give_errors() {
    need("python3");
    let world = filled();
    world.host(["cp", ".agentfs/one.db", "../whole.db"]).succeeds();
    let spoil = "import random, sys
random.seed(int(sys.argv[1])); data = bytearray(open('../whole.db', 'rb').read())
if int(sys.argv[1]) % 4 == 0: data = data[:random.randrange(len(data))]
for _ in range(random.randrange(1, 60)): data[random.randrange(len(data))] = random.randrange(256)
open('.agentfs/one.db', 'wb').write(data)";
    for seed in 0..12 {
        world.host(["python3", "-c", spoil, &seed.to_string()]).succeeds();
        all_end(&world, &format!("seed {seed}"));
    }
    world.write("project/.agentfs/one.db", "this is not a database at all");
    world.run(["fs", "ls", "one"]).code(125);
    world.write("project/.agentfs/one.db", "");
    world.run(["fs", "ls", "one"]).code(125).stderr_contains("not an AgentFS database");
}
