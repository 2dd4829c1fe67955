//! Changes are applied as shown, or not at all.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use sandbox_layers::apply::{ApplyError, Undone, Wish};

use crate::world::{World, at};

fn read(world: &World, path: &str) -> String {
    std::fs::read_to_string(world.path(path)).unwrap()
}

#[test]
fn apply_writes_what_changed_and_undo_restores_it() {
    let mut world = World::new();
    world.write("text", "old\n", 0o640);
    world.write("gone/deep/a", "a", 0o600);
    world.write("dir-to-file/x", "x", 0o644);
    world.write("file-to-dir", "x", 0o644);
    world.link("link", "text");
    world.layer.file("text", "new\n", 0o755);
    world.layer.gone("gone");
    world.layer.file("dir-to-file", "now a file", 0o644);
    world.layer.dir("file-to-dir", false);
    world.layer.file("file-to-dir/in", "in", 0o644);
    world.layer.link("link", "file-to-dir");
    world.layer.dir("new", false);
    world.layer.file("new/prog", "#!/bin/sh\n", 0o755);
    world.record_base();
    let before = world.tree();
    let plan = world.apply(&Wish::default()).unwrap();
    assert_eq!(plan.deletions(), 2);
    assert_eq!(read(&world, "text"), "new\n");
    // Only the executable bit comes from the layer. The host's read permissions stay.
    assert_eq!(world.path("text").metadata().unwrap().mode() & 0o777, 0o750);
    assert!(!world.path("gone").try_exists().unwrap());
    assert_eq!(read(&world, "dir-to-file"), "now a file");
    assert_eq!(read(&world, "file-to-dir/in"), "in");
    assert_eq!(world.path("link").read_link().unwrap().to_str(), Some("file-to-dir"));
    assert_eq!(world.path("new/prog").metadata().unwrap().mode() & 0o100, 0o100);
    assert_eq!(world.names(), Vec::<String>::new());
    assert!(matches!(world.undo(), Undone::Done { left, .. } if left.is_empty()));
    assert_eq!(world.tree(), before);
    assert!(world.names().contains(&"text".to_owned()));
}

#[test]
fn undo_refuses_when_a_file_changed_since() {
    let mut world = World::new();
    world.write("a", "1", 0o644);
    world.layer.file("a", "2", 0o644);
    world.layer.file("b", "2", 0o644);
    world.record_base();
    world.apply(&Wish::default()).unwrap();
    world.write("a", "3", 0o644);
    assert_eq!(world.undo(), Undone::Refused(vec![(0, at("a"))]));
    assert_eq!(read(&world, "a"), "3");
    assert_eq!(read(&world, "b"), "2");
}

#[test]
fn w3_what_the_host_changed_is_merged_or_stops() {
    let mut world = World::new();
    world.write("apart", "1\n2\n3\n4\n5\n", 0o644);
    world.write("same", "1\n2\n3\n", 0o644);
    world.write("binary", b"\0one", 0o644);
    world.write("goes", "1", 0o644);
    world.layer.file("apart", "1\n2\n3\n4\nlayer\n", 0o644);
    world.layer.file("same", "1\nlayer\n3\n", 0o644);
    world.layer.file("binary", b"\0two", 0o644);
    world.layer.gone("goes");
    world.layer.file("new", "layer", 0o644);
    world.record_base();
    world.write("apart", "host\n2\n3\n4\n5\n", 0o644);
    world.write("same", "1\nhost\n3\n", 0o644);
    world.write("binary", b"\0six", 0o644);
    world.write("goes", "2", 0o644);
    world.write("new", "host", 0o644);
    let plan = world.plan(&Wish::default());
    let conflicts: Vec<_> = plan.conflicts.iter().map(|left| left.path.clone()).collect();
    assert_eq!(conflicts, [at("binary"), at("goes"), at("new"), at("same")]);
    world.apply(&Wish::default()).unwrap();
    assert_eq!(read(&world, "apart"), "host\n2\n3\n4\nlayer\n");
    assert_eq!(read(&world, "same"), "1\nhost\n3\n");
    assert_eq!(read(&world, "new"), "host");
    // A merged file does not count as a change, although the layer has other bytes than the host.
    assert!(!world.names().contains(&"apart".to_owned()));
    // The layer's next change to it is merged with the right ancestor.
    world.layer.file("apart", "1\n2\nagain\n4\nlayer\n", 0o644);
    let plan = world.apply(&Wish { paths: vec![at("apart")], ..Wish::default() }).unwrap();
    assert_eq!(plan.conflicts, []);
    assert_eq!(read(&world, "apart"), "host\n2\nagain\n4\nlayer\n");
    world.undo();
    assert_eq!(read(&world, "apart"), "host\n2\n3\n4\nlayer\n");
}

#[test]
fn what_runs_later_waits_until_it_is_named() {
    let mut world = World::new();
    world.write(".hooks/gone", "x", 0o644);
    world.layer.dir(".hooks", false);
    world.layer.file(".hooks/evil", "x", 0o755);
    world.layer.gone(".hooks/gone");
    world.layer.link("out", "/etc/passwd");
    world.layer.link("up", "../x");
    world.layer.link("in", "plain");
    world.layer.file("plain", "x", 0o644);
    world.record_base();
    let held = |paths: &[&str]| {
        let paths = paths.iter().map(|path| at(path)).collect();
        let plan = world.plan(&Wish { paths, ..Wish::default() });
        plan.held.iter().map(|left| left.path.as_path().display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(held(&[]), [".hooks/evil", ".hooks/gone", "out", "up"]);
    assert_eq!(held(&[".hooks"]), Vec::<String>::new());
    assert_eq!(held(&[".hooks/evil", "out", "up"]), Vec::<String>::new());
}

#[test]
fn w1_w2_a_link_in_the_way_is_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    let mut world = World::new();
    world.write("dir/a", "1", 0o644);
    world.layer.dir("dir", false);
    world.layer.file("dir/a", "2", 0o644);
    world.layer.file("dir/new", "2", 0o644);
    world.record_base();
    let plan = world.plan(&Wish::default());
    assert_eq!(plan.steps.len(), 2);
    // The directory is replaced by a link after planning.
    std::fs::rename(world.path("dir"), world.path("moved")).unwrap();
    world.link("dir", outside.path().to_str().unwrap());
    let failed = world.target(|target| {
        let targets = std::slice::from_ref(target);
        let journal = sandbox_layers::apply::Journal::begin(&world.journal(), &plan, None, targets);
        journal.and_then(|mut journal| {
            sandbox_layers::apply::perform(
                &mut journal,
                targets,
                &mut |_, _| (),
                &mut |_, _| Ok(()),
            )
        })
    });
    assert!(failed.is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(read(&world, "moved/a"), "1");
}

#[test]
fn w7_what_changed_since_it_was_shown_is_not_applied() {
    let mut world = World::new();
    world.write("a", "1", 0o644);
    world.layer.file("a", "2", 0o644);
    world.layer.file("b", "2", 0o644);
    world.record_base();
    let plan = world.plan(&Wish::default());
    world.layer.file("b", "3", 0o644);
    let failed = world.target(|target| {
        let targets = std::slice::from_ref(target);
        let mut journal =
            sandbox_layers::apply::Journal::begin(&world.journal(), &plan, None, targets).unwrap();
        sandbox_layers::apply::perform(&mut journal, targets, &mut |_, _| (), &mut |_, _| Ok(()))
    });
    assert!(matches!(failed, Err(ApplyError::RolledBack { .. })), "{failed:?}");
    assert_eq!(read(&world, "a"), "1");
    assert!(!world.path("b").try_exists().unwrap());
    assert_eq!(world.tree().len(), 1, "nothing is left behind");
}

#[test]
fn a_directory_stays_when_something_in_it_stays() {
    let mut world = World::new();
    world.write("dir/.hooks/x", "x", 0o644);
    world.write("dir/a", "x", 0o644);
    world.layer.gone("dir");
    world.record_base();
    world.apply(&Wish::default()).unwrap();
    assert!(world.path("dir/.hooks/x").try_exists().unwrap());
    assert!(!world.path("dir/a").try_exists().unwrap());
}

#[test]
fn one_file_brings_its_new_directories_along() {
    let mut world = World::new();
    world.layer.dir("a", false);
    world.layer.dir("a/b", false);
    world.layer.file("a/b/c", "c", 0o644);
    world.layer.file("a/d", "d", 0o644);
    world.record_base();
    world.apply(&Wish { paths: vec![at("a/b/c")], ..Wish::default() }).unwrap();
    assert_eq!(read(&world, "a/b/c"), "c");
    assert_eq!(world.names(), ["a/d"]);
}

#[test]
fn special_files_and_foreign_bits_never_land() {
    let mut world = World::new();
    world.layer.special("fifo", 0o010_644);
    world.layer.special("dev", 0o020_644);
    world.layer.file("suid", "x", 0o6755);
    world.record_base();
    let plan = world.apply(&Wish::default()).unwrap();
    assert_eq!(plan.refused.len(), 2);
    assert_eq!(plan.notes.len(), 1);
    let mode = world.path("suid").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0);
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn w6_a_file_of_holes_is_refused_or_stays_one() {
    let mut world = World::new();
    world.layer.file("holes", vec![0; 4 << 20], 0o644);
    world.record_base();
    world.apply(&Wish::default()).unwrap();
    let meta = world.path("holes").metadata().unwrap();
    assert_eq!(meta.len(), 4 << 20);
    assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
}
