//! Writes into a mount, and its content as seen from outside.

use serde_json::Value;
use testkit::{User, World, need, user};

use super::{Mount, sql, world};

/// Makes changes of every kind.
const CHANGES: &str = "set -e
echo more >> read.me; rm gone; echo new > new; mkdir empty
mv src moved; ln -s moved/deep short; ln new again
head -c 300000 /dev/zero | tr '\\0' x > large";

#[test]
fn what_is_written_stays_out_of_the_base_and_in_the_database() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh(CHANGES).succeeds();
    mount.sh("cat moved/deep/main.rs").succeeds().stdout("fn main() {}\n");
    // Other programs read the database while it is mounted.
    let changes = "A f /again\nA d /empty\nD f /gone\nA f /large\nA d /moved\nA d /moved/deep\n\
                   A f /moved/deep/main.rs\nA f /new\nM f /read.me\nA l /short\nD d /src\n";
    world.run(["fs", "diff", "one"]).succeeds().stdout(changes);
    world.run(["fs", "cat", "one", "read.me"]).succeeds().stdout("from the base\nmore\n");
    sql(&world, "SELECT count(*) > 5 FROM fs_dentry").stdout("1\n");
    mount.end();
    world.host(["ls", "-A", ".agentfs"]).succeeds().stdout("one.db\n");
    world.run(["fs", "diff", "one"]).succeeds().stdout(changes);
    world.run(["fs", "fsck", "one"]).succeeds().stdout("");
    assert_eq!(world.read("base/read.me"), "from the base\n");
    assert!(world.has("base/gone") && world.has("base/src") && !world.has("base/new"));
    let again = Mount::new(&world, &[]);
    again
        .sh("cat read.me moved/deep/main.rs; wc -c < large; stat -c %h new; cat gone")
        .fails()
        .stdout("from the base\nmore\nfn main() {}\n300000\n2\n");
}

#[test]
fn diff_is_json_when_asked() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("echo x > new").succeeds();
    let rows: Value =
        serde_json::from_str(&world.run(["fs", "diff", "--json", "one"]).succeeds().output())
            .unwrap();
    assert_eq!(rows[0]["change"], "A");
    assert_eq!((rows[0]["type"].as_str(), rows[0]["path"].as_str()), (Some("file"), Some("new")));
}

#[test]
fn diff_prints_a_patch_and_leaves_out_what_is_the_same() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("echo more >> read.me; touch gone; chmod 600 gone; chmod 644 gone").succeeds();
    world.run(["fs", "diff", "one"]).succeeds().stdout("M f /read.me\n");
    let patch = world.run(["fs", "diff", "--patch", "one"]).succeeds().output();
    assert!(patch.contains("\n from the base\n+more\n"), "{patch}");
    mount.end();
    need("git");
    world.write("the.patch", &patch);
    world.clone().cwd("base").host(["git", "apply", "../the.patch"]).succeeds();
    assert_eq!(world.read("base/read.me"), "from the base\nmore\n");
}

#[test]
fn a_hard_link_of_the_base_changes_under_all_its_names() {
    let world = world();
    world.host(["ln", "../base/read.me", "../base/other"]).succeeds();
    let mount = Mount::new(&world, &[]);
    mount.sh("echo more >> other; cat read.me").succeeds().stdout("from the base\nmore\n");
    world.run(["fs", "diff", "one"]).succeeds().stdout("M f /other\nM f /read.me\n");
    mount.end();
    world.run(["fs", "cat", "one", "read.me"]).succeeds().stdout("from the base\nmore\n");
    world.run(["fs", "fsck", "one"]).succeeds();
}

#[test]
fn names_that_are_no_text_are_kept() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    let script = "import os; os.chdir(b'.'); open(b'n\\xff', 'w').write('odd'); os.symlink(b't\\xfe', b'l\\xff')";
    need("python3");
    mount.sh(&format!("python3 -c \"{script}\"")).succeeds();
    mount.end();
    let run = world.run(["fs", "ls", "one"]).succeeds();
    assert_eq!(run.output().lines().count(), 6, "{run}");
    Mount::new(&world, &[]).sh("cat n*; readlink l?").succeeds().stdout_contains("odd");
}

#[test]
fn ps_and_mount_without_words_list_what_is_mounted() {
    let world = world();
    world.run(["fs", "ps", "--json"]).succeeds();
    let mount = Mount::new(&world, &[]);
    for words in [["fs", "ps", "--json"], ["fs", "mount", "--json"]] {
        let rows: Value = serde_json::from_str(&world.run(words).succeeds().output()).unwrap();
        let at = mount.at.display().to_string();
        let row =
            rows.as_array().unwrap().iter().find(|row| row["mountpoint"] == at.as_str()).unwrap();
        assert_eq!(row["database"], world.path("project/.agentfs/one.db").display().to_string());
        assert_eq!(row["base"], world.path("base").display().to_string());
        assert_eq!(
            (row["engine"].as_str(), row["state"].as_str()),
            (Some("agentfs"), Some("mounted"))
        );
        assert!(row["pid"].as_i64().unwrap() > 1);
    }
    world
        .run(["fs", "ps"])
        .succeeds()
        .stdout_contains("mounted")
        .stdout_contains(".agentfs/one.db");
    mount.end();
    let database = world.path("project/.agentfs/one.db").display().to_string();
    world.run(["fs", "ps"]).succeeds().stdout_lacks(&database);
}

#[test]
fn a_mount_in_use_is_not_unmounted_unless_asked_twice() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    let mut shell = world.clone().cwd("mnt").host_terminal(["sh"]);
    shell.enter("echo in-the-$((1 + 1))");
    shell.wait_for("in-the-2");
    world.run(["fs", "unmount", "../mnt"]).code(125).stderr_contains("--lazy");
    assert!(mount.is_there());
    world.run(["fs", "unmount", "--lazy", "../mnt"]).succeeds();
    assert!(!mount.is_there());
    shell.enter("exit");
    shell.wait();
}

#[test]
fn mounting_twice_is_refused_and_names_the_way_out() {
    let world = world();
    let _mount = Mount::new(&world, &[]);
    world
        .clone()
        .dir("other")
        .run(["fs", "mount", "one", "../other"])
        .code(125)
        .stderr_contains("in use");
    world.run(["fs", "init", "--force", "one"]).code(125).stderr_contains("in use");
    world.run(["fs", "gc", "one"]).code(125).stderr_contains("in use");
    world.run(["fs", "fsck", "--repair", "one"]).code(125).stderr_contains("in use");
}

#[test]
fn mount_refuses_places_that_cannot_be_mounted_on() {
    let world = world();
    let there = |words: &[&str]| world.run(["fs", "mount"].iter().chain(words));
    there(&["one", "../nowhere"]).code(125).stderr_contains("create the directory first");
    there(&["one", "../base/gone"]).code(125).stderr_contains("as a mountpoint");
    there(&["one", "."]).code(125).stderr_contains("is below the mountpoint");
    there(&["two", "../mnt"]).code(125).stderr_contains("no filesystem `two`");
    there(&["one"]).code(2);
    world
        .run(["fs", "unmount", "../mnt"])
        .code(125)
        .stderr_contains("no agent-sandbox filesystem is mounted");
    world.host(["mv", "../base", "../moved"]).succeeds();
    there(&["one", "../mnt"]).code(125).stderr_contains("the base of the database");
}

#[test]
fn owner_and_group_are_shown_as_asked() {
    let world = world();
    let mount = Mount::new(&world, &["--uid", "4242", "--gid", "4343"]);
    mount.sh("stat -c %u:%g read.me").succeeds().stdout("4242:4343\n");
    mount.end();
    Mount::new(&world, &[]).sh("stat -c %u read.me").succeeds().stdout_lacks("4242");
}

/// Setting of `/etc/fuse.conf` for users who share their mounts.
fn others_allowed() -> bool {
    let text = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    user() == User::Root || text.lines().any(|line| line.trim() == "user_allow_other")
}

#[test]
fn a_user_who_may_not_let_others_in_is_told_what_to_add() {
    let world = world();
    for flag in ["--allow-root", "--system"] {
        let mount = Mount::guard(&world);
        let run = world.run(["fs", "mount", flag, "one", "../mnt"]);
        if others_allowed() {
            run.succeeds();
            mount.end();
        } else {
            run.code(125).stderr_contains("add the line `user_allow_other` to /etc/fuse.conf");
            assert!(!mount.is_there());
        }
    }
}

/// A container whose home is such a mount: the user mounts it, root has access, and others
/// do not.
#[test]
fn the_home_of_an_agent_is_mounted_by_its_user_and_open_to_root() {
    if user() == User::Ordinary {
        return; // The test above covers an ordinary user. Only root can act as two users.
    }
    need("fusermount3");
    need("setpriv");
    let world = World::unseen()
        .file("fuse.conf", "user_allow_other\n")
        .file("data/home/.bashrc", "alias\n")
        .dir("agent");
    let binary = world.binary().display().to_string();
    let script = format!("set -e
cp {binary} agentfs; chmod 755 . agentfs; chown -R 65534:65534 data agent
mount --bind fuse.conf /etc/fuse.conf
as() {{ setpriv --reuid \"$1\" --regid \"$1\" --clear-groups env -C data HOME=/nonexistent \"$@\" ; }}
agent() {{ setpriv --reuid 65534 --regid 65534 --clear-groups env -C data -u XDG_STATE_HOME HOME=$PWD/data/home \"$@\"; }}
agent $PWD/agentfs init --base $PWD/data/home session-1
agent $PWD/agentfs mount -a --allow-root session-1 $PWD/agent
agent sh -c \"echo mine > $PWD/agent/file\"
cat agent/file agent/.bashrc
if setpriv --reuid 65533 --regid 65533 --clear-groups cat agent/file; then echo leaked; fi
test -f data/.agentfs/session-1.db; test ! -e data/home/file
umount agent");
    let world = world.cwd("");
    let run = world.host(["unshare", "-m", "sh", "-c", &script]).succeeds();
    assert!(run.output().starts_with("mine\nalias\n"), "{run}");
    run.stdout_lacks("leaked").stderr_contains("ermission denied");
}

#[test]
fn small_files_take_little_more_room_than_their_bytes() {
    for length in [1024, 2000, 2048, 4096, 6000, 8192, 20_000] {
        let world = world();
        let mount = Mount::new(&world, &[]);
        let script = format!("for i in $(seq 300); do head -c {length} /dev/urandom > f$i; done");
        mount.sh(&script).succeeds();
        mount.end();
        let size = std::fs::metadata(world.path("project/.agentfs/one.db")).expect("a file").len();
        let limit = 300 * length * 14 / 10 + (64 << 10);
        assert!(size < limit, "{size} bytes for 300 files of {length}");
    }
}

#[test]
fn diff_lists_what_changed_in_mode_or_attributes_alone() {
    let world = world();
    let mount = Mount::new(&world, &[]);
    mount.sh("chmod 600 read.me; chmod 700 src; touch src/deep/main.rs").succeeds();
    mount.end();
    world.run(["fs", "diff", "one"]).succeeds().stdout("M f /read.me\nM d /src\n");
}
