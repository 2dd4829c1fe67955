//! AgentFS's SDKs and a mount see the same bytes of a file, in whatever order they wrote it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use testkit::{World, need};

use crate::agentfs::{BOTH, Mount, ONE, Sdk};
use crate::dice::{Dice, seeds};

const FILES: usize = 6;
/// Above every size at which the engine changes how it stores a file.
const LONGEST: usize = 600 << 10;
/// Number of turns in which SDK and mount write alternately.
const TURNS: usize = 4;
const EDITS: usize = 12;

#[test]
fn what_a_mount_wrote_the_sdks_read_and_the_other_way() {
    for seed in seeds(3, 60) {
        for sdk in BOTH {
            let run = std::panic::catch_unwind(|| exercise(sdk, seed));
            assert!(run.is_ok(), "{sdk:?} differs; again with: AGENT_SANDBOX_SEED={seed}");
        }
    }
}

fn exercise(sdk: Sdk, seed: u64) {
    let world = World::new().dir("project/.agentfs").dir("model").dir("mnt");
    let mut dice = Dice::new(seed);
    let theirs_first = dice.one_in(2);
    if !theirs_first {
        world.run(["fs", "init", "one"]).succeeds();
    }
    for turn in 0..TURNS {
        if turn % 2 == usize::from(!theirs_first) {
            sdk_writes(sdk, &world, &mut dice);
        } else {
            mount_edits(&world, &mut dice);
        }
        // Both see the current content.
        let got = world.clone().dir(format!("got{turn}")).path(format!("got{turn}"));
        sdk.run(&world, &[ONE, "get", &got.display().to_string()]);
        same(&world.path("model"), &got, &format!("{sdk:?}, turn {turn}"));
        world.run(["fs", "fsck", "one"]).succeeds();
        in_mount(&world, |at| same(&world.path("model"), at, &format!("mount, turn {turn}")));
    }
}

fn sdk_writes(sdk: Sdk, world: &World, dice: &mut Dice) {
    let from = world.clone().dir("from").path("from");
    for number in 0..FILES {
        if !dice.one_in(3) {
            let content = content(dice);
            fs::write(from.join(number.to_string()), &content).unwrap();
            fs::write(world.path("model").join(number.to_string()), &content).unwrap();
        }
    }
    sdk.run(world, &[ONE, "put", &from.display().to_string()]);
    fs::remove_dir_all(from).unwrap();
}

/// Returns pieces of noise and of zeros, some at the boundaries of chunks.
fn content(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = dice.below(LONGEST);
    while bytes.len() < length {
        let piece = dice.pick(&[1, 4096, 65_536, 70_000, 131_072, 10_000]);
        if dice.one_in(2) {
            bytes.extend(dice.bytes(piece));
        } else {
            bytes.resize(bytes.len() + piece, 0);
        }
    }
    if dice.one_in(2) {
        bytes.truncate(length);
    }
    bytes
}

fn mount_edits(world: &World, dice: &mut Dice) {
    in_mount(world, |at| {
        for _ in 0..EDITS {
            let name = dice.below(FILES).to_string();
            let edit = Edit::any(dice);
            for place in [at, &world.path("model")] {
                edit.run(&place.join(&name));
            }
        }
    });
}

fn in_mount(world: &World, work: impl FnOnce(&Path)) {
    need("fusermount3");
    let mount = Mount(world.path("mnt"));
    world.run(["fs", "mount", "one", "../mnt"]).succeeds();
    work(&mount.0);
    world.run(["fs", "unmount", "../mnt"]).succeeds();
}

/// One change of a file.
enum Edit {
    Write { at: usize, bytes: Vec<u8> },
    Append(Vec<u8>),
    Length(usize),
    Hole { at: usize, length: usize },
    Room { at: usize, length: usize },
    Whole(Vec<u8>),
    Gone,
}

impl Edit {
    fn any(dice: &mut Dice) -> Self {
        // Most edits are near the boundaries of chunks, theirs or ours.
        let place = |dice: &mut Dice| match dice.below(3) {
            0 => dice.below(LONGEST),
            1 => dice.below(LONGEST / 65_536) * 65_536,
            _ => dice.below(LONGEST / 4096) * 4096 + dice.below(3),
        };
        let at = place(dice);
        let length = place(dice).max(1);
        match dice.below(9) {
            0 => Self::Write { at, bytes: vec![b'x'] },
            1 => Self::Write { at, bytes: vec![0; length] },
            2 => Self::Write { at, bytes: content(dice) },
            3 => Self::Append(content(dice)),
            4 | 5 => Self::Length(at),
            6 => Self::Hole { at, length },
            7 => Self::Room { at, length },
            _ if dice.one_in(3) => Self::Gone,
            _ => Self::Whole(content(dice)),
        }
    }

    fn run(&self, path: &Path) {
        let open = || -> File {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).open(path).unwrap()
        };
        match self {
            Self::Write { at, bytes } => open().write_all_at(bytes, *at as u64).unwrap(),
            Self::Append(bytes) => {
                let file = open();
                let end = file.metadata().unwrap().len();
                file.write_all_at(bytes, end).unwrap();
            }
            Self::Length(length) => open().set_len(*length as u64).unwrap(),
            Self::Hole { at, length } => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(open(), how, *at as u64, *length as u64).unwrap();
            }
            Self::Room { at, length } => {
                let how = FallocateFlags::empty();
                rustix::fs::fallocate(open(), how, *at as u64, *length as u64).unwrap();
            }
            Self::Whole(bytes) => fs::write(path, bytes).unwrap(),
            Self::Gone => {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Asserts that both directories contain the same files.
#[track_caller]
fn same(one: &Path, other: &Path, what: &str) {
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other), "{what}");
    for name in names(one) {
        let (left, right) =
            (fs::read(one.join(&name)).unwrap(), fs::read(other.join(&name)).unwrap());
        let differs = left.iter().zip(&right).position(|(left, right)| left != right);
        let lengths = (left.len(), right.len());
        assert!(left == right, "{what}: {} at {differs:?}, lengths {lengths:?}", name.display());
    }
}

#[test]
fn a_file_of_many_holes_stays_small_and_is_whole_in_an_export() {
    let world = World::new().dir("mnt");
    world.run(["fs", "init", "one"]).succeeds();
    in_mount(&world, |at| {
        let file = File::create(at.join("huge")).unwrap();
        file.write_all_at(b"end", 1 << 40).unwrap();
        // The control: zeros that were written are stored, with holes beside them.
        fs::write(at.join("zeros"), vec![0; 300_000]).unwrap();
        File::create(at.join("hole")).unwrap().set_len(20 << 20).unwrap();
    });
    let size = fs::metadata(world.path("project").join(ONE)).unwrap().len();
    assert!(size < 30 << 20, "{size} bytes");
    in_mount(&world, |at| {
        let mut end = [1; 5];
        File::open(at.join("huge")).unwrap().read_exact_at(&mut end, (1 << 40) - 2).unwrap();
        assert_eq!(&end, b"\0\0end");
        fs::remove_file(at.join("huge")).unwrap();
    });
    for sdk in BOTH {
        let got = world.clone().dir("got").path("got");
        sdk.run(&world, &[ONE, "get", &got.display().to_string()]);
        assert!(fs::read(got.join("zeros")).unwrap() == vec![0; 300_000], "{sdk:?}");
        assert_eq!(fs::metadata(got.join("hole")).unwrap().len(), 20 << 20, "{sdk:?}");
    }
}
