//! Sessions as rows.

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};

use super::Store;
use crate::error::ControlError;
use crate::session::{Name, NewSession, Session, SessionId, Wanted, backend_named};

const COLUMNS: &str =
    "id, name, named, project, backend, request, policy, cow, wanted, created, boot";

impl Store {
    /// Returns all sessions, the oldest first.
    pub fn list(&self) -> Result<Vec<Session>, ControlError> {
        let failed = self.failed();
        let query = format!("SELECT {COLUMNS} FROM session ORDER BY created, id");
        let mut statement = self.conn.prepare(&query).map_err(&failed)?;
        let rows = statement.query_map([], session).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(&failed)
    }

    /// Returns a session, if it still exists.
    pub fn get(&self, id: &SessionId) -> Result<Option<Session>, ControlError> {
        let query = format!("SELECT {COLUMNS} FROM session WHERE id = ?1");
        self.conn.query_row(&query, [id.as_str()], session).optional().map_err(self.failed())
    }

    /// Returns the requested session and true if it was created, false if it existed.
    pub fn claim(
        &mut self,
        new: &NewSession,
        id: SessionId,
        now: u64,
    ) -> Result<(Session, bool), ControlError> {
        let path = self.path.clone();
        let failed = |source| ControlError::Store { path: path.clone(), source };
        let change =
            self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let query = format!("SELECT {COLUMNS} FROM session");
        let all: Vec<Session> = {
            let mut statement = change.prepare(&query).map_err(failed)?;
            let rows = statement.query_map([], session).map_err(failed)?;
            rows.collect::<Result<_, _>>().map_err(failed)?
        };
        if let Some(old) = existing(new.name.as_ref(), &new.project, &all)? {
            return Ok((old, false));
        }
        let name = name_of(new.name.as_ref(), &new.project, &all)?;
        let made = of_new(new, id, name, now);
        let query = format!(
            "INSERT INTO session ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        );
        let project = made.project.to_string_lossy();
        change
            .execute(
                &query,
                params![
                    made.id.as_str(),
                    made.name.as_str(),
                    made.named,
                    project,
                    made.backend.as_str(),
                    made.request,
                    made.policy,
                    made.cow,
                    made.wanted.as_str(),
                    i64::try_from(made.created).unwrap_or(0),
                    made.boot,
                ],
            )
            .map_err(failed)?;
        change.commit().map_err(failed)?;
        Ok((made, true))
    }

    /// Replaces the request of a session, and marks it as wanted.
    pub(crate) fn replace_request(
        &self,
        id: &SessionId,
        new: &NewSession,
        boot: &str,
    ) -> Result<(), ControlError> {
        let query = "UPDATE session SET backend = ?2, request = ?3, policy = ?4, cow = ?5, \
             wanted = 'up', boot = ?6 WHERE id = ?1";
        let backend = new.backend.as_str();
        let values = params![id.as_str(), backend, new.request, new.policy, new.cow, boot];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }

    /// Replaces the request of a session by one with the same settings.
    pub(crate) fn update_request(&self, id: &SessionId, request: &str) -> Result<(), ControlError> {
        let query = "UPDATE session SET request = ?2 WHERE id = ?1 AND request <> ?2";
        let values = params![id.as_str(), request];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }

    /// Sets the requested state.
    pub fn want(&self, id: &SessionId, wanted: Wanted) -> Result<(), ControlError> {
        let query = "UPDATE session SET wanted = ?2 WHERE id = ?1";
        let values = params![id.as_str(), wanted.as_str()];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }

    /// Removes a session that has no resources.
    pub fn forget(&self, id: &SessionId) -> Result<(), ControlError> {
        let query = "DELETE FROM session WHERE id = ?1";
        self.conn.execute(query, [id.as_str()]).map(drop).map_err(self.failed())
    }
}

/// Returns the session with this name, or, without a name, the project's unnamed session.
pub(crate) fn existing(
    name: Option<&Name>,
    project: &Path,
    all: &[Session],
) -> Result<Option<Session>, ControlError> {
    let Some(name) = name else {
        let own = |session: &&Session| !session.named && session.project == project;
        return Ok(all.iter().find(own).cloned());
    };
    match all.iter().find(|session| session.name == *name) {
        Some(other) if other.project != project => Err(ControlError::Taken {
            name: name.as_str().to_owned(),
            project: other.project.clone(),
        }),
        found => Ok(found.cloned()),
    }
}

/// Returns the name that an existing or new session has or would get.
pub(crate) fn name_of(
    name: Option<&Name>,
    project: &Path,
    all: &[Session],
) -> Result<Name, ControlError> {
    if let Some(old) = existing(name, project, all)? {
        return Ok(old.name);
    }
    let taken = |name: &str| all.iter().any(|session| session.name.as_str() == name);
    Ok(name.cloned().unwrap_or_else(|| Name::of_project(project, taken)))
}

fn of_new(new: &NewSession, id: SessionId, name: Name, now: u64) -> Session {
    Session {
        id,
        name,
        named: new.name.is_some(),
        project: new.project.clone(),
        backend: new.backend,
        request: new.request.clone(),
        policy: new.policy.clone(),
        cow: new.cow,
        wanted: Wanted::Down,
        created: now,
        boot: String::new(),
    }
}

fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    let text = |at: usize| row.get::<_, String>(at);
    Ok(Session {
        id: SessionId::parse(&text(0)?).ok_or_else(|| damaged(0, "invalid id"))?,
        name: Name::parse(&text(1)?).map_err(|error| damaged(1, error))?,
        named: row.get(2)?,
        project: PathBuf::from(text(3)?),
        backend: backend_named(&text(4)?).map_err(|error| damaged(4, error))?,
        request: text(5)?,
        policy: text(6)?,
        cow: row.get(7)?,
        wanted: text(8)?.parse().map_err(|error| damaged(8, error))?,
        created: u64::try_from(row.get::<_, i64>(9)?).unwrap_or(0),
        boot: text(10)?,
    })
}

pub(super) fn damaged(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
}
