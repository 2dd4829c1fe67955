//! Changes for programs.

use std::path::Path;

use sandbox_cowfs::diff::{Count, Side};
use serde::Serialize;
use serde_json::{Value, json};

use super::stat::{Line, letter};

/// A path: text where it is text, else its bytes.
pub(crate) fn path(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => text.into(),
        None => path.as_os_str().as_encoded_bytes().into(),
    }
}

/// One side of a change.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Shape {
    File { size: u64, executable: bool },
    Symlink { target: Value },
    Directory,
    Special,
}

impl From<&Side> for Shape {
    fn from(side: &Side) -> Self {
        match side {
            Side::File { size, executable } => Self::File { size: *size, executable: *executable },
            Side::Symlink { target } => Self::Symlink { target: path(Path::new(target)) },
            Side::Dir => Self::Directory,
            Side::Special => Self::Special,
        }
    }
}

/// One change.
pub(crate) fn change(line: &Line<'_>) -> Value {
    let (added, removed) = match line.count {
        Count::Lines { added, removed } => (Some(added), Some(removed)),
        _ => (None, None),
    };
    let status = match letter(line.change) {
        'A' => "added",
        'D' => "deleted",
        'M' => "modified",
        _ => "replaced",
    };
    json!({
        "root": path(line.root.host.path()),
        "path": path(line.change.path.as_path()),
        "status": status,
        "before": line.change.before.as_ref().map(Shape::from),
        "after": line.change.after.as_ref().map(Shape::from),
        "added": added,
        "removed": removed,
        "runs_later": line.later,
        "host_changed": line.change.meanwhile,
    })
}
