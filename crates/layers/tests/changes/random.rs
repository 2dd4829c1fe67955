//! Properties that hold for random trees and random layers.

use proptest::prelude::*;
use sandbox_layers::apply::{Undone, Wish};

use crate::patch::{applied, contents};
use crate::world::World;

/// Entry at a path.
#[derive(Debug, Clone)]
enum Thing {
    File(Vec<u8>, bool),
    Link(String),
    Dir,
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab\n\r]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(Vec::new()),
    ]
}

fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        4 => (content(), any::<bool>()).prop_map(|(bytes, exec)| Thing::File(bytes, exec)),
        1 => "to-[a-c]".prop_map(Thing::Link),
        1 => Just(Thing::Dir),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "(a|b|c|d e|\u{fc}|q\"|t\tb)(/(a|b|x y)){0,2}"
}

/// Generates edits of a layer: a new entry at a path, or none.
fn edits() -> impl Strategy<Value = Vec<(String, Option<Thing>, bool)>> {
    prop::collection::vec((name(), prop::option::weighted(0.7, thing()), any::<bool>()), 0..10)
}

/// Fills the host's tree. Skips entries that conflict with existing ones.
fn fill(world: &World, things: &[(String, Thing)]) {
    for (path, thing) in things {
        let full = world.path(path);
        if full.symlink_metadata().is_ok() {
            continue;
        }
        let parent = full.parent().unwrap();
        let plain =
            parent.ancestors().all(|dir| dir.symlink_metadata().map_or(true, |meta| meta.is_dir()));
        if !plain || std::fs::create_dir_all(parent).is_err() {
            continue;
        }
        match thing {
            Thing::File(bytes, exec) => world.write(path, bytes, if *exec { 0o755 } else { 0o644 }),
            Thing::Link(target) => world.link(path, target),
            // Not empty, because git neither removes nor replaces empty directories.
            Thing::Dir => world.write(&format!("{path}/z"), "", 0o644),
        }
    }
}

/// Applies edits to the layer as an engine would: parents become directories, hidden directories opaque.
fn edit(world: &mut World, edits: &[(String, Option<Thing>, bool)]) {
    for (path, thing, opaque) in edits {
        let mut above = String::new();
        let mut fits = true;
        for part in path.split('/').collect::<Vec<_>>().split_last().unwrap().1 {
            above = if above.is_empty() { (*part).to_owned() } else { format!("{above}/{part}") };
            let there =
                world.layer.nodes.get(&crate::world::at(&above)).map(|(node, _)| node.clone());
            match there {
                Some(sandbox_layers::Node::Dir { .. }) => {}
                Some(_) => {
                    fits = false;
                    break;
                }
                None => world.layer.dir(&above, !is_dir(world, &above)),
            }
        }
        let below = |world: &World| {
            world.layer.nodes.keys().any(|key| {
                key.as_path() != std::path::Path::new(path) && key.as_path().starts_with(path)
            })
        };
        if !fits || below(world) {
            continue;
        }
        match thing {
            None => world.layer.gone(path),
            Some(Thing::File(bytes, exec)) => {
                world.layer.file(path, bytes, if *exec { 0o755 } else { 0o644 });
            }
            Some(Thing::Link(target)) => world.layer.link(path, target),
            Some(Thing::Dir) => world.layer.dir(path, *opaque || !is_dir(world, path)),
        }
    }
}

fn is_dir(world: &World, path: &str) -> bool {
    world.path(path).symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn apply_is_what_git_makes_of_the_patch_and_undo_is_exact(
        things in prop::collection::vec((name(), thing()), 0..14),
        edits in edits(),
    ) {
        let mut world = World::new();
        fill(&world, &things);
        edit(&mut world, &edits);
        world.record_base();
        let before = world.tree();
        let by_git = applied(&world);
        let plan = world.apply(&Wish::default()).unwrap();
        prop_assert_eq!(&plan.conflicts, &Vec::new());
        prop_assert_eq!(&plan.held, &Vec::new());
        prop_assert_eq!(contents(&world.path("")), by_git);
        prop_assert_eq!(world.names(), Vec::<String>::new());
        let all = matches!(world.undo(), Undone::Done { left, .. } if left.is_empty());
        prop_assert!(all);
        prop_assert_eq!(world.tree(), before);
    }
}
