use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("one.db")
    }

    fn create(&self) -> Store {
        Store::create(&self.path(), None).unwrap()
    }

    fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    fn sql(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn file(size: u64, nlink: u32) -> Inode {
    let time = Time { sec: -5, nsec: 7 };
    let mode = libc::S_IFREG | 0o640;
    Inode { mode, nlink, uid: 1, gid: 2, size, atime: time, mtime: time, ctime: time, rdev: 0 }
}

#[test]
fn an_inode_reads_back_unchanged() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let ino = store.new_ino();
    store.put_inode(ino, &file(u64::MAX >> 1, 3)).unwrap();
    assert_eq!(store.inode(ino).unwrap(), Some(file(u64::MAX >> 1, 3)));
    assert_eq!(store.inode(ino + 1).unwrap(), None);
}

#[test]
fn a_database_is_served_once_at_a_time() {
    let fixture = Fixture::new();
    let store = fixture.create();
    assert!(matches!(Store::open(&fixture.path()), Err(StoreError::InUse { .. })));
    assert!(matches!(Store::open_below(&fixture.path()), Err(StoreError::InUse { .. })));
    drop(store);
    let one = Store::open_below(&fixture.path()).unwrap();
    let _other = Store::open_below(&fixture.path()).unwrap();
    assert!(matches!(Store::open(&fixture.path()), Err(StoreError::InUse { .. })));
    drop(one);
}

#[test]
fn create_refuses_an_existing_file() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), "mine").unwrap();
    assert!(matches!(Store::create(&fixture.path(), None), Err(StoreError::Exists { .. })));
    assert_eq!(std::fs::read_to_string(fixture.path()).unwrap(), "mine");
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path(), "a".repeat(5000)).unwrap();
    assert!(Store::open(&fixture.path()).is_err());
    std::fs::remove_file(fixture.path()).unwrap();
    fixture.sql().execute_batch("CREATE TABLE other (x)").unwrap();
    assert!(matches!(Store::open(&fixture.path()), Err(StoreError::Foreign { .. })));
}

#[test]
fn logged_changes_survive_a_kill_and_others_are_lost() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    for name in ["kept", "also"] {
        let ino = store.new_ino();
        store.put_inode(ino, &file(3, 1)).unwrap();
        store.put_name(1, OsStr::new(name), ino).unwrap();
        store.put_content(ino, name.as_bytes()).unwrap();
        store.keep(&[]).unwrap();
    }
    store.put_name(1, OsStr::new("lost"), 9).unwrap();
    // Like a kill: nothing is committed and the redo log remains.
    drop(store);
    assert_eq!(fixture.number("SELECT count(*) FROM fs_dentry"), 0);
    let store = fixture.open();
    let ino = store.find(1, OsStr::new("also")).unwrap().unwrap();
    let mut content = [0; 4];
    store.read(ino, 0, &mut content).unwrap();
    assert_eq!(&content, b"also");
    assert!(store.find(1, OsStr::new("kept")).unwrap().is_some());
    assert_eq!(store.find(1, OsStr::new("lost")).unwrap(), None);
}

#[test]
fn a_redo_log_is_not_run_on_a_database_that_another_tool_wrote_to() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    store.put_name(1, OsStr::new("kept"), 5).unwrap();
    store.keep(&[]).unwrap();
    drop(store);
    let sql = "INSERT INTO fs_inode (mode, atime, mtime, ctime) VALUES (33188, 0, 0, 0)";
    fixture.sql().execute_batch(sql).unwrap();
    assert_eq!(fixture.open().find(1, OsStr::new("kept")).unwrap(), None);
}

#[test]
fn rollback_to_a_mark_keeps_earlier_changes() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    store.put_name(1, OsStr::new("first"), 5).unwrap();
    let mark = store.mark();
    store.put_name(1, OsStr::new("second"), 6).unwrap();
    store.drop_name(1, OsStr::new("first")).unwrap();
    store.roll_back(mark).unwrap();
    assert_eq!(store.find(1, OsStr::new("first")).unwrap(), Some(5));
    assert_eq!(store.find(1, OsStr::new("second")).unwrap(), None);
    store.commit().unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_dentry"), 1);
}

#[test]
fn others_read_every_commit_while_the_store_is_open() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    store.put_name(1, OsStr::new("a"), 5).unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_dentry"), 0);
    store.commit().unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_dentry"), 1);
    fixture.sql().execute_batch("INSERT INTO kv_store (key, value) VALUES ('k', '1')").unwrap();
    store.put_name(1, OsStr::new("b"), 6).unwrap();
    store.commit().unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM kv_store"), 1);
}

#[test]
fn loose_files_are_taken_in_after_a_kill_and_at_the_end() {
    for killed in [true, false] {
        let fixture = Fixture::new();
        let mut store = fixture.create();
        let ino = store.new_ino();
        store.put_inode(ino, &file(0, 1)).unwrap();
        let loose = store.new_loose(ino).unwrap();
        store.loosen(ino).unwrap();
        loose.write_all_at(b"end", 200_000).unwrap();
        // A file without a row.
        store.new_loose(77).unwrap();
        store.keep(&[]).unwrap();
        if killed {
            drop(store);
        } else {
            store.close().unwrap();
            assert_eq!(fixture.files(), ["one.db"], "one file holds all");
        }
        let store = fixture.open();
        assert_eq!(store.inode(ino).unwrap().unwrap().size, 200_003);
        let mut content = [1; 5];
        store.read(ino, 199_998, &mut content).unwrap();
        assert_eq!(&content, b"\0\0end");
        assert_eq!(fixture.number("SELECT count(*) FROM fs_data"), 4, "every chunk, for the SDKs");
        assert_eq!(fixture.number("SELECT sum(length(data)) FROM fs_data"), 200_003);
        store.close().unwrap();
        assert_eq!(fixture.files(), ["one.db"]);
    }
}

#[test]
fn a_file_of_many_holes_keeps_them_until_it_is_cut() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let ino = store.new_ino();
    store.put_inode(ino, &file(0, 1)).unwrap();
    let loose = store.new_loose(ino).unwrap();
    store.loosen(ino).unwrap();
    loose.write_all_at(b"end", 1 << 40).unwrap();
    loose.write_all_at(b"start", 0).unwrap();
    store.keep(&[]).unwrap();
    store.close().unwrap();
    let mut store = fixture.open();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_data"), 2, "the holes are not stored");
    let mut content = [1; 5];
    store.read(ino, (1 << 40) - 2, &mut content).unwrap();
    assert_eq!(&content, b"\0\0end");
    // Short enough to be stored without holes.
    store.cut(ino, 200_000).unwrap();
    store.commit().unwrap();
    assert_eq!(fixture.number("SELECT sum(length(data)) FROM fs_data"), 200_000);
    store.close().unwrap();
}

#[test]
fn a_copy_takes_pieces_in_any_order_but_not_a_late_start() {
    const PIECE: u64 = 128 << 10;
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let (ino, size) = (store.new_ino(), 16 * PIECE);
    let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at / PIECE).unwrap()).collect();
    let piece = |index: u64| {
        let start = usize::try_from(index * PIECE).unwrap();
        &bytes[start..][..usize::try_from(PIECE).unwrap()]
    };
    store.copy_out(ino, size, 9 * PIECE, piece(9));
    for index in [1, 0].into_iter().chain(2..16) {
        assert!(store.copy(ino, size).is_none(), "{index}");
        store.copy_out(ino, size, index * PIECE, piece(index));
    }
    let mut found = vec![0; bytes.len()];
    store.copy(ino, size).unwrap().read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, bytes);
}

#[test]
fn ranges_held_twice_are_reported_once() {
    const PIECE: u64 = 1 << 20;
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let (ino, size) = (store.new_ino(), 10 * PIECE + 7);
    let put = |store: &mut Store, index: u64| {
        let length = (size - index * PIECE).min(PIECE);
        store.copy_out(ino, size, index * PIECE, &vec![1; usize::try_from(length).unwrap()]);
        store.held_twice()
    };
    let said: Vec<_> = [0, 1, 2, 3, 4, 6, 7, 5].map(|index| put(&mut store, index)).into();
    let range = |start: u64, end: u64| vec![(ino, start * PIECE..end * PIECE)];
    // The most recent part stays: four pieces before the first missing one, and the pieces since
    // the previous report.
    assert!(said[..5].iter().all(Vec::is_empty), "{said:?}");
    assert_eq!(said[5..], [range(0, 1), vec![], vec![]]);
    assert_eq!(store.held_twice(), range(1, 4));
    assert_eq!(store.held_twice(), []);
    assert!(store.copied_part(ino, PIECE..3 * PIECE).is_some());
    assert!(store.copied_part(ino, PIECE..9 * PIECE).is_none(), "the rest is missing");
    for index in 8..11 {
        put(&mut store, index);
    }
    assert!(store.copied_part(ino, 9 * PIECE + 5..size).is_some());
    store.cut(ino, PIECE).unwrap();
    assert!(store.copied_part(ino, 0..5).is_none(), "the content changed");
}

#[test]
fn orphans_are_deleted_when_the_database_is_next_opened() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let ino = store.new_ino();
    store.put_inode(ino, &file(3, 0)).unwrap();
    store.put_content(ino, b"abc").unwrap();
    store.put_orphan(ino).unwrap();
    store.commit().unwrap();
    drop(store);
    let store = fixture.open();
    assert_eq!(store.inode(ino).unwrap(), None);
    store.close().unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_data"), 0);
    assert_eq!(fixture.number("SELECT count(*) FROM sandbox_orphan"), 0);
}

#[test]
fn content_is_cut_and_read_at_any_chunk_size() {
    let fixture = Fixture::new();
    fixture.create().close().unwrap();
    for size in [1, 3, 4096] {
        let sql = format!("UPDATE fs_config SET value='{size}' WHERE key='chunk_size'");
        fixture.sql().execute_batch(&sql).unwrap();
        let mut store = fixture.open();
        let ino = store.new_ino();
        store.put_content(ino, b"0123456789").unwrap();
        store.cut(ino, 7).unwrap();
        let mut content = [9; 9];
        store.read(ino, 2, &mut content).unwrap();
        assert_eq!(&content, b"23456\0\0\0\0", "chunks of {size}");
        assert_eq!(store.next_data(ino, 5).unwrap(), Some(5), "chunks of {size}");
        assert!(store.next_hole(ino, 0).unwrap() >= 7, "chunks of {size}");
    }
}

#[test]
fn odd_chunk_values_read_the_same_in_one_piece_and_in_many() {
    let odd = ["7", "'text'", "x'0102030405060708'", "''", "1.5"];
    for value in odd {
        let fixture = Fixture::new();
        fixture.create().close().unwrap();
        let sql = format!(
            "UPDATE fs_config SET value='4' WHERE key='chunk_size';
             INSERT INTO fs_data VALUES (7, 0, x'61626364'), (7, 1, {value}), (7, 3, x'6566')"
        );
        fixture.sql().execute_batch(&sql).unwrap();
        let store = fixture.open();
        let mut whole = [9; 18];
        store.read(7, 1, &mut whole).unwrap();
        let mut pieces = [9; 18];
        for (piece, offset) in pieces.chunks_mut(3).zip((1..).step_by(3)) {
            store.read(7, offset, piece).unwrap();
        }
        assert_eq!(whole, pieces, "{value}");
        assert_eq!((&whole[..3], &whole[11..]), (&b"bcd"[..], &b"ef\0\0\0\0\0"[..]), "{value}");
    }
}

#[test]
fn an_invalid_chunk_size_is_refused() {
    for size in ["0", "-1", "x", "99999999999"] {
        let fixture = Fixture::new();
        fixture.create().close().unwrap();
        let sql = format!("UPDATE fs_config SET value='{size}' WHERE key='chunk_size'");
        fixture.sql().execute_batch(&sql).unwrap();
        assert!(matches!(Store::open(&fixture.path()), Err(StoreError::Damaged { .. })), "{size}");
    }
}

#[test]
fn names_and_paths_of_any_bytes_are_kept() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    for name in [OsStr::new("ä b"), OsStr::from_bytes(b"\xff\xfe")] {
        store.put_name(1, name, 5).unwrap();
        assert_eq!(store.find(1, name).unwrap(), Some(5));
        store.put_whiteout(Path::new(name)).unwrap();
        assert!(store.is_gone(Path::new(name)).unwrap());
        store.drop_whiteout(Path::new(name)).unwrap();
        assert!(!store.is_gone(Path::new(name)).unwrap());
        store.drop_name(1, name).unwrap();
        assert_eq!(store.find(1, name).unwrap(), None);
    }
}

#[test]
fn names_that_no_program_could_use_are_not_listed() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    store.put_inode(5, &file(0, 1)).unwrap();
    for name in ["good", "..", ".", "a/b", ""] {
        store.put_name(1, OsStr::new(name), 5).unwrap();
    }
    let names: Vec<_> = store.names(1).unwrap().into_iter().map(|named| named.name).collect();
    assert_eq!(names, ["good"]);
}

#[test]
fn whiteouts_fit_a_table_made_by_the_specification() {
    let fixture = Fixture::new();
    fixture.create().close().unwrap();
    fixture
        .sql()
        .execute_batch(
            "DROP TABLE fs_whiteout; CREATE TABLE fs_whiteout (path TEXT PRIMARY KEY,
             parent_path TEXT NOT NULL, created_at INTEGER NOT NULL)",
        )
        .unwrap();
    let mut store = fixture.open();
    store.put_whiteout(Path::new("a/b")).unwrap();
    store.put_whiteout(Path::new("c")).unwrap();
    store.commit().unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM fs_whiteout WHERE parent_path='/a'"), 1);
    assert_eq!(fixture.number("SELECT count(*) FROM fs_whiteout WHERE parent_path='/'"), 1);
}

#[test]
fn columns_that_older_databases_lack_are_added() {
    let fixture = Fixture::new();
    fixture.create().close().unwrap();
    for column in ["rdev", "atime_nsec", "mtime_nsec", "ctime_nsec"] {
        let sql = format!("ALTER TABLE fs_inode DROP COLUMN {column}");
        fixture.sql().execute_batch(&sql).unwrap();
    }
    assert_eq!(fixture.open().inode(1).unwrap().unwrap().mtime.nsec, 0);
}

#[test]
fn a_whiteout_below_a_moved_directory_stays_for_that_directory() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    store.put_whiteout(Path::new("d/f")).unwrap();
    store.put_whiteout(Path::new("e/f")).unwrap();
    store.put_rest(5, &Rest::From("d".into())).unwrap();
    store.drop_whiteout(Path::new("d/f")).unwrap();
    store.drop_whiteout(Path::new("e/f")).unwrap();
    assert!(store.is_gone(Path::new("d/f")).unwrap());
    assert!(!store.is_gone(Path::new("e/f")).unwrap());
}

#[test]
fn closing_releases_free_space() {
    let fixture = Fixture::new();
    let mut store = fixture.create();
    let ino = store.new_ino();
    store.put_inode(ino, &file(4 << 20, 1)).unwrap();
    store.put_content(ino, &vec![1; 4 << 20]).unwrap();
    store.close().unwrap();
    assert!(std::fs::metadata(fixture.path()).unwrap().len() > 4 << 20);
    let mut store = fixture.open();
    store.drop_inode(ino, ino, &file(4 << 20, 1)).unwrap();
    store.close().unwrap();
    assert!(std::fs::metadata(fixture.path()).unwrap().len() < 1 << 20);
}
