//! Power loss: the daemon's writes are recorded, and replayed up to every point at which it waited for the disk. Later
//! writes may be missing, torn or complete. The store opens without damage, and no data that was fsynced is lost.

mod disk;
mod trace;

use std::fs;

use testkit::{Engine, Layered, Namespace, World, need, rounds};

use crate::dice::Dice;
use disk::{Disk, Fate};

#[test]
fn agentfs_loses_nothing_that_was_fsynced_when_the_power_fails() {
    for seed in 1..=rounds(1, 10) as u64 {
        let large = content("below", 300_000);
        let world = World::new().file("tree/base/below", large).dir("cut");
        let (disk, promises) = record(&world, seed);
        let events = trace::read(&fs::read_to_string(world.path("trace")).unwrap());
        let waits = events.iter().filter(|event| event.is_wait()).count();
        assert!(
            waits > 10,
            "the daemon waited for the disk {waits} times: too few to mean anything"
        );
        replay(&world, disk, &events, &promises, seed);
    }
}

/// Content that must survive, and the time since then.
#[derive(Debug)]
struct Promise {
    time: f64,
    name: String,
    /// None: the file was removed, and may exist or not.
    length: Option<usize>,
}

/// Runs the writer on a daemon under strace. In its own namespaces the kernel gets no passthrough to
/// the backing files, so all writes are system calls.
fn record(world: &World, seed: u64) -> (Disk, Vec<Promise>) {
    need("strace");
    let calls = "openat,open,creat,close,dup,lseek,write,pwrite64,writev,pwritev,ftruncate,fallocate,fsync,fdatasync,sync_file_range,\
                 rename,renameat,renameat2,unlink,unlinkat,copy_file_range,sendfile,ioctl";
    let script = format!(
        "#!/bin/sh\nif [ \"$2\" = mount ]; then exec strace -f -ttt -y -xx -s 4000000 -e trace={calls} -e signal=none -o {} {} \"$@\"; fi\nexec {} \"$@\"\n",
        world.path("trace").display(),
        world.binary().display(),
        world.binary().display(),
    );
    let traced = world.clone().exec_file("traced", script).with_program(world.path("traced"));
    let namespace = Namespace::with_powers(world, "");
    let mut tree = Layered::unmounted(&traced.within(namespace), "tree", Engine::AgentFs);
    let mut write = |operations: usize| {
        tree.mount();
        let (seed, operations) = (seed.to_string(), operations.to_string());
        let words = [&*seed, &operations, "below", "stored", "stored-too"];
        let command = ["python3", "-c", include_str!("power.py")].into_iter().chain(words);
        let said = tree.run(command).succeeds().output();
        tree.unmount();
        said
    };
    // An earlier mount, of which nothing is recorded, synced the initial database.
    write(0);
    let disk = Disk::of(&world.path("tree/.agentfs"));
    let said = write(rounds(25, 200));
    (disk, said.lines().map(promise).collect())
}

fn promise(line: &str) -> Promise {
    let words: Vec<&str> = line.split(' ').collect();
    let length = (words[1] == "kept").then(|| words[3].parse().unwrap());
    Promise { time: words[0].parse().unwrap(), name: words[2].to_owned(), length }
}

fn replay(world: &World, mut disk: Disk, events: &[trace::Event], promises: &[Promise], seed: u64) {
    let mut dice = Dice::new(seed);
    let mut cuts = 0;
    for event in events {
        // Just before it waits, and just after.
        let before = event.is_wait() && disk.has_pending();
        if before && disk.has("tree.db") {
            for fate in [Fate::Lost, Fate::Kept, Fate::Torn] {
                check(world, &disk, fate, &mut dice, event.time, promises);
                cuts += 1;
            }
        }
        disk.apply(event);
    }
    check(world, &disk, Fate::Lost, &mut dice, f64::MAX, promises);
    assert!(cuts > 30, "too few cuts to mean anything: {cuts}");
}

/// Restores the disk as it would be found, mounts it, and checks everything that must have survived.
fn check(world: &World, disk: &Disk, fate: Fate, dice: &mut Dice, time: f64, promises: &[Promise]) {
    let cut = world.path("cut");
    fs::remove_dir_all(&cut).unwrap();
    fs::create_dir_all(cut.join(".agentfs")).unwrap();
    fs::create_dir_all(cut.join("mnt")).unwrap();
    disk.write(&cut.join(".agentfs"), fate, dice);
    let mut tree = Layered::found(world, "cut", Engine::AgentFs);
    let due: Vec<&Promise> = promises.iter().filter(|promise| promise.time < time).collect();
    for (index, promise) in due.iter().enumerate() {
        // The last promise about a name counts.
        let last = !promises[index + 1..].iter().any(|later| {
            later.name == promise.name && (later.length.is_none() || later.time < time)
        });
        let Some(length) = promise.length.filter(|_| last) else { continue };
        let found = fs::read(tree.path().join(&promise.name));
        let right = found.as_ref().is_ok_and(|found| {
            found.len() >= length && found[..length] == content(&promise.name, length)
        });
        assert!(
            right,
            "{fate:?} at {time:.6}: {promise:?} is broken: {:?} bytes",
            found.map(|found| found.len())
        );
    }
    tree.unmount();
    tree.fs(["fsck", "tree"]).succeeds();
}

fn content(name: &str, length: usize) -> Vec<u8> {
    let unit = format!("{name};");
    unit.bytes().cycle().take(length).collect()
}
