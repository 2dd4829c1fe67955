//! Parallel access: writers on one tree, readers of its database, several trees.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use testkit::{Engine, Layered, World, need, rounds};

const WRITERS: usize = 8;

#[test]
fn overlay_serves_many_writers() {
    race(Engine::Overlay);
}

#[test]
fn agentfs_serves_many_writers() {
    race(Engine::AgentFs);
}

/// All writers use the same names: only one creates each, no appended line is lost, a renamed file is always complete.
fn race(engine: Engine) {
    let world = World::new()
        .file("tree/base/log", "")
        .file("tree/base/whole", "0".repeat(9000))
        .dir("tree/base/shared");
    let mut tree = Layered::new(&world, "tree", engine);
    let root = tree.path();
    let created = AtomicUsize::new(0);
    let names = rounds(400, 10_000);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (root, created) = (&root, &created);
            scope.spawn(move || write_along(root, writer, names, created));
        }
    });
    assert_eq!(created.into_inner(), names, "each name is created once");
    tree.remount();
    let root = tree.path();
    let mut lines: Vec<String> =
        fs::read_to_string(root.join("log")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let expected = (0..WRITERS)
        .flat_map(|writer| (0..names).map(move |number| format!("{writer:03} {number:06}")));
    assert!(
        lines
            .iter()
            .map(String::as_str)
            .eq(expected.collect::<Vec<_>>().iter().map(String::as_str)),
        "lines are lost or torn"
    );
    for writer in 0..WRITERS {
        assert_eq!(
            fs::read_dir(root.join(format!("own{writer}"))).unwrap().count(),
            names - names.div_ceil(3)
        );
    }
}

/// Runs one of the writers.
fn write_along(root: &Path, writer: usize, names: usize, created: &AtomicUsize) {
    fs::create_dir(root.join(format!("own{writer}"))).unwrap();
    for number in 0..names {
        let shared = root.join(format!("shared/{number}"));
        if let Ok(mut file) = OpenOptions::new().write(true).create_new(true).open(shared) {
            created.fetch_add(1, Ordering::Relaxed);
            write!(file, "{writer}").unwrap();
        }
        let own = root.join(format!("own{writer}/{number}"));
        fs::write(&own, format!("{writer} {number}")).unwrap();
        let mut log = OpenOptions::new().append(true).open(root.join("log")).unwrap();
        log.write_all(format!("{writer:03} {number:06}\n").as_bytes()).unwrap();
        if number % 10 == 0 {
            let fresh = root.join(format!("own{writer}/fresh"));
            fs::write(&fresh, writer.to_string().repeat(9000)).unwrap();
            fs::rename(&fresh, root.join("whole")).unwrap();
        }
        let whole = fs::read(root.join("whole")).unwrap();
        let even = whole.iter().all(|byte| *byte == whole[0]);
        assert!(whole.len() == 9000 && even, "torn: {} bytes", whole.len());
        if number % 3 == 0 {
            fs::remove_file(own).unwrap();
        }
    }
}

#[test]
fn agentfs_is_read_by_others_while_it_is_written() {
    need("sqlite3");
    let world = World::new().file("tree/base/old", "old");
    let mut tree = Layered::new(&world, "tree", Engine::AgentFs);
    let root = tree.path();
    let over = AtomicBool::new(false);
    let database = tree.database();
    let reads = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..rounds(1500, 30_000) {
                fs::write(
                    root.join(format!("file {}", number % 300)),
                    number.to_string().repeat(number % 2000),
                )
                .unwrap();
            }
            over.store(true, Ordering::Release);
        });
        let mut reads = 0;
        while !over.load(Ordering::Acquire) {
            let asked = "pragma integrity_check; select count(*) from fs_dentry;";
            let line = [
                "sqlite3".into(),
                "-readonly".into(),
                database.clone().into_os_string(),
                asked.into(),
            ];
            assert!(world.host(line).succeeds().output().starts_with("ok\n"));
            tree.fs(["diff", "tree"]).succeeds();
            tree.fs(["ls", "tree"]).succeeds();
            reads += 1;
        }
        writer.join().unwrap();
        reads
    });
    assert!(reads > 0);
    tree.fs(["diff", "tree"]).succeeds().stdout_contains("file 299");
    tree.unmount();
    tree.fs(["fsck", "tree"]).succeeds();
}

#[test]
fn agentfs_shows_the_length_that_one_of_two_descriptors_wrote() {
    let world = World::new();
    let tree = Layered::new(&world, "tree", Engine::AgentFs);
    let large = tree.path().join("large");
    fs::write(&large, vec![1; 300_000]).unwrap();
    let writer = OpenOptions::new().read(true).write(true).open(&large).unwrap();
    writer.write_all_at(&vec![2; 100_000], 300_000).unwrap();
    drop(fs::File::open(&large).unwrap());
    drop(writer);
    // A listing comes from the daemon, not from the kernel's cached write.
    let listed = fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    assert_eq!(listed.map(|meta| meta.len()).collect::<Vec<_>>(), [400_000]);
}

#[test]
fn agentfs_mounts_a_hundred_trees_beside_each_other() {
    let world = World::new().file("base/old", "old");
    let mounted: Vec<Layered> = (0..100)
        .map(|number| {
            let world = world.clone().symlink(format!("{number}/base"), world.path("base"));
            Layered::new(&world, number.to_string(), Engine::AgentFs)
        })
        .collect();
    for (number, tree) in mounted.iter().enumerate() {
        fs::write(tree.path().join("own"), number.to_string()).unwrap();
        fs::write(tree.path().join("old"), format!("new {number}")).unwrap();
    }
    for (number, mut tree) in mounted.into_iter().enumerate() {
        assert_eq!(fs::read_to_string(tree.path().join("own")).unwrap(), number.to_string());
        assert_eq!(fs::read_to_string(tree.path().join("old")).unwrap(), format!("new {number}"));
        tree.unmount();
    }
    assert_eq!(world.read("base/old"), "old");
}
