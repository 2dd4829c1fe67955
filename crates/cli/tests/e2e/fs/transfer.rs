//! Import and export of whole trees.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use testkit::{Run, World, need};

use super::{Mount, world};

/// Returns what `find` prints about a tree: names, types, modes, sizes, targets, times.
#[track_caller]
fn tree(world: &World, dir: &str) -> String {
    let print = r"%P %y %m %T@ %l %n\n";
    let script = format!(
        "cd {dir} && find . -mindepth 1 ! -type d -printf '{print}' | sort; find . -type f -exec md5sum {{}} + | sort"
    );
    world.host(["sh", "-c", &script]).succeeds().output()
}

/// Creates a tree with every kind of file.
fn rich() -> World {
    let world = world();
    let script = "set -e; cd ../base
printf '#!/bin/sh\\n' > run; chmod 751 run; ln read.me hard; touch -d 2001-02-03T04:05:06.789 old
truncate -s 1M sparse; printf end >> sparse; mkdir -m 700 private; echo x > private/x
head -c 200000 /dev/urandom > random; ln -s nowhere dangling; : > empty";
    world.host(["sh", "-c", script]).succeeds();
    world
}

#[cfg(feature = "setup")]
#[test]
fn a_tree_that_goes_out_and_comes_in_is_the_same() {
    let world = rich();
    let mount = Mount::new(&world, &[]);
    mount.sh("mv src moved; rm gone; echo new > new; echo more >> hard; mkdir src").succeeds();
    let wanted = tree(&world, "../mnt");
    mount.end();
    world.run(["fs", "export", "one", "../out"]).succeeds();
    assert_eq!(tree(&world, "../out"), wanted);
    world.run(["fs", "export", "one", "../out.tar"]).succeeds();
    world.run(["fs", "export", "one", "../plain.db"]).succeeds();
    for (id, source) in [
        ("dir", "../out"),
        ("tar", "../out.tar"),
        ("plain", "../plain.db"),
        ("db", ".agentfs/one.db"),
    ] {
        world.run(["fs", "import", id, source]).succeeds();
        world.run(["fs", "fsck", id]).succeeds();
        let out = format!("../out-{id}");
        world.run(["fs", "export", id, &out]).succeeds();
        let whole = |text: &str| match id {
            // Archives store whole seconds.
            "tar" => text
                .replace(".789000000", ".0000000000")
                .lines()
                .map(|line| line.split('.').next().unwrap_or("").to_owned())
                .collect::<Vec<_>>()
                .join("\n"),
            _ => text.to_owned(),
        };
        assert_eq!(whole(&tree(&world, &out)), whole(&wanted), "{id}");
    }
    need("tar");
    world
        .host([
            "sh",
            "-c",
            "mkdir ../untar && tar -xpf ../out.tar -C ../untar && diff -r --no-dereference ../untar ../out",
        ])
        .succeeds();
    // Holes remain holes.
    let blocks = world.host(["stat", "-c", "%b", "../out/sparse"]).succeeds().output();
    assert!(blocks.trim().parse::<u64>().unwrap() < 512, "{blocks}");
}

#[cfg(feature = "setup")]
#[test]
fn a_plain_database_has_only_the_tables_of_agentfs() {
    let world = rich();
    let mount = Mount::new(&world, &[]);
    mount.sh("mv src moved; touch \"$(printf 'odd\\377')\"").succeeds();
    mount.end();
    let odd = world.run(["fs", "export", "one", "../plain.db"]).code(125);
    odd.stderr_contains("its name is not UTF-8").stderr_contains("--skip");
    assert!(!world.has("plain.db"), "nothing half-made is left");
    world
        .run(["fs", "export", "--skip", "one", "../plain.db"])
        .succeeds()
        .stderr_contains(": its name is not UTF-8");
    need("sqlite3");
    world
        .host(["sqlite3", "../plain.db", "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sandbox%'; SELECT count(*) FROM fs_whiteout; SELECT count(*) FROM fs_overlay_config"])
        .succeeds()
        .stdout("0\n0\n0\n");
    world
        .run(["fs", "cat", "../plain.db", "moved/deep/main.rs"])
        .succeeds()
        .stdout("fn main() {}\n");
    let names = world.path("..");
    assert!(
        fs::read_dir(names)
            .unwrap()
            .flatten()
            .all(|entry| !entry.file_name().as_bytes().ends_with(b"-wal"))
    );
}

#[test]
fn pipes_are_refused_by_name_and_left_out_when_asked() {
    let world = world();
    world.host(["mkfifo", "../base/pipe"]).succeeds();
    world
        .run(["fs", "export", "one", "../out"])
        .code(125)
        .stderr_contains("cannot transfer `pipe`");
    world
        .run(["fs", "export", "--skip", "one", "../out2"])
        .succeeds()
        .stderr_contains("skipped `pipe`");
    assert!(world.has("out2/read.me") && !world.has("out2/pipe"));
}

#[test]
fn set_id_bits_do_not_travel() {
    let world = world();
    world.host(["chmod", "6755", "../base/gone"]).succeeds();
    world.run(["fs", "export", "one", "../out"]).succeeds();
    world.host(["stat", "-c", "%a", "../out/gone"]).succeeds().stdout("755\n");
    world.host(["stat", "-c", "%a", "../base/gone"]).succeeds().stdout("6755\n");
}

#[test]
fn standard_streams_carry_archives() {
    let world = world();
    let binary = world.binary().display().to_string();
    let script = format!(
        "{binary} fs export one - | tar -t | sort; {binary} fs export one - 2>/dev/null | {binary} fs import two -"
    );
    world.host(["sh", "-c", &script]).succeeds().stdout_contains("./\ngone\nlink\nread.me\nsrc\n");
    world.run(["fs", "cat", "two", "gone"]).succeeds().stdout("soon\n");
}

/// Writes an archive with Python, whose module checks nothing.
#[track_caller]
fn archive(world: &World, code: &str) {
    need("python3");
    let code = format!("import tarfile, io
t = tarfile.open('../evil.tar', 'w')
def put(name, kind=tarfile.REGTYPE, link='', data=b'evil'):
    i = tarfile.TarInfo(name); i.type = kind; i.linkname = link; i.size = len(data) if kind == tarfile.REGTYPE else 0
    t.addfile(i, io.BytesIO(data))
{code}
t.close()");
    world.host(["python3", "-c", &code]).succeeds();
}

#[track_caller]
fn import_evil(world: &World) -> Run {
    world.run(["fs", "import", "--force", "evil", "../evil.tar"])
}

#[cfg(feature = "setup")]
#[test]
fn w13_an_archive_cannot_lead_out_of_the_tree() {
    let world = world().file("outside/victim", "mine");
    for (code, said) in [
        ("put('../outside/victim')", "leads out of the tree"),
        ("put('a/../../outside/victim')", "leads out of the tree"),
        ("put('/etc/evil')", "leads out of the tree"),
        ("put('a', tarfile.SYMTYPE, '../outside'); put('a/victim')", "no directory to hold it"),
        ("put('a', tarfile.LNKTYPE, '../outside/victim')", "leads out of the tree"),
        ("put('a', tarfile.LNKTYPE, 'not-there')", "not in the archive"),
        ("put('a'); put('a')", "it occurs twice"),
    ] {
        archive(&world, code);
        import_evil(&world).code(125).stderr_contains(said);
        assert!(!world.has("project/.agentfs/evil.db"), "{code}");
    }
    assert_eq!(world.read("outside/victim"), "mine");
    // The control: a link that points outside is stored as a link, and never followed.
    archive(&world, "put('a', tarfile.SYMTYPE, '../outside/victim'); put('b')");
    import_evil(&world).succeeds();
    world.run(["fs", "export", "evil", "../out"]).succeeds();
    world.host(["readlink", "../out/a"]).succeeds().stdout("../outside/victim\n");
    assert_eq!(world.read("outside/victim"), "mine");
}

#[test]
fn w13_export_writes_nothing_through_what_is_there() {
    let world =
        world().file("outside/read.me", "mine").symlink("out-link", "outside").file("full/x", "");
    for to in ["../out-link", "../full"] {
        world.run(["fs", "export", "one", to]).code(125).stderr_contains("already exists");
    }
    for to in ["../taken.tar", "../taken.db"] {
        world.write(to.trim_start_matches("../"), "mine");
        world.run(["fs", "export", "one", to]).code(125).stderr_contains("already exists");
    }
    assert_eq!(world.read("outside/read.me"), "mine");
    assert_eq!(world.read("taken.tar"), "mine");
    // The control: an empty directory is accepted.
    world.clone().dir("free").run(["fs", "export", "one", "../free"]).succeeds();
    assert_eq!(world.read("free/read.me"), "from the base\n");
}

#[test]
fn import_never_replaces_a_filesystem_unless_asked() {
    let world = world();
    world.run(["fs", "import", "one", "../base"]).code(125).stderr_contains("already exists");
    world.run(["fs", "import", "--force", "one", "../base/src"]).succeeds();
    world.run(["fs", "ls", "one"]).succeeds().stdout("d deep\n");
    world.run(["fs", "import", "x", "../nowhere"]).code(125).stderr_contains("cannot read");
    assert!(!world.has("project/.agentfs/x.db"));
}

#[test]
fn a_long_transfer_shows_its_progress_on_a_terminal_only() {
    let world = world();
    world.run(["fs", "export", "one", "../out"]).succeeds().stderr_lacks("\u{1b}[");
    let terminal = world.terminal(["fs", "export", "one", "../out2"]);
    let run = terminal.wait();
    assert!(run.output().contains("entries"), "{run}");
}
