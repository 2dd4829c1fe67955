//! Record of a session on disk.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The format that this version writes.
pub(super) const FORMAT: u32 = 1;

/// Content of `session.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The format of this record.
    pub format: u32,
    /// Short unique ID that sorts by creation time.
    pub id: String,
    /// Name.
    pub name: String,
    /// Working directory of the session.
    #[serde(with = "super::text")]
    pub project: PathBuf,
    /// Engine of its layers.
    pub engine: LayerEngine,
    /// Seconds since the epoch.
    pub created: u64,
    /// Directories and files whose changes it stores.
    pub roots: Vec<Root>,
    /// Commands that ran in it, the latest last.
    pub runs: Vec<Run>,
    /// Snapshots, the latest last.
    pub snapshots: Vec<Snapshot>,
    /// ID of the session whose container uses this one without holding its lock. The container has it mounted and may
    /// be started at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// ID of the session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl SessionRecord {
    /// Returns the time of its last use.
    pub fn last_used(&self) -> u64 {
        let runs = self.runs.iter().map(|run| run.ended.unwrap_or(run.started.0.unsigned_abs()));
        runs.chain([self.created]).max().unwrap_or(self.created)
    }

    /// Returns every layer of the session and its snapshots.
    pub fn layers(&self) -> impl Iterator<Item = &LayerId> {
        let present = self.roots.iter().map(|root| &root.stack);
        let kept = self.snapshots.iter().flat_map(|snapshot| &snapshot.stacks);
        present.chain(kept).flatten()
    }
}

/// Fields of `session.json` that every format has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Head {
    pub format: u32,
    pub name: String,
    #[serde(with = "super::text")]
    pub project: PathBuf,
}

impl Head {
    /// Reads these fields from a record that this version cannot use.
    pub(super) fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }
}

/// Engine of a session's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerEngine {
    /// The kernel's overlayfs, mounted in the sandbox's own namespaces.
    Overlay,
    /// An AgentFS database, served over FUSE.
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

/// Directory or file on the host whose changes are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Path, absolute and without symlinks.
    #[serde(with = "super::text")]
    pub path: PathBuf,
    /// Type.
    pub kind: RootKind,
    /// Layers, the lowest first. Only the last one is written.
    pub stack: Vec<LayerId>,
}

impl Root {
    /// Returns the directory that paths in the layer are relative to. A single file is the only entry of its layer,
    /// relative to its parent directory.
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
    /// A directory with everything below it.
    Dir,
    /// A single file, which is copied and compared at the end.
    File,
}

/// Name of a layer's directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerId(pub(super) String);

impl LayerId {
    /// Returns the name as stored in the record.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true for names that this program creates. A modified record must not lead to another directory.
    pub(super) fn is_plain(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }
}

/// Command that ran in the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the program, without arguments because these may contain secrets.
    pub program: String,
    /// Start time by the clock used for file times, in seconds and nanoseconds since the epoch.
    pub started: (i64, u32),
    /// PID of the supervisor outside the sandbox.
    pub pid: i32,
    /// End time in seconds since the epoch. Missing while it runs and after a kill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
}

/// Saved state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// Seconds since the epoch.
    pub taken: u64,
    /// Layers of each root at that time, which are never written again.
    pub stacks: Vec<Vec<LayerId>>,
}
