//! Kernel caches and passthrough: data that the kernel serves without a request must stay correct.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use testkit::{Engine, Layered, World, rounds};

const LARGE: usize = 3 << 20;

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251 + seed) % 256).unwrap()).collect()
}

/// A large file in the database is read, so that the kernel caches it, and then written.
#[test]
fn a_copy_that_is_written_is_the_content() {
    let world = World::new().dir("tree/base");
    let mut tree = Layered::new(&world, "tree", Engine::AgentFs);
    let mut model = pattern(LARGE, 1);
    fs::write(tree.path().join("large"), &model).unwrap();
    tree.remount();
    let path = tree.path().join("large");
    assert!(fs::read(&path).unwrap() == model, "as it was stored");
    let reader = File::open(&path).unwrap();
    let writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    for (round, at) in [0, 70_000, LARGE - 5000, LARGE + 9000].into_iter().enumerate() {
        let part = pattern(5000, round + 7);
        writer.write_all_at(&part, at as u64).unwrap();
        model.resize(model.len().max(at + part.len()), 0);
        model[at..at + part.len()].copy_from_slice(&part);
        let mut seen = vec![0; part.len()];
        reader.read_exact_at(&mut seen, at as u64).unwrap();
        assert!(seen == part, "who had it open sees what was written at {at}");
    }
    drop((reader, writer));
    assert!(fs::read(&path).unwrap() == model, "who opens it later");
    tree.kill();
    tree.mount();
    assert!(fs::read(tree.path().join("large")).unwrap() == model, "after the daemon was killed");
    let path = tree.path().join("large");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(2 << 20).unwrap();
    file.set_len(LARGE as u64).unwrap();
    drop(file);
    model.truncate(2 << 20);
    model.resize(LARGE, 0);
    assert!(fs::read(&path).unwrap() == model, "after it was cut and grown");
    tree.fs(["fsck", "tree"]).succeeds();
    tree.remount();
    assert!(fs::read(tree.path().join("large")).unwrap() == model, "after another mount");
    tree.unmount();
    tree.fs(["fsck", "tree"]).succeeds();
}

/// While a large file is copied out, its cached pages are invalidated. No reader notices.
#[test]
fn what_the_kernel_is_told_to_forget_reads_the_same_again() {
    const LENGTH: usize = 24 << 20;
    let world = World::new().dir("tree/base");
    let mut tree = Layered::new(&world, "tree", Engine::AgentFs);
    let model = pattern(LENGTH, 3);
    fs::write(tree.path().join("large"), &model).unwrap();
    for round in 0..rounds(3, 50) {
        tree.remount();
        let path = tree.path().join("large");
        let file = File::open(&path).unwrap();
        thread::scope(|scope| {
            for reader in 0..3_usize {
                let (file, path, model) = (&file, &path, &model);
                scope.spawn(move || {
                    let mut part = vec![0; 300_000];
                    for step in 0..300 {
                        let at = (step * 7919 * (reader + 1) + round) * 977 % (LENGTH - part.len());
                        // The last of them reads from the start, during the copy.
                        let at = if reader == 2 { step * 80_000 } else { at };
                        file.read_exact_at(&mut part, at as u64).unwrap();
                        assert!(part == model[at..at + part.len()], "at {at}");
                    }
                    assert!(fs::read(path).unwrap() == *model, "as a whole");
                });
            }
        });
    }
}

/// Small files are given to the kernel when they are opened, never with content from before a completed write.
#[test]
fn what_is_given_ahead_is_never_old() {
    let world = World::new().file("tree/base/file", pattern(9000, 0));
    let tree = Layered::new(&world, "tree", Engine::AgentFs);
    let path = tree.path().join("file");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::read(&path).unwrap();
                }
            });
        }
        for round in 1..=rounds(300, 20_000) {
            let content = pattern(1 + round * 7919 % 60_000, round);
            if round % 3 == 0 {
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(0).unwrap();
                file.write_all_at(&content, 0).unwrap();
            } else {
                fs::write(&path, &content).unwrap();
            }
            let seen = fs::read(&path).unwrap();
            if seen != content {
                over.store(true, Ordering::Relaxed);
                panic!("round {round}: {} bytes of {} are shown", seen.len(), content.len());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A directory is read in parts, which only the names connect.
#[test]
fn a_name_that_stays_is_listed_once_whatever_else_changes() {
    const NAMES: usize = 1500;
    let world = World::new().dir("tree/base/dir");
    for number in 0..NAMES {
        fs::write(world.path(format!("tree/base/dir/base{number}")), "").unwrap();
    }
    let tree = Layered::new(&world, "tree", Engine::AgentFs);
    let dir = tree.path().join("dir");
    for number in 0..NAMES {
        fs::write(dir.join(format!("own{number}")), "").unwrap();
    }
    let (mut first, mut second) = (fs::read_dir(&dir).unwrap(), fs::read_dir(&dir).unwrap());
    let mut seen = [Vec::new(), Vec::new()];
    for number in 0..NAMES {
        seen[0].extend(first.by_ref().take(2).map(|entry| entry.unwrap().file_name()));
        seen[1].extend(second.by_ref().take(1).map(|entry| entry.unwrap().file_name()));
        match number % 3 {
            // A name of the base moves to the layer, one is removed, one is added.
            0 => fs::write(dir.join(format!("base{number}")), "x").unwrap(),
            1 => fs::remove_file(dir.join(format!("own{number}"))).unwrap(),
            _ => fs::write(dir.join(format!("new{number}")), "").unwrap(),
        }
    }
    seen[0].extend(first.map(|entry| entry.unwrap().file_name()));
    seen[1].extend(second.map(|entry| entry.unwrap().file_name()));
    for names in seen {
        let unique: HashSet<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(unique.len(), names.len(), "a name is listed twice");
        for number in 0..NAMES {
            assert!(unique.contains(format!("base{number}").as_str()), "base{number} is missing");
            if number % 3 != 1 {
                assert!(unique.contains(format!("own{number}").as_str()), "own{number} is missing");
            }
        }
    }
}
