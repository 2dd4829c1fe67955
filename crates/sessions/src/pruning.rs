//! Pruning: removal of sessions without unapplied changes, and of leftovers that belong to no session.

use std::path::{Path, PathBuf};

use sandbox_layers::review::{self, Summary};
use sandbox_layers::session::{LayerSession, LayerSessions, RunState, Selector};
use sandbox_linux::clock::{self, duration};
use sandbox_linux::escape::{name, visible};
use serde::Serialize;

use crate::backend::Stray;
use crate::error::ControlError;
use crate::removal::release_orphan;
use crate::service::Service;
use crate::session::{Session, Wanted};

/// Selection by the caller.
#[derive(Debug, Clone, Copy)]
pub struct PruneRequest<'a> {
    /// Sessions to remove with their unapplied changes.
    pub names: &'a [String],
    /// Directory that names of sessions are relative to.
    pub directory: &'a Path,
    /// Age in days after which an unused session is removed.
    pub days: u64,
}

/// Plan for users and programs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PruneReport {
    /// Entries to remove.
    pub remove: Vec<PruneItem>,
    /// Entries that are kept because their changes were not applied or their record cannot be read.
    pub keep: Vec<KeptItem>,
}

/// Entry to remove.
#[derive(Debug, Clone, Serialize)]
pub struct PruneItem {
    /// `session`, `directory` or `resource`.
    pub kind: &'static str,
    /// Name, path or identity.
    pub name: String,
    /// Reason for the removal.
    pub reason: String,
    /// Changes of a session with a layer.
    pub changes: Option<String>,
    /// Size of these changes.
    pub bytes: Option<u64>,
}

/// Entry that is kept.
#[derive(Debug, Clone, Serialize)]
pub struct KeptItem {
    /// Name or path.
    pub name: String,
    /// Reason for keeping it.
    pub reason: String,
    /// Command that removes it.
    pub remove_with: String,
}

/// Sessions and leftovers to remove.
pub struct Pruning<'s> {
    service: Option<&'s Service>,
    layers: &'s LayerSessions,
    layered: Vec<Layered>,
    broken: Vec<PathBuf>,
    down: Vec<Session>,
    strays: Vec<Stray>,
    report: PruneReport,
}

/// Session with a layer that is removed.
struct Layered {
    session: LayerSession,
    /// True when the caller named it.
    named: bool,
}

impl<'s> Pruning<'s> {
    /// Finds what to remove. Removes nothing yet.
    pub fn plan(
        request: PruneRequest<'_>,
        service: Option<&'s Service>,
        layers: &'s LayerSessions,
    ) -> Result<Self, ControlError> {
        let (report, layered, broken) = (PruneReport::default(), Vec::new(), Vec::new());
        let (down, strays) = (Vec::new(), Vec::new());
        let mut plan = Self { service, layers, layered, broken, down, strays, report };
        plan.add_layered(request)?;
        plan.add_broken(request)?;
        if let Some(service) = service {
            plan.add_down(service, request.days)?;
            plan.add_strays(service)?;
        }
        Ok(plan)
    }

    /// Returns the plan for users and programs.
    pub fn report(&self) -> &PruneReport {
        &self.report
    }

    /// Removes the planned entries. Keeps a session that is in use by now, and changes that were made meanwhile.
    pub fn carry_out(self) -> Result<(), ControlError> {
        if let Some(service) = self.service {
            self.down.iter().try_for_each(|session| service.remove(session))?;
            self.strays.iter().try_for_each(|stray| service.remove_stray(stray))?;
        }
        for mut session in self.layers.list()? {
            release_orphan(&mut session, self.service)?;
        }
        for Layered { session, named } in self.layered {
            if let Ok(lock) = session.lock()
                && (named || review::unapplied(&session).is_none())
            {
                self.layers.remove(&session, lock)?;
            }
        }
        for dir in self.broken {
            self.layers.remove_broken(&dir)?;
        }
        Ok(())
    }

    fn add_layered(&mut self, request: PruneRequest<'_>) -> Result<(), ControlError> {
        let broken = self.layers.broken()?;
        let mut ids = Vec::new();
        for word in request.names {
            if broken.iter().any(|(dir, _)| is_at(dir, word)) {
                continue;
            }
            let session = self.layers.find(&Selector::named(request.directory, word.as_str()))?;
            // Fails with the process that uses it.
            session.lock()?;
            ids.push(session.record().id.clone());
        }
        for session in self.layers.list()? {
            let named = ids.contains(&session.record().id);
            let reason =
                if named { Some("named".into()) } else { self.reason(&session, request.days) };
            let Some(reason) = reason else { continue };
            let changes = Summary::of(&session)
                .map_or_else(|_| "unreadable changes".into(), |summary| summary.to_string());
            self.report.remove.push(PruneItem {
                kind: "session",
                name: visible(&session.record().name),
                reason,
                changes: Some(changes),
                bytes: Some(session.size()),
            });
            self.layered.push(Layered { session, named });
        }
        Ok(())
    }

    /// Returns the reason to remove a session that the caller did not name.
    fn reason(&mut self, session: &LayerSession, days: u64) -> Option<String> {
        if matches!(session.state(), RunState::Running(_) | RunState::Held(_)) {
            return None;
        }
        let record = session.record();
        let gone = record.roots.iter().all(|root| !root.path.try_exists().unwrap_or(true));
        let unused = clock::now().saturating_sub(record.last_used());
        let unapplied = review::unapplied(session);
        let reason = if gone {
            "its project does not exist".to_owned()
        } else if unused >= days.saturating_mul(86_400) {
            format!("not used for {}", duration(unused))
        } else {
            return unapplied.is_none().then(|| "no changes".into());
        };
        let Some(work) = unapplied else { return Some(reason) };
        let name = visible(&record.name);
        let remove_with = format!("agent-sandbox rm {name}");
        let reason = format!("it has unapplied changes: {work} ({reason})");
        self.report.keep.push(KeptItem { name, reason, remove_with });
        None
    }

    /// Adds directories of sessions without a record. One with an unreadable record may hold changes.
    fn add_broken(&mut self, request: PruneRequest<'_>) -> Result<(), ControlError> {
        for (dir, error) in self.layers.broken()? {
            let has_record = dir.join("session.json").try_exists().unwrap_or(true);
            if has_record && !request.names.iter().any(|word| is_at(&dir, word)) {
                let id = dir.file_name().unwrap_or_default().to_string_lossy();
                let remove_with = format!("agent-sandbox prune {}", visible(&id));
                let reason = format!("it cannot be read ({error})");
                self.report.keep.push(KeptItem { name: name(&dir), reason, remove_with });
                continue;
            }
            self.push("directory", name(&dir), error.to_string());
            self.broken.push(dir);
        }
        Ok(())
    }

    /// Adds stopped sessions without a layer that were created long ago.
    fn add_down(&mut self, service: &Service, days: u64) -> Result<(), ControlError> {
        for session in service.sessions()? {
            let age = clock::now().saturating_sub(session.created);
            let old = age >= days.saturating_mul(86_400);
            if session.wanted == Wanted::Down && !session.cow && old {
                let reason = format!("stopped, created {} ago", duration(age));
                self.push("session", session.name.to_string(), reason);
                self.down.push(session);
            }
        }
        Ok(())
    }

    fn add_strays(&mut self, service: &Service) -> Result<(), ControlError> {
        for stray in service.strays()? {
            let reason = format!("resource of {} without a session", stray.backend);
            self.push("resource", stray.identity.clone(), reason);
            self.strays.push(stray);
        }
        Ok(())
    }

    fn push(&mut self, kind: &'static str, name: String, reason: String) {
        self.report.remove.push(PruneItem { kind, name, reason, changes: None, bytes: None });
    }
}

fn is_at(dir: &Path, word: &str) -> bool {
    dir.file_name().is_some_and(|id| id == word)
}
