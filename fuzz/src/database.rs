//! Hostile databases. A valid database is modified with SQL and at random bytes, then opened, listed, read, checked and
//! written to. Each call must return a result or an error, without a panic, an endless loop or unbounded memory use.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::types::Value;
use sandbox_layers::Layer;
use sandbox_layers::database::{Database, check};
use sandbox_layers::store::{Kind, Store};
use sandbox_layers::tree::{Base, Caller, Directory, ROOT, Tree};

/// Content of the valid database. Every table has at least one row.
const CONTENT: &str = "
INSERT INTO fs_inode (ino, mode, nlink, uid, gid, size, atime, mtime, ctime) VALUES
  (2, 16877, 2, 0, 0, 0, 1, 1, 1), (3, 33188, 2, 0, 0, 70000, 1, 1, 1), (4, 41471, 1, 0, 0, 5, 1, 1, 1),
  (5, 16877, 2, 0, 0, 0, 1, 1, 1), (6, 33188, 1, 0, 0, 3, 1, 1, 1), (7, 33188, 0, 0, 0, 9, 1, 1, 1);
INSERT INTO fs_dentry (name, parent_ino, ino) VALUES ('dir', 1, 2), ('file', 2, 3), ('twin', 1, 3), ('link', 1, 4), ('moved', 1, 5), ('kept', 2, 6);
INSERT INTO sandbox_dentry VALUES (2, X'fffe', 6);
INSERT INTO fs_data VALUES (3, 0, zeroblob(65536)), (3, 1, zeroblob(4464)), (6, 0, X'616263');
INSERT INTO fs_symlink VALUES (4, 'twin/');
INSERT INTO sandbox_symlink VALUES (4, X'fffefd');
INSERT INTO fs_whiteout VALUES ('/gone', 1), ('/old/one', 1);
INSERT INTO sandbox_whiteout VALUES (X'2fff');
INSERT INTO fs_origin VALUES (6, 4611686018427387999);
INSERT INTO sandbox_xattr VALUES (3, X'757365722e61', X'31');
INSERT INTO sandbox_dir VALUES (2, NULL), (5, X'6f6c64');
INSERT INTO sandbox_orphan VALUES (7);
INSERT INTO kv_store (key, value) VALUES ('a', '1');
INSERT INTO tool_calls (name, started_at, status) VALUES ('t', 1, 'success');
";

/// Directory with a base, and the valid database. Each thread has one.
struct Fixture {
    dir: tempfile::TempDir,
    valid: Vec<u8>,
}

thread_local! {
    static FIXTURE: OnceCell<Fixture> = const { OnceCell::new() };
}

impl Fixture {
    fn new() -> Self {
        // Prefer memory, to avoid disk I/O.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a temporary directory");
        let base = dir.path().join("base");
        fs::create_dir_all(base.join("old/deep")).expect("an empty directory");
        fs::write(base.join("old/one"), "one").expect("an empty directory");
        fs::write(base.join("gone"), "gone").expect("an empty directory");
        let path = dir.path().join("valid.db");
        Store::create(&path, Some(&base)).and_then(Store::close).expect("an empty directory");
        let db = Connection::open(&path).expect("the database was just created");
        db.execute_batch(CONTENT).expect("the schema matches");
        db.pragma_update(None, "journal_mode", "delete").expect("no other connection is open");
        db.close().expect("no statement is open");
        let valid = fs::read(&path).expect("the database was just created");
        Self { dir, valid }
    }

    /// Creates an empty directory and returns the path of a database in it.
    fn fresh(&self) -> PathBuf {
        let path = self.dir.path().join("fuzzed");
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a private directory");
        path.join("f.db")
    }
}

/// Runs the target. The input selects how a valid database is modified.
pub fn database(data: &[u8]) {
    FIXTURE.with(|fixture| {
        let fixture = fixture.get_or_init(Fixture::new);
        let path = fixture.fresh();
        fs::write(&path, &fixture.valid).expect("a private directory");
        change(&path, &mut Input(data));
        read(&path);
        work(&path, &fixture.dir.path().join("base"));
        let _ = check::check(&path);
    });
}

/// Reader of numbers from the input. Returns zeros at its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % limit.max(1)
    }

    /// Returns a value that may be invalid in its column.
    fn value(&mut self) -> Value {
        const NUMBERS: [i64; 12] =
            [0, 1, 2, 3, -1, 5, i64::MAX, i64::MIN, 1 << 62, 0o100_644, 0o040_755, 1 << 40];
        const TEXTS: [&str; 10] =
            ["", ".", "..", "/", "a/b", "/old", "\0", "dir", "../../etc", "file"];
        match self.byte() % 6 {
            0 => Value::Null,
            1 | 2 => Value::Integer(NUMBERS[self.below(NUMBERS.len())]),
            3 => Value::Text(TEXTS[self.below(TEXTS.len())].to_owned()),
            4 => Value::Real(f64::from(self.byte()) * 1e300),
            _ => {
                let length = self.below(40).pow(3);
                Value::Blob(vec![self.byte(); length])
            }
        }
    }
}

/// Modifies a database with SQL, and then at random bytes.
fn change(path: &Path, input: &mut Input<'_>) {
    if let Ok(db) = Connection::open(path) {
        let tables = tables(&db);
        for _ in 0..input.byte() % 8 {
            // The database may refuse a statement.
            let _ = alter(&db, &tables, input);
        }
        let _ = db.close();
    }
    let mut bytes = fs::read(path).unwrap_or_default();
    for _ in 0..input.byte() % 8 {
        let at = (input.below(1 << 16) << 4 | usize::from(input.byte())) % bytes.len().max(1);
        let value = input.byte();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    if input.byte() % 16 == 1 {
        bytes.truncate(input.below(bytes.len()));
    }
    fs::write(path, bytes).expect("a private directory");
}

fn tables(db: &Connection) -> Vec<(String, Vec<String>)> {
    let names = |sql: &str| -> Vec<String> {
        let mut statement = db.prepare(sql).expect("plain SQL");
        let rows = statement.query_map([], |row| row.get(0)).expect("plain SQL");
        rows.map_while(Result::ok).collect()
    };
    let tables = names(
        "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%' ORDER BY 1",
    );
    tables
        .into_iter()
        .map(|table| {
            (table.clone(), names(&format!("SELECT name FROM pragma_table_info('{table}')")))
        })
        .collect()
}

fn alter(
    db: &Connection,
    tables: &[(String, Vec<String>)],
    input: &mut Input<'_>,
) -> rusqlite::Result<()> {
    let (table, columns) = &tables[input.below(tables.len())];
    let column = &columns[input.below(columns.len())];
    match input.byte() % 16 {
        0..8 => {
            let sql = format!("UPDATE OR REPLACE {table} SET {column}=?1 WHERE {0}=(SELECT {0} FROM {table} LIMIT 1 OFFSET ?2)", columns[0]);
            let row = i64::try_from(input.below(8)).unwrap_or(0);
            db.execute(&sql, (input.value(), row)).map(drop)
        }
        8..12 => {
            let marks = vec!["?"; columns.len()].join(",");
            let values: Vec<Value> = columns.iter().map(|_| input.value()).collect();
            db.execute(&format!("INSERT OR REPLACE INTO {table} VALUES ({marks})"), rusqlite::params_from_iter(values)).map(drop)
        }
        12 => db.execute(&format!("DELETE FROM {table}"), []).map(drop),
        13 => db.execute_batch(&format!("DROP TABLE {table}")),
        // An infinite number of rows.
        14 => db.execute_batch(&format!(
            "DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT {} FROM n;",
            columns.iter().map(|column| format!("x AS {column}")).collect::<Vec<_>>().join(",")
        )),
        _ => db.execute_batch(&format!(
            "CREATE TRIGGER IF NOT EXISTS t AFTER INSERT ON {table} BEGIN INSERT INTO kv_store(key, value) SELECT randomblob(9), zeroblob(9000000); END"
        )),
    }
}

/// Reads the database like `diff` and the list of tool calls.
fn read(path: &Path) {
    let _ = check::check(path);
    let Ok(database) = Database::open(path) else { return };
    let _ = database.calls(10);
    for entry in database.entries().unwrap_or_default().into_iter().take(400) {
        let _ = database.xattrs(&entry.path);
        if let Ok(content) = database.open(&entry.path) {
            let _ = std::io::copy(&mut content.take(1 << 20), &mut std::io::sink());
        }
    }
}

/// Reads and modifies the tree like a mounted session.
fn work(path: &Path, base: &Path) {
    let Ok(store) = Store::open(path) else { return };
    let base = Directory::open(base).ok().map(|base| Arc::new(base) as Arc<dyn Base>);
    let Ok(tree) = Tree::new(store, base) else { return };
    let mut left = 400;
    walk(&tree, ROOT, 0, &mut left);
    let who = Caller { uid: 0, gid: 0 };
    let name = OsStr::new("new");
    if let Ok(made) = tree.create(ROOT, name, 0o644, who) {
        let _ = tree.write(made.id, 0, &vec![1; 200_000], false);
        let _ = tree.flush(made.id);
        tree.release(made.id);
    }
    let _ = tree.unlink(ROOT, OsStr::new("twin"));
    let _ = tree.rmdir(ROOT, OsStr::new("moved"));
    tree.tick();
    let _ = tree.close();
}

fn walk(tree: &Tree, dir: u64, depth: usize, left: &mut usize) {
    let Ok(items) = tree.items(dir, 0) else { return };
    for item in items.iter() {
        if *left == 0 || depth > 40 {
            return;
        }
        *left -= 1;
        if item.name == "." || item.name == ".." {
            continue;
        }
        let Ok(Some(attr)) = tree.lookup(dir, &item.name) else { continue };
        let _ = tree.xattrs(attr.id);
        let _ = tree.target(attr.id);
        if attr.inode.kind() == Kind::Dir {
            walk(tree, attr.id, depth + 1, left);
        } else if tree.open(attr.id).is_ok() {
            let mut buffer = vec![0; 100_000];
            for at in [0, 60_000, attr.inode.size.saturating_sub(10)] {
                let _ = tree.read(attr.id, at, &mut buffer);
            }
            let _ = tree.write(attr.id, attr.inode.size / 2, b"x", false);
            tree.release(attr.id);
        }
        tree.forget(attr.id, 1);
    }
}
