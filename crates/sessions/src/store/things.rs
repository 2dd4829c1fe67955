//! Resources that were created for a session, in order of creation.

use std::collections::BTreeSet;
use std::str::FromStr;

use rusqlite::params;

use super::Store;
use super::rows::damaged;
use crate::error::ControlError;
use crate::session::SessionId;

/// Resource that was created, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// Kind.
    pub kind: ThingKind,
    /// Path, name or id.
    pub identity: String,
    /// Progress of its creation.
    pub made: Made,
}

/// Progress of the creation of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It may exist.
    Planned,
    /// It exists, unless another program removed it.
    Yes,
}

/// Kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThingKind {
    /// A directory on the host.
    Directory,
    /// Listening socket.
    Socket,
    /// A process on the host.
    Process,
    /// A container.
    Container,
    /// A network of containers.
    Network,
    /// Rendezvous socket of the proxy. The word in the database is `door`.
    Rendezvous,
    /// Broker of host commands.
    Broker,
    /// Copy-on-write layer.
    Layer,
    /// Volume of a container engine.
    Volume,
    /// Key file.
    Key,
    /// Line of `authorized_keys`.
    AuthorizedKey,
    /// Token.
    Token,
}

impl ThingKind {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Directory, "directory"),
        (Self::Socket, "socket"),
        (Self::Process, "process"),
        (Self::Container, "container"),
        (Self::Network, "network"),
        (Self::Rendezvous, "door"),
        (Self::Broker, "broker"),
        (Self::Layer, "layer"),
        (Self::Volume, "volume"),
        (Self::Key, "key"),
        (Self::AuthorizedKey, "authorized_key"),
        (Self::Token, "token"),
    ];

    /// Returns the word in the database.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

impl FromStr for ThingKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, word)| *word == text).map(|(kind, _)| *kind);
        found.ok_or_else(|| format!("unknown kind `{text}`"))
    }
}

impl Store {
    /// Returns the resources of a session in order of creation.
    pub fn things(&self, id: &SessionId) -> Result<Vec<Thing>, ControlError> {
        let failed = self.failed();
        let query = "SELECT kind, identity, state FROM thing WHERE session = ?1 ORDER BY step";
        let mut statement = self.conn.prepare(query).map_err(&failed)?;
        let rows = statement.query_map([id.as_str()], |row| {
            let kind: String = row.get(0)?;
            let made = row.get::<_, String>(2)? == "made";
            Ok(Thing {
                kind: kind.parse().map_err(|error: String| damaged(0, error))?,
                identity: row.get(1)?,
                made: if made { Made::Yes } else { Made::Planned },
            })
        });
        rows.map_err(&failed)?.collect::<Result<_, _>>().map_err(&failed)
    }

    /// Returns the sessions that have resources.
    pub(crate) fn with_things(&self) -> Result<BTreeSet<SessionId>, ControlError> {
        let failed = self.failed();
        let query = "SELECT DISTINCT session FROM thing";
        let mut statement = self.conn.prepare(query).map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let ids = rows.collect::<Result<Vec<_>, _>>().map_err(&failed)?;
        Ok(ids.iter().filter_map(|id| SessionId::parse(id)).collect())
    }

    /// Records that a resource is about to be created. Does nothing if that is recorded already.
    pub fn plan(&self, id: &SessionId, kind: ThingKind, what: &str) -> Result<(), ControlError> {
        let query = "INSERT INTO thing (session, step, kind, identity, state) VALUES (?1, \
             (SELECT coalesce(max(step), 0) + 1 FROM thing WHERE session = ?1), ?2, ?3, 'planned') \
             ON CONFLICT (session, kind, identity) DO NOTHING";
        let values = params![id.as_str(), kind.as_str(), what];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }

    /// Records that a resource was created.
    pub fn made(&self, id: &SessionId, kind: ThingKind, what: &str) -> Result<(), ControlError> {
        let query =
            "UPDATE thing SET state = 'made' WHERE session = ?1 AND kind = ?2 AND identity = ?3";
        let values = params![id.as_str(), kind.as_str(), what];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }

    /// Removes the record of a resource.
    pub fn gone(&self, id: &SessionId, thing: &Thing) -> Result<(), ControlError> {
        let query = "DELETE FROM thing WHERE session = ?1 AND kind = ?2 AND identity = ?3";
        let values = params![id.as_str(), thing.kind.as_str(), thing.identity];
        self.conn.execute(query, values).map(drop).map_err(self.failed())
    }
}
