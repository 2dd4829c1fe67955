//! Repairs that lose no data, in one transaction.

use std::fmt::Write as _;
use std::path::PathBuf;

use rusqlite::{Connection, TransactionBehavior};

use crate::change::LayerError;
use crate::database::base::Base;
use crate::database::rows::{DIR, TYPE, each, inside, tables, text};

pub(super) fn all(db: &mut Connection) -> Result<(), LayerError> {
    let tables = tables(db)?;
    let has = |table: &str| tables.contains(table);
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in ["fs_dentry", "sandbox_dentry"].into_iter().filter(|table| has(table)) {
        change.execute(
            &format!(
                "DELETE FROM {table} WHERE ino NOT IN (SELECT ino FROM fs_inode)
                 OR parent_ino NOT IN (SELECT ino FROM fs_inode WHERE mode & {TYPE} = {DIR})"
            ),
            [],
        )?;
    }
    for (table, column) in OF_AN_INODE.iter().filter(|(table, _)| has(table)) {
        let query = format!("DELETE FROM {table} WHERE {column} NOT IN (SELECT ino FROM fs_inode)");
        change.execute(&query, [])?;
    }
    counts(&change, &has)?;
    whiteouts(&change, &has)?;
    change.commit()?;
    Ok(())
}

/// Tables whose rows belong to an inode, with the column of its number.
pub(crate) const OF_AN_INODE: &[(&str, &str)] = &[
    ("fs_data", "ino"),
    ("fs_symlink", "ino"),
    ("fs_origin", "delta_ino"),
    ("sandbox_symlink", "ino"),
    ("sandbox_xattr", "ino"),
    ("sandbox_dir", "ino"),
    ("sandbox_origin", "delta_ino"),
    ("sandbox_loose", "ino"),
    ("sandbox_orphan", "ino"),
];

/// Corrects the link counts of files. Directories are left out because tools count them
/// differently.
fn counts(db: &Connection, has: &impl Fn(&str) -> bool) -> Result<(), LayerError> {
    let names = if has("sandbox_dentry") {
        "SELECT ino FROM fs_dentry UNION ALL SELECT ino FROM sandbox_dentry"
    } else {
        "SELECT ino FROM fs_dentry"
    };
    // Open files without a name, and files with more names in the base.
    let mut held = String::new();
    for (table, column) in [("sandbox_orphan", "ino"), ("sandbox_origin", "delta_ino")] {
        if has(table) {
            let _ = write!(held, " AND ino NOT IN (SELECT {column} FROM {table})");
        }
    }
    db.execute_batch(&format!(
        "CREATE TEMP TABLE names AS SELECT ino, count(*) AS count FROM ({names}) GROUP BY ino;
         CREATE INDEX temp.by_ino ON names(ino);
         UPDATE fs_inode SET nlink = coalesce((SELECT count FROM names WHERE names.ino = fs_inode.ino), 0)
         WHERE mode & {TYPE} <> {DIR} {held};
         DROP TABLE temp.names;"
    ))?;
    Ok(())
}

fn whiteouts(db: &Connection, has: &impl Fn(&str) -> bool) -> Result<(), LayerError> {
    let mut base = None;
    if has("fs_overlay_config") {
        each(db, "SELECT value FROM fs_overlay_config WHERE key = 'base_path'", |row| {
            use std::os::unix::ffi::OsStringExt;
            base = Some(PathBuf::from(std::ffi::OsString::from_vec(text(row, 0)?)));
            Ok(())
        })?;
    }
    // Without its base, no whiteout can be judged.
    let Some(Ok(base)) = base.map(|base| Base::open(&base, 0)) else { return Ok(()) };
    for table in ["fs_whiteout", "sandbox_whiteout"].into_iter().filter(|table| has(table)) {
        let mut idle = Vec::new();
        each(db, &format!("SELECT path FROM {table}"), |row| {
            let stored = text(row, 0)?;
            if let Ok(path) = inside(&stored)
                && base.stat(&path)?.is_none()
            {
                idle.push(stored);
            }
            Ok(())
        })?;
        for path in idle {
            db.execute(&format!("DELETE FROM {table} WHERE CAST(path AS BLOB) = ?"), [path])?;
        }
    }
    Ok(())
}
