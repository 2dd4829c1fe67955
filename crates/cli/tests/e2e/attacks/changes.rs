//! W*, and FS2, FS6, FS7, FS10 and FS11 for `apply`: what a hostile layer tries against the host. W3, W7, W9 and W10
//! are in `changes`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use testkit::{User, World, need, user};

use crate::changes::{change, tree};

/// Returns the directory of the only layer.
fn upper(world: &World) -> PathBuf {
    let layers = world.path("home/.local/share/agent-sandbox/layers");
    let mut layers = fs::read_dir(layers).expect("there is a session").flatten();
    layers.next().expect("it has a layer").path().join("upper")
}

/// Copies a path of the layer by hand, as the control.
#[track_caller]
fn copy_by_hand(world: &World, name: &str) {
    let from = upper(world).join(name).display().to_string();
    world.host(["cp", "-a", "--no-target-directory", &from, name]).succeeds();
}

#[test]
fn w1_fs2_apply_never_writes_through_a_link() {
    let world = || World::new().dir("outside").symlink("project/out", "../outside");
    let script =
        "rm out; mkdir out; echo x > out/x; ln -s ../../outside/y out/y; ln -s /etc/passwd p";
    let one = world();
    change(&one, script);
    one.run(["apply", "out/x"]).code(1).stderr_contains("out");
    let run = one.run(["apply"]).succeeds();
    assert!(run.messages().contains("leads out of the tree"), "{run}");
    assert_eq!(one.read("project/out/x"), "x\n");
    assert!(!one.has("project/out/y") && !one.has("project/p"));
    assert_eq!(fs::read_dir(one.path("outside")).unwrap().count(), 0);
    one.run(["apply", "p"]).succeeds();
    assert_eq!(fs::read_link(one.path("project/p")).unwrap(), PathBuf::from("/etc/passwd"));
    let two = world();
    change(&two, script);
    copy_by_hand(&two, "out/x");
    assert!(two.has("outside/x"), "by hand it lands outside");
}

#[test]
fn w2_a_directory_that_is_swapped_while_it_is_written_leads_nowhere() {
    let world = World::new().dir("outside").dir("project/d");
    change(&world, "for i in $(seq 150); do echo x > d/$i; done");
    let (dir, aside) = (world.path("project/d"), world.path("project/e"));
    let stop = world.path("stop");
    let swap = "while [ ! -e \"$2\" ]; do mv \"$0\" \"$1\"; ln -s ../outside \"$0\"; rm \"$0\"; mv \"$1\" \"$0\"; done";
    let mut swapping =
        Command::new("sh").args(["-c", swap]).args([&dir, &aside, &stop]).spawn().unwrap();
    for _ in 0..8 {
        let run = world.run(["apply"]);
        assert!(matches!(run.status().code(), Some(0 | 1)), "{run}");
        world.run(["undo"]);
    }
    fs::write(&stop, "").unwrap();
    swapping.wait().unwrap();
    assert_eq!(fs::read_dir(world.path("outside")).unwrap().count(), 0);
}

#[test]
fn w4_an_opaque_directory_deletes_nothing_unseen() {
    let world = World::new();
    for number in 0..130 {
        world.write(format!("project/d/{number}"), "x");
    }
    change(&world, "rm -r d; mkdir d; echo new > d/new");
    let names = world.run(["diff", "--name-only"]).succeeds().output();
    assert_eq!(names.lines().filter(|line| line.starts_with("d/")).count(), 131, "{names}");
    world.run(["diff", "--stat"]).succeeds().stdout_contains("130 files deleted");
    world.run(["apply"]).code(1).stderr_contains("delete 130 files");
    assert!(world.has("project/d/7"));
    world.run(["apply", "d/new"]).succeeds();
    assert!(world.has("project/d/7") && world.has("project/d/new"));
    world.run(["apply", "--yes"]).succeeds();
    assert!(!world.has("project/d/7") && world.has("project/d/new"));
}

#[cfg(feature = "setup")]
#[test]
fn w5_fs10_modes_owners_and_attributes_do_not_come_along() {
    let world = World::new().file("project/old", "x\n");
    world.host(["chmod", "600", "old"]).succeeds();
    change(&world, "echo x > suid; chmod 777 suid; echo y > old; chmod 666 old");
    // No process inside can set these bits, but a damaged layer can have them.
    let planted = upper(&world).join("suid");
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o6777)).unwrap();
    let python = need("python3").display().to_string();
    let set = "import os, sys; os.setxattr(sys.argv[1], 'user.evil', b'1')";
    world.host([&python, "-c", set, &planted.display().to_string()]).succeeds();
    let run = world.run(["apply"]).succeeds();
    assert!(run.messages().contains("set-id bits are dropped"), "{run}");
    assert!(run.messages().contains("user.evil"), "{run}");
    let meta = fs::metadata(world.path("project/suid")).unwrap();
    assert_eq!(meta.mode() & 0o7000, 0);
    assert_eq!(meta.mode() & 0o002, 0, "the umask decides, not the layer");
    assert_eq!(fs::metadata(world.path("project/old")).unwrap().mode() & 0o777, 0o600);
    let list = "import os, sys; print(os.listxattr(sys.argv[1]))";
    let attributes = world.host([&python, "-c", list, "suid"]).succeeds();
    assert!(!attributes.output().contains("evil"), "{attributes}");
    copy_by_hand(&world, "suid");
    assert_eq!(fs::metadata(world.path("project/suid")).unwrap().mode() & 0o6000, 0o6000);
}

#[cfg(feature = "setup")]
#[test]
fn w6_fs11_special_files_are_refused() {
    let world = World::new();
    change(&world, "mkfifo pipe; echo x > plain");
    // Through its parent's descriptor: the path may be longer than a socket address can be (`unix(7)`).
    let socket = upper(&world).join("socket").display().to_string();
    let node = "import os, stat, sys; os.mknod(sys.argv[1], stat.S_IFSOCK | 0o600)";
    world.host(["python3", "-c", node, &socket]).succeeds();
    if user() == User::Root {
        let device = upper(&world).join("null").display().to_string();
        world.host(["mknod", &device, "c", "1", "3"]).succeeds();
    }
    let run = world.run(["apply"]).succeeds();
    assert!(
        run.messages().contains("refused: pipe") && run.messages().contains("refused: socket"),
        "{run}"
    );
    world.run(["apply", "pipe", "socket"]).succeeds();
    for special in ["pipe", "socket", "null"] {
        assert!(!world.has(format!("project/{special}")), "{special}");
    }
    assert!(world.has("project/plain"));
    copy_by_hand(&world, "pipe");
    assert!(world.has("project/pipe"), "by hand it lands");
}

#[test]
fn w6_hard_links_land_as_files_of_their_own() {
    let world = World::new();
    change(&world, "echo x > a; ln a b");
    world.run(["apply"]).succeeds().stderr_contains("hard link, applied as a separate file");
    let inode = |name: &str| fs::metadata(world.path(format!("project/{name}"))).unwrap().ino();
    assert_ne!(inode("a"), inode("b"));
}

#[test]
fn w6_a_file_of_holes_does_not_fill_the_disk() {
    let world = World::new();
    change(&world, "truncate -s 7T bomb; truncate -s 64M small; echo x > plain");
    let run = world.run(["apply"]).succeeds();
    assert!(run.messages().contains("refused: bomb"), "{run}");
    assert!(!world.has("project/bomb") && world.has("project/plain"));
    let small = fs::metadata(world.path("project/small")).unwrap();
    assert_eq!(small.len(), 64 << 20);
    assert!(small.blocks() * 512 < 1 << 20, "holes stay holes");
}

#[cfg(feature = "setup")]
#[test]
fn w6_deep_and_long_names_are_applied_and_taken_back() {
    let world = World::new();
    let python = need("python3").display().to_string();
    let script = "import os\nfor n in range(30):\n os.mkdir(chr(97 + n % 26) * 200)\n os.chdir(chr(97 + n % 26) * 200)\nopen('x' * 255, 'w').write('deep')";
    change(&world, &format!("{python} -c \"{script}\""));
    let count = "find . -type f -name 'xxx*' | wc -l";
    world.run(["apply"]).succeeds();
    world.host(["sh", "-c", count]).succeeds().stdout("1\n");
    world.run(["undo"]).succeeds();
    world.host(["sh", "-c", count]).succeeds().stdout("0\n");
}

#[test]
fn w12_what_root_applies_belongs_to_the_owner_of_the_tree() {
    let world = World::new().file("project/old", "x\n");
    let owner = if user() == User::Root {
        12_345
    } else {
        fs::metadata(world.path("project")).unwrap().uid()
    };
    if user() == User::Root {
        world.host(["sh", "-c", "chown -R 12345:12345 . && chmod -R a+rwX ."]).succeeds();
    }
    // overlayfs does not copy up a file whose owner has no id in the user namespace (`EOVERFLOW`): `old` is recreated.
    change(&world, "rm -f old; echo y > old; echo n > new; mkdir m; echo n > m/n; ln -s old l");
    world.run(["apply"]).succeeds();
    for path in ["old", "new", "m", "m/n", "l"] {
        let meta = fs::symlink_metadata(world.path(format!("project/{path}"))).unwrap();
        assert_eq!(meta.uid(), owner, "{path}");
    }
    world.run(["undo"]).succeeds();
    assert_eq!(fs::metadata(world.path("project/old")).unwrap().uid(), owner);
}

#[test]
fn w13_what_a_link_of_the_host_points_to_is_neither_shown_nor_changed() {
    let world =
        World::new().file("outside/secret", "token\n").symlink("project/a", "../outside/secret");
    change(&world, "rm a; echo x > a");
    world.run(["diff"]).succeeds().stdout_lacks("token").stdout_contains("-../outside/secret");
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("outside/secret"), "token\n");
    assert_eq!(world.read("project/a"), "x\n");
    assert!(!saved(&world).contains("token"), "nor kept");
    world.run(["undo"]).succeeds();
    assert_eq!(fs::read_link(world.path("project/a")).unwrap(), PathBuf::from("../outside/secret"));
    // The control: writing by name follows the link.
    world.host(["sh", "-c", "echo x > a"]).succeeds();
    assert_eq!(world.read("outside/secret"), "x\n");
}

/// Returns everything that the sessions store, as text.
fn saved(world: &World) -> String {
    let dir = world.path("home/.local/share/agent-sandbox").display().to_string();
    world.host(["sh", "-c", "find \"$0\" -type f -exec cat {} +", &dir]).succeeds().output()
}

#[test]
fn fs6_a_hard_link_on_the_host_is_not_written_through() {
    let world = World::new().file("outside/other", "x\n").dir("project");
    fs::hard_link(world.path("outside/other"), world.path("project/a")).unwrap();
    change(&world, "echo y > a");
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("project/a"), "y\n");
    assert_eq!(world.read("outside/other"), "x\n");
    fs::remove_file(world.path("project/a")).unwrap();
    fs::hard_link(world.path("outside/other"), world.path("project/a")).unwrap();
    world.host(["sh", "-c", "echo y > a"]).succeeds();
    assert_eq!(world.read("outside/other"), "y\n", "in place it is");
}

#[test]
fn fs7_twins_of_protected_names_wait_like_the_names_themselves() {
    let twins = [
        ".GIT/hooks/pre-commit",
        ".Git/config",
        ".g\u{200c}it/config",
        "sub/GIT~1/config",
        ".VSCode/tasks.json",
        ".ENVRC",
        "claude.MD",
    ];
    let world = World::new();
    let plant = twins.map(|twin| format!("mkdir -p \"$(dirname '{twin}')\"; echo x > '{twin}'"));
    change(&world, &format!("{}; echo x > plain", plant.join("; ")));
    let run = world.run(["apply"]).succeeds();
    for twin in twins {
        assert!(!world.has(format!("project/{twin}")), "{twin}\n{run}");
    }
    assert!(world.has("project/plain"));
    world.run(["apply", ".ENVRC"]).succeeds();
    assert!(world.has("project/.ENVRC"), "named, it is applied");
}

#[test]
fn g4_a_tree_shaped_like_a_repository_waits_too() {
    let world = World::new();
    change(
        &world,
        "mkdir -p bare/refs bare/objects bare/hooks; echo 'ref: x' > bare/HEAD; echo x > bare/config; echo x > bare/hooks/y; mkdir c; echo x > c/config",
    );
    world.run(["apply"]).succeeds().stderr_contains("bare/config");
    assert!(!world.has("project/bare/config") && !world.has("project/bare/hooks/y"));
    assert!(world.has("project/c/config"));
}

#[test]
fn a_links_own_text_is_all_that_is_applied() {
    let world = World::new().file("outside/secret", "token\n");
    symlink("../outside/secret", world.path("project/l")).unwrap();
    let before = tree(&world, "project");
    change(&world, "ln -sf plain l");
    world.run(["apply"]).succeeds();
    assert_eq!(fs::read_link(world.path("project/l")).unwrap(), PathBuf::from("plain"));
    world.run(["undo"]).succeeds();
    assert_eq!(tree(&world, "project"), before);
}
