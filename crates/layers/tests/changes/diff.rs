//! Detection of changes.

use sandbox_layers::diff::{Count, Odd, Side, View};

use crate::world::{World, at};

#[test]
fn what_was_only_touched_is_no_change() {
    let mut world = World::new();
    world.write("same", "text", 0o644);
    world.write("mode", "text", 0o644);
    world.write("other-mode", "text", 0o600);
    world.layer.file("same", "text", 0o644);
    world.layer.file("mode", "text", 0o755);
    world.layer.file("other-mode", "text", 0o664);
    world.layer.dir("new", false);
    world.layer.gone("never-there");
    world.record_base();
    assert_eq!(world.names(), ["mode", "new"]);
}

#[test]
fn every_file_of_a_directory_that_goes_is_listed() {
    let mut world = World::new();
    for file in ["gone/a", "gone/deep/b", "over/a", "over/kept", "file/x", "merged/y"] {
        world.write(file, "text", 0o644);
    }
    world.layer.gone("gone");
    world.layer.dir("over", true);
    world.layer.file("over/kept", "text", 0o644);
    world.layer.dir("merged", false);
    world.layer.file("file", "now a file", 0o644);
    world.record_base();
    let expected = ["file", "file/x", "gone", "gone/a", "gone/deep", "gone/deep/b", "over/a"];
    assert_eq!(world.names(), expected);
}

#[test]
fn a_directory_that_is_opaque_within_an_opaque_one_is_listed_once() {
    let mut world = World::new();
    world.write("a/b/c", "text", 0o644);
    world.layer.dir("a", true);
    world.layer.dir("a/b", true);
    world.record_base();
    assert_eq!(world.names(), ["a/b/c"]);
}

#[test]
fn the_hosts_own_change_is_not_told_as_the_layers() {
    let mut world = World::new();
    world.write("touched", "old", 0o644);
    world.write("both", "1\n2\n3\n", 0o644);
    world.layer.file("touched", "old", 0o644);
    world.layer.file("both", "1\n2\nlayer\n", 0o644);
    world.record_base();
    world.write("touched", "new on the host", 0o644);
    world.write("both", "host\n2\n3\n", 0o644);
    let changes = world.changes();
    assert_eq!(changes.list.len(), 1);
    let both = &changes.list[0];
    assert!(both.meanwhile);
    let host = world.host();
    let view = View { layer: &world.layer, host: &host, record: &world.record };
    // Compared with the ancestor: one line of the layer's, none of the host's.
    assert_eq!(view.count(both).unwrap(), Count::Lines { added: 1, removed: 1 });
}

#[test]
fn what_never_lands_is_said() {
    let mut world = World::new();
    world.layer.file("suid", "x", 0o4755);
    world.layer.special("fifo", 0o010_644);
    world.layer.file("attr", "x", 0o644);
    world.layer.xattrs.insert(at("attr"), vec!["security.capability".into()]);
    world.record_base();
    let changes = world.changes().list;
    assert_eq!(changes[0].odd, [Odd::Xattrs(vec!["security.capability".into()])]);
    assert_eq!(changes[1].after, Some(Side::Special));
    assert_eq!(changes[2].odd, [Odd::SetId]);
}

#[test]
fn a_link_in_the_host_leads_nowhere() {
    let mut world = World::new();
    world.write("real/file", "text", 0o644);
    world.link("link", "real");
    // The layer has a directory where the host has a link. The target of the link is not its base.
    world.layer.dir("link", false);
    world.layer.file("link/file", "text", 0o644);
    world.record_base();
    let changes = world.changes().list;
    assert_eq!(changes[0].before, Some(Side::Symlink { target: "real".into() }));
    assert_eq!(changes[1].before, None);
}
