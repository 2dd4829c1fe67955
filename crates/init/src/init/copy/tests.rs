//! Tests on a real file system, as the user who runs them.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn own() -> (u32, u32) {
    (sandbox_linux::process::uid(), sandbox_linux::process::gid())
}

#[test]
fn copy_tree_keeps_modes_times_links_and_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("d/e")).unwrap();
    fs::write(from.join("d/f"), "text").unwrap();
    symlink("nowhere", from.join("l")).unwrap();
    for (name, mode) in [("d/f", 0o4711), ("d/e", 0o1777), ("d", 0o500)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let then = UNIX_EPOCH + Duration::from_nanos(1_000_000_007_000_000_009);
    File::open(from.join("d/f")).unwrap().set_modified(then).unwrap();
    let tagged = rustix::fs::lsetxattr(from.join("d/f"), "user.tag", b"v", XattrFlags::empty());
    copy_tree(&from, &to, own()).unwrap();
    let mode = |name| fs::symlink_metadata(to.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d/f"), mode("d/e"), mode("d")), (0o4711, 0o1777, 0o500));
    assert_eq!(fs::metadata(to.join("d/f")).unwrap().modified().unwrap(), then);
    assert_eq!(fs::read_link(to.join("l")).unwrap(), Path::new("nowhere"));
    assert_eq!(fs::read_to_string(to.join("d/f")).unwrap(), "text");
    if tagged.is_ok() {
        let mut value = [0; 8];
        assert_eq!(rustix::fs::lgetxattr(to.join("d/f"), "user.tag", &mut value[..]), Ok(1));
    }
    for tree in [from, to] {
        fs::set_permissions(tree.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn copy_tree_refuses_what_could_wait_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("from/fifo");
    fs::create_dir(dir.path().join("from")).unwrap();
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let error = copy_tree(&dir.path().join("from"), &dir.path().join("to"), own()).unwrap_err();
    assert!(matches!(&error, StepError::Special(path) if *path == fifo), "{error}");
}
