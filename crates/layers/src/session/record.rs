//! The record of a session on disk.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The format that this version writes.
pub(super) const FORMAT: u32 = 1;

/// `session.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The format of this record.
    pub format: u32,
    /// Short, unique, and sorted by the time of its making.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The working directory that it is about.
    #[serde(with = "super::text")]
    pub project: PathBuf,
    /// Engine of its layers.
    pub engine: LayerEngine,
    /// Seconds since the epoch.
    pub created: u64,
    /// The places whose changes it keeps.
    pub roots: Vec<Root>,
    /// The commands that ran in it, the latest last.
    pub runs: Vec<Run>,
    /// Points to go back to, the latest last.
    pub snapshots: Vec<Snapshot>,
    /// Holder that keeps it in use without a process that holds its lock: the id of a session whose
    /// container has it mounted, and may be started at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The id of the session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl SessionRecord {
    /// Returns the time of its last use.
    pub fn last_used(&self) -> u64 {
        let runs = self.runs.iter().map(|run| run.ended.unwrap_or(run.started.0.unsigned_abs()));
        runs.chain([self.created]).max().unwrap_or(self.created)
    }

    /// Every layer that the session needs, for its present or for a snapshot.
    pub fn layers(&self) -> impl Iterator<Item = &LayerId> {
        let present = self.roots.iter().map(|root| &root.stack);
        let kept = self.snapshots.iter().flat_map(|snapshot| &snapshot.stacks);
        present.chain(kept).flatten()
    }
}

/// The part of `session.json` that every format has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Head {
    pub format: u32,
    pub name: String,
    #[serde(with = "super::text")]
    pub project: PathBuf,
}

impl Head {
    /// Reads it from a record that this version cannot use.
    pub(super) fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }
}

/// Engine that makes a session's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerEngine {
    /// The kernel's overlayfs, mounted in the sandbox's own namespaces.
    Overlay,
    /// An AgentFS database, served by FUSE.
    Agentfs,
}

impl fmt::Display for LayerEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlay => "overlay",
            Self::Agentfs => "agentfs",
        })
    }
}

/// A place on the host whose changes are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The path, absolute and free of symlinks.
    #[serde(with = "super::text")]
    pub path: PathBuf,
    /// Its type.
    pub kind: RootKind,
    /// Its layers, the lowest first; the last is written.
    pub stack: Vec<LayerId>,
}

impl Root {
    /// The directory that paths of the layer are relative to. A single file is the only entry of
    /// its layer, relative to the directory it lies in.
    pub fn base(&self) -> &Path {
        match self.kind {
            RootKind::Dir => &self.path,
            RootKind::File => self.path.parent().unwrap_or(&self.path),
        }
    }
}

/// Type of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootKind {
    /// A directory with all below it.
    Dir,
    /// One file: it is copied in, and compared at the end.
    File,
}

/// The name of a layer's directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerId(pub(super) String);

impl LayerId {
    /// As it stands in the record.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true when it is a name that this program makes: a record is never a way to somewhere else.
    pub(super) fn is_plain(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }
}

/// A command that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The program's name, without arguments: those may hold secrets.
    pub program: String,
    /// Time of its start, by the clock that files are stamped with: seconds and nanoseconds since the epoch.
    pub started: (i64, u32),
    /// The process beside the sandbox.
    pub pid: i32,
    /// Time of its end, in seconds since the epoch; missing while it runs, and when it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
}

/// A point to go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// Seconds since the epoch.
    pub taken: u64,
    /// The layers of each root, as they were; none is written any more.
    pub stacks: Vec<Vec<LayerId>>,
}
