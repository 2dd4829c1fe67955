//! Checks: each function covers one rule, or a few that need the same rows.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::{Problem, Rule};
use crate::change::LayerError;
use crate::database::base::Base;
use crate::database::rows::{
    DIR, FILE, Inode, ROOT, SYMLINK, TYPE, each, inside, is_name, read_inodes, tables, text,
};
use crate::database::{chunk_size, loose_dir};

/// Data that several checks need.
struct Facts<'d> {
    db: &'d Connection,
    path: &'d Path,
    tables: HashSet<String>,
    inodes: HashMap<i64, Inode>,
    /// Directory, name and inode.
    names: Vec<(i64, OsString, i64)>,
    chunk: u64,
    base: Base,
    found: Vec<Problem>,
}

pub(super) fn all(db: &Connection, path: &Path) -> Result<Vec<Problem>, LayerError> {
    let mut facts = Facts {
        db,
        path,
        tables: tables(db)?,
        inodes: HashMap::new(),
        names: Vec::new(),
        chunk: 4096,
        base: Base::Nothing,
        found: Vec::new(),
    };
    facts.file()?;
    // Damaged pages would only report the same damage again under other rules.
    if facts.found.is_empty() {
        facts.settings()?;
        facts.inodes()?;
        facts.names()?;
        facts.links();
        facts.tree();
        facts.chunks()?;
        facts.symlinks();
        facts.orphans();
        facts.loose();
        facts.whiteouts()?;
        facts.redirects()?;
    }
    Ok(facts.found)
}

impl Facts<'_> {
    fn report(&mut self, rule: Rule, what: impl Into<String>) {
        self.found.push(Problem { rule, what: what.into() });
    }

    fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    fn file(&mut self) -> Result<(), LayerError> {
        let mut found = Vec::new();
        each(self.db, "PRAGMA integrity_check(100)", |row| {
            found.push(String::from_utf8_lossy(&text(row, 0)?).into_owned());
            Ok(())
        })?;
        found.retain(|line| line != "ok");
        for line in found {
            self.report(Rule::File, line);
        }
        Ok(())
    }

    fn settings(&mut self) -> Result<(), LayerError> {
        let read = |table: &str, key: &str| {
            let mut value = None;
            if self.tables.contains(table) {
                each(self.db, &format!("SELECT value FROM {table} WHERE key = '{key}'"), |row| {
                    value = Some(text(row, 0)?);
                    Ok(())
                })?;
            }
            Ok::<_, LayerError>(value)
        };
        let (chunk, base) =
            (read("fs_config", "chunk_size")?, read("fs_overlay_config", "base_path")?);
        match chunk.as_deref().map(chunk_size) {
            Some(Ok(size)) => self.chunk = size,
            Some(Err(error)) => self.report(Rule::Setting, error.to_string()),
            None => {}
        }
        if let Some(base) = base.map(OsString::from_vec) {
            match Base::open(Path::new(&base), 0) {
                Ok(base) => self.base = base,
                Err(_) => {
                    self.report(
                        Rule::Setting,
                        format!("cannot open the base `{}`", base.display()),
                    );
                }
            }
        }
        Ok(())
    }

    fn inodes(&mut self) -> Result<(), LayerError> {
        let mut wrong = Vec::new();
        let mut inodes = HashMap::new();
        read_inodes(self.db, |ino, inode| {
            match inode {
                Ok(inode) => drop(inodes.insert(ino, inode)),
                Err(what) => wrong.push(format!("inode {ino}: {what}")),
            }
            Ok(())
        })?;
        self.inodes = inodes;
        for what in wrong {
            self.report(Rule::Inode, what);
        }
        if !self.inodes.get(&ROOT).is_some_and(|root| root.is_dir()) {
            self.report(Rule::Root, "there is no root directory");
        }
        Ok(())
    }

    fn names(&mut self) -> Result<(), LayerError> {
        let mut seen = HashSet::new();
        for table in ["fs_dentry", "sandbox_dentry"] {
            if !self.has(table) {
                continue;
            }
            let query = format!("SELECT parent_ino, name, ino FROM {table}");
            let mut wrong = Vec::new();
            each(self.db, &query, |row| {
                let name = match row.get_ref(1)? {
                    ValueRef::Text(name) | ValueRef::Blob(name) => {
                        OsString::from_vec(name.to_vec())
                    }
                    _ => OsString::new(),
                };
                let (Ok(parent), Ok(ino)) = (row.get(0), row.get(2)) else {
                    wrong.push(format!("`{}` has an invalid inode number", name.display()));
                    return Ok(());
                };
                if !is_name(&name) {
                    wrong.push(format!("invalid name `{}` in directory {parent}", name.display()));
                } else if !seen.insert((parent, name.clone())) {
                    wrong
                        .push(format!("duplicate name `{}` in directory {parent}", name.display()));
                }
                self.names.push((parent, name, ino));
                Ok(())
            })?;
            for what in wrong {
                self.report(Rule::Name, what);
            }
        }
        Ok(())
    }

    /// Checks for dangling names, inodes without a name, and link counts.
    fn links(&mut self) {
        let mut counts: HashMap<i64, u64> = HashMap::new();
        let mut found = Vec::new();
        for (parent, name, ino) in &self.names {
            *counts.entry(*ino).or_default() += 1;
            if !self.inodes.get(parent).is_some_and(|parent| parent.is_dir()) {
                found.push((
                    Rule::Dangling,
                    format!("`{}` is in inode {parent}, which is not a directory", name.display()),
                ));
            } else if !self.inodes.contains_key(ino) {
                found.push((
                    Rule::Dangling,
                    format!("`{}` refers to missing inode {ino}", name.display()),
                ));
            }
        }
        let orphans = self.numbers("SELECT ino FROM sandbox_orphan", "sandbox_orphan");
        let copies = self.numbers("SELECT delta_ino FROM sandbox_origin", "sandbox_origin");
        // Open files without a name, or files with more names in the base.
        let elsewhere = |ino: &i64, count: u64, inode: &Inode| {
            orphans.contains(ino) || (copies.contains(ino) && count < inode.links)
        };
        for (ino, inode) in &self.inodes {
            let count = counts.get(ino).copied().unwrap_or(0);
            if count == 0 && *ino != ROOT && !orphans.contains(ino) {
                found.push((Rule::Nameless, format!("inode {ino} has no name")));
            } else if !inode.is_dir() && count != inode.links && !elsewhere(ino, count, inode) {
                found.push((
                    Rule::Links,
                    format!("inode {ino} has {count} names, but its link count is {}", inode.links),
                ));
            }
        }
        found.sort_by(|one, two| one.1.cmp(&two.1));
        for (rule, what) in found {
            self.report(rule, what);
        }
    }

    fn numbers(&self, query: &str, table: &str) -> HashSet<i64> {
        let mut found = HashSet::new();
        if self.has(table) {
            // Skip unreadable rows; another rule reports them.
            let _ = each(self.db, query, |row| {
                found.extend(row.get::<_, i64>(0));
                Ok(())
            });
        }
        found
    }

    /// Checks that each directory has one parent and can be reached from the root.
    fn tree(&mut self) {
        let mut children: HashMap<i64, Vec<i64>> = HashMap::new();
        for (parent, _, ino) in &self.names {
            if self.inodes.get(ino).is_some_and(|inode| inode.is_dir()) {
                children.entry(*parent).or_default().push(*ino);
            }
        }
        let (mut seen, mut left) = (HashSet::from([ROOT]), vec![ROOT]);
        let mut found = Vec::new();
        while let Some(dir) = left.pop() {
            for child in children.remove(&dir).unwrap_or_default() {
                if seen.insert(child) {
                    left.push(child);
                } else {
                    found.push(format!("directory {child} has two parents"));
                }
            }
        }
        let mut lost: Vec<_> =
            children.into_values().flatten().filter(|dir| !seen.contains(dir)).collect();
        lost.sort_unstable();
        lost.dedup();
        found.extend(
            lost.into_iter().map(|dir| format!("directory {dir} cannot be reached from the root")),
        );
        for what in found {
            self.report(Rule::Cycle, what);
        }
    }

    fn chunks(&mut self) -> Result<(), LayerError> {
        let mut found = Vec::new();
        each(self.db, "SELECT ino, chunk_index, typeof(data), length(data) FROM fs_data", |row| {
            let (Ok(ino), Ok(index)) = (row.get::<_, i64>(0), row.get::<_, i64>(1)) else {
                found.push((Rule::Chunk, "a chunk has an invalid inode number".into()));
                return Ok(());
            };
            let (kind, length): (String, Option<i64>) = (row.get(2)?, row.get(3)?);
            let Some(inode) = self.inodes.get(&ino) else {
                found.push((Rule::Orphan, format!("chunk {index} belongs to missing inode {ino}")));
                return Ok(());
            };
            let start = u64::try_from(index).ok().and_then(|index| index.checked_mul(self.chunk));
            let end = start.and_then(|start| start.checked_add(length.unwrap_or(0).unsigned_abs()));
            let fits = length.unwrap_or(0).unsigned_abs() <= self.chunk
                && start.is_some_and(|start| start < inode.size)
                && end.is_some();
            if inode.mode & TYPE != FILE {
                found.push((
                    Rule::Chunk,
                    format!("inode {ino} is not a file but has chunk {index}"),
                ));
            } else if !fits || (kind != "blob" && kind != "text") {
                found.push((
                    Rule::Chunk,
                    format!("chunk {index} is outside of inode {ino} or invalid"),
                ));
            }
            Ok(())
        })?;
        for (rule, what) in found {
            self.report(rule, what);
        }
        Ok(())
    }

    fn symlinks(&mut self) {
        let mut targets = HashSet::new();
        for table in ["fs_symlink", "sandbox_symlink"] {
            if self.has(table) {
                targets.extend(self.numbers(&format!("SELECT ino FROM {table}"), table));
            }
        }
        let is_link = |ino: &i64| self.inodes.get(ino).map(|inode| inode.mode & TYPE == SYMLINK);
        let mut found = Vec::new();
        for ino in &targets {
            match is_link(ino) {
                Some(true) => {}
                Some(false) => {
                    found.push((
                        Rule::Symlink,
                        format!("inode {ino} has a target but is not a link"),
                    ));
                }
                None => {
                    found.push((Rule::Orphan, format!("a target belongs to missing inode {ino}")));
                }
            }
        }
        let links = self.inodes.iter().filter(|(_, inode)| inode.mode & TYPE == SYMLINK);
        for (ino, _) in links.filter(|(ino, _)| !targets.contains(ino)) {
            found.push((Rule::Symlink, format!("the link {ino} has no target")));
        }
        for (rule, what) in found {
            self.report(rule, what);
        }
    }

    fn orphans(&mut self) {
        for (table, column) in [
            ("fs_origin", "delta_ino"),
            ("sandbox_xattr", "ino"),
            ("sandbox_dir", "ino"),
            ("sandbox_origin", "delta_ino"),
            ("sandbox_loose", "ino"),
            ("sandbox_orphan", "ino"),
        ] {
            let rows = self.numbers(&format!("SELECT {column} FROM {table}"), table);
            let mut lost: Vec<_> =
                rows.into_iter().filter(|ino| !self.inodes.contains_key(ino)).collect();
            lost.sort_unstable();
            for ino in lost {
                self.report(Rule::Orphan, format!("`{table}` refers to missing inode {ino}"));
            }
        }
    }

    fn loose(&mut self) {
        let rows = self.numbers("SELECT ino FROM sandbox_loose", "sandbox_loose");
        let dir = loose_dir(self.path);
        let files: HashSet<i64> = std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        for ino in rows.difference(&files) {
            self.report(
                Rule::Loose,
                format!("the content of inode {ino} is missing in `{}`", dir.display()),
            );
        }
        // Files without a row are not damage: a mount creates them before their row, keeps them
        // until the deletion of their row is on disk, and deletes those that a killed mount left.
    }

    fn whiteouts(&mut self) -> Result<(), LayerError> {
        let mut found = Vec::new();
        for table in ["fs_whiteout", "sandbox_whiteout"] {
            if !self.has(table) {
                continue;
            }
            each(self.db, &format!("SELECT path FROM {table}"), |row| {
                let stored = text(row, 0)?;
                let shown = String::from_utf8_lossy(&stored).into_owned();
                match inside(&stored) {
                    Err(error) => found.push((Rule::Name, error.to_string())),
                    // A whiteout may lie below a directory that has been deleted since.
                    Ok(path) if !matches!(self.base, Base::Nothing) => {
                        if self.base.stat(&path)?.is_none() {
                            found.push((
                                Rule::Whiteout,
                                format!("whiteout of `{shown}`, which the base does not have"),
                            ));
                        }
                    }
                    Ok(_) => {}
                }
                Ok(())
            })?;
        }
        for (rule, what) in found {
            self.report(rule, what);
        }
        Ok(())
    }

    fn redirects(&mut self) -> Result<(), LayerError> {
        if !self.has("sandbox_dir") {
            return Ok(());
        }
        let mut found = Vec::new();
        let mut bases = HashSet::new();
        each(self.db, "SELECT ino, base FROM sandbox_dir", |row| {
            let ino: i64 = row.get(0)?;
            if self.inodes.get(&ino).is_some_and(|inode| inode.mode & TYPE != DIR) {
                found.push(format!(
                    "inode {ino} refers to a directory of the base but is not a directory"
                ));
            }
            if matches!(row.get_ref(1)?, ValueRef::Null) {
                return Ok(());
            }
            let stored = text(row, 1)?;
            let shown = String::from_utf8_lossy(&stored).into_owned();
            match inside(&stored) {
                Err(error) => found.push(error.to_string()),
                Ok(path) => {
                    let there = self.base.stat(&path)?.is_some_and(Inode::is_dir);
                    if !matches!(self.base, Base::Nothing) && !there {
                        found.push(format!(
                            "inode {ino} refers to `{shown}`, which the base does not have"
                        ));
                    }
                    if !bases.insert(path) {
                        found.push(format!("two directories refer to `{shown}`"));
                    }
                }
            }
            Ok(())
        })?;
        for what in found {
            self.report(Rule::Redirect, what);
        }
        Ok(())
    }
}
