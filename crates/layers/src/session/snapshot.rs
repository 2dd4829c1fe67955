//! Snapshots and forks of sessions.
//!
//! A stopped session gets a new layer on top. The layers below are the snapshot, at no cost. The top layer of a running
//! session is copied while its processes are frozen.

use std::fs;
use std::path::PathBuf;

use super::base::Hidden;
use super::disk;
use super::error::{SessionError, cannot};
use super::find;
use super::holder::Freeze;
use super::lock::Lock;
use super::opened::LayerSession;
use super::record::{FORMAT, LayerEngine, LayerId, Root, RootKind, SessionRecord, Snapshot};
use super::store::LayerSessions;
use crate::overlay::{Stack, flatten};

/// Maximum number of layers. The lower half of a higher stack is merged into one layer.
const HIGHEST: usize = 16;

impl LayerSessions {
    /// Saves the current state of a session as a snapshot. The default name is a number.
    pub fn snapshot(
        &self,
        session: &mut LayerSession,
        name: Option<&str>,
        freeze: Freeze<'_>,
    ) -> Result<String, SessionError> {
        let _guard = self.guard()?;
        let name = free_snapshot(session.record(), name)?;
        let stacks = session.sealed_stacks(freeze)?;
        let snapshot = Snapshot { name: name.clone(), taken: sandbox_linux::clock::now(), stacks };
        session.update(|record| record.snapshots.push(snapshot))?;
        session.keep_low()?;
        self.sweep()?;
        Ok(name)
    }

    /// Restores a snapshot. Saves the current state as a snapshot first and returns its name.
    pub fn restore(
        &self,
        session: &mut LayerSession,
        name: &str,
        lock: &Lock,
    ) -> Result<String, SessionError> {
        session.settle(lock)?;
        let find = |record: &SessionRecord| {
            record.snapshots.iter().rev().find(|snapshot| snapshot.name == name).cloned()
        };
        let Some(old) = find(session.record()) else {
            return Err(SessionError::NoSnapshot {
                session: session.record().name.clone(),
                name: name.to_owned(),
            });
        };
        let _guard = self.guard()?;
        let kept = free_snapshot(session.record(), None)?;
        let stacks = session.stack_up()?;
        let present = Snapshot { name: kept.clone(), taken: sandbox_linux::clock::now(), stacks };
        let back = match session.record().engine {
            LayerEngine::Overlay => old.stacks.clone(),
            LayerEngine::Agentfs => session.copies(&old.stacks)?,
        };
        let mut tops = Vec::new();
        for root in &session.record().roots {
            tops.push(session.layers().create(&root.path, root.kind, session.record().engine)?);
        }
        session.update(|record| {
            record.snapshots.push(present);
            for (number, (root, top)) in record.roots.iter_mut().zip(tops).enumerate() {
                // A root that was added later had no changes then.
                root.stack = back.get(number).cloned().unwrap_or_default();
                if record.engine == LayerEngine::Overlay || root.stack.is_empty() {
                    root.stack.push(top);
                }
            }
        })?;
        session.keep_hidden()?;
        session.keep_low()?;
        self.sweep()?;
        Ok(kept)
    }

    /// Creates a session from the current state of another.
    pub fn fork(
        &self,
        session: &mut LayerSession,
        name: &str,
        freeze: Freeze<'_>,
    ) -> Result<LayerSession, SessionError> {
        let _guard = self.guard()?;
        let project = session.record().project.clone();
        let name = self.free_name(Some(name.to_owned()), &project)?;
        let stacks = session.sealed_stacks(freeze)?;
        let old = session.record();
        let mut roots = Vec::new();
        for (root, mut stack) in old.roots.iter().zip(stacks) {
            if old.engine == LayerEngine::Overlay {
                stack.push(session.layers().create(&root.path, root.kind, old.engine)?);
            }
            roots.push(Root { path: root.path.clone(), kind: root.kind, stack });
        }
        let record = SessionRecord {
            format: FORMAT,
            id: disk::unique()?,
            name,
            project,
            engine: old.engine,
            created: sandbox_linux::clock::now(),
            roots,
            runs: Vec::new(),
            snapshots: Vec::new(),
            holder: None,
            parent: Some(old.id.clone()),
        };
        let mut fork = self.add(record)?;
        copy_base(session, &fork)?;
        fork.keep_low()?;
        Ok(fork)
    }
}

impl LayerSession {
    /// Removes paths that are no longer hidden from the record of the base.
    fn keep_hidden(&self) -> Result<(), SessionError> {
        for (number, root) in self.record().roots.iter().enumerate() {
            if root.kind == RootKind::Dir {
                let mut record = self.base_record(number)?;
                record.keep_hidden(&Hidden::of(&self.layer(number)?.listing()?));
                record.write(number)?;
            }
        }
        Ok(())
    }

    /// Returns the layers of each root's current state, which are never written again.
    fn sealed_stacks(&mut self, freeze: Freeze<'_>) -> Result<Vec<Vec<LayerId>>, SessionError> {
        match self.lock() {
            Ok(lock) => {
                self.settle(&lock)?;
                self.stack_up()
            }
            Err(SessionError::Busy { .. } | SessionError::Held { .. })
                if self.record().engine == LayerEngine::Overlay =>
            {
                self.copy_top(freeze)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts an empty layer on top of every root, and returns the stacks below.
    fn stack_up(&mut self) -> Result<Vec<Vec<LayerId>>, SessionError> {
        if self.record().engine == LayerEngine::Agentfs {
            let present: Vec<_> =
                self.record().roots.iter().map(|root| root.stack.clone()).collect();
            return self.copies(&present);
        }
        let mut tops = Vec::new();
        for root in &self.record().roots {
            tops.push(self.layers().create(&root.path, root.kind, self.record().engine)?);
        }
        let below = self.record().roots.iter().map(|root| root.stack.clone()).collect();
        self.update(|record| {
            for (root, top) in record.roots.iter_mut().zip(tops) {
                root.stack.push(top);
            }
        })?;
        Ok(below)
    }

    /// Copies the top layer of every root while the session's processes are frozen.
    fn copy_top(&mut self, freeze: Freeze<'_>) -> Result<Vec<Vec<LayerId>>, SessionError> {
        let frozen = self.freeze_processes(freeze)?;
        let mut stacks = Vec::new();
        for root in &self.record().roots {
            let mut stack = root.stack.clone();
            if let Some(top) = stack.pop() {
                let copy = self.layers().create(&root.path, root.kind, self.record().engine)?;
                let part = Stack::part(&[self.layers().upper(&top)]);
                let part = part.map_err(cannot("read", &self.layers().dir(&top)))?;
                flatten(&part, &self.layers().upper(&copy))?;
                stack.push(copy);
            }
            stacks.push(stack);
        }
        drop(frozen);
        Ok(stacks)
    }

    /// Merges the lower half of a high stack into one layer. Snapshots keep their layers.
    fn keep_low(&mut self) -> Result<(), SessionError> {
        let mut lower = Vec::new();
        for root in &self.record().roots {
            if root.stack.len() <= HIGHEST || self.record().engine != LayerEngine::Overlay {
                lower.push(None);
                continue;
            }
            let half = HIGHEST / 2;
            let uppers: Vec<PathBuf> =
                root.stack[..half].iter().map(|layer| self.layers().upper(layer)).collect();
            let one = self.layers().create(&root.path, root.kind, self.record().engine)?;
            let stack = Stack::open(&uppers, root.base());
            flatten(&stack.map_err(cannot("read", self.dir()))?, &self.layers().upper(&one))?;
            lower.push(Some((half, one)));
        }
        if lower.iter().all(Option::is_none) {
            return Ok(());
        }
        self.update(|record| {
            for (root, lower) in record.roots.iter_mut().zip(lower) {
                if let Some((half, one)) = lower {
                    root.stack.splice(..half, [one]);
                }
            }
        })
    }
}

/// Returns a snapshot name that is free in the session.
fn free_snapshot(record: &SessionRecord, name: Option<&str>) -> Result<String, SessionError> {
    let taken = |name: &str| record.snapshots.iter().any(|snapshot| snapshot.name == name);
    match name {
        Some(name) if !find::is_name(name) => Err(SessionError::Name(name.to_owned())),
        Some(name) if taken(name) => Err(SessionError::SnapshotTaken(name.to_owned())),
        Some(name) => Ok(name.to_owned()),
        None => {
            let mut number = record.snapshots.len() + 1;
            while taken(&number.to_string()) {
                number += 1;
            }
            Ok(number.to_string())
        }
    }
}

/// Copies the record of the base, because the fork's changes have the same base.
fn copy_base(from: &LayerSession, to: &LayerSession) -> Result<(), SessionError> {
    let (from, to) = (from.dir().join("base"), to.dir().join("base"));
    if !from.try_exists().unwrap_or(false) {
        return Ok(());
    }
    disk::private_dir(&to.join("bytes"))?;
    let bytes = from.join("bytes");
    let kept = fs::read_dir(&bytes).into_iter().flatten().flatten();
    for entry in kept {
        let place = to.join("bytes").join(entry.file_name());
        fs::hard_link(entry.path(), &place).map_err(cannot("link", &place))?;
    }
    for entry in fs::read_dir(&from).map_err(cannot("list", &from))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let place = to.join(entry.file_name());
            fs::copy(entry.path(), &place).map_err(cannot("copy", &entry.path()))?;
        }
    }
    Ok(())
}
