//! Changes as a patch for `git apply`, byte for byte.

use std::io::{self, Write};
use std::path::Path;

use sandbox_git::patch::{blob_id, header, literal, quoted};

use super::content::{Content, MAX_BINARY, View};
use super::{Change, DiffError, LineDiff, Side};

/// Writes the patch of one change. Git patches cannot represent directories, which follow from their files.
pub fn write_patch(view: &View<'_>, change: &Change, out: &mut dyn Write) -> Result<(), DiffError> {
    let old = half(change.before.as_ref(), view.before(change, MAX_BINARY)?);
    let new = half(change.after.as_ref(), view.after(change, MAX_BINARY)?);
    let path = change.path.as_path();
    let written = match (&old, &new) {
        (None, None) => Ok(()),
        // In a git patch, a type change is a removal and an addition.
        (Some(old), Some(new)) if old.is_link != new.is_link => {
            write_one(path, Some(old), None, out)
                .and_then(|()| write_one(path, None, Some(new), out))
        }
        (old, new) => write_one(path, old.as_ref(), new.as_ref(), out),
    };
    written.map_err(DiffError::Output)
}

struct Half {
    is_link: bool,
    mode: &'static str,
    content: Content,
}

fn half(side: Option<&Side>, content: Option<Content>) -> Option<Half> {
    let (is_link, mode) = match side? {
        Side::File { executable: true, .. } => (false, "100755"),
        Side::File { executable: false, .. } => (false, "100644"),
        Side::Symlink { .. } => (true, "120000"),
        Side::Dir | Side::Special => return None,
    };
    Some(Half { is_link, mode, content: content? })
}

fn write_one(
    path: &Path,
    old: Option<&Half>,
    new: Option<&Half>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "diff --git {} {}", quoted("a/", path), quoted("b/", path))?;
    match (old, new) {
        (None, Some(new)) => writeln!(out, "new file mode {}", new.mode)?,
        (Some(old), None) => writeln!(out, "deleted file mode {}", old.mode)?,
        (Some(old), Some(new)) if old.mode != new.mode => {
            write!(out, "old mode {}\nnew mode {}\n", old.mode, new.mode)?;
        }
        _ => {}
    }
    let empty = Content::Text(Vec::new());
    let before = old.map_or(&empty, |old| &old.content);
    let after = new.map_or(&empty, |new| &new.content);
    if before == after && old.is_some() && new.is_some() {
        return Ok(());
    }
    let (Some(was), Some(is)) = (before.bytes(), after.bytes()) else {
        // Without a hunk, `git apply` fails instead of skipping the file silently.
        return writeln!(
            out,
            "Binary files {} and {} differ",
            quoted("a/", path),
            quoted("b/", path)
        );
    };
    let id = |half: Option<&Half>, bytes| half.map_or_else(|| "0".repeat(40), |_| blob_id(bytes));
    write!(out, "index {}..{}", id(old, was), id(new, is))?;
    match (old, new) {
        (Some(old), Some(new)) if old.mode == new.mode => writeln!(out, " {}", new.mode)?,
        _ => writeln!(out)?,
    }
    match (before, after) {
        (Content::Text(was), Content::Text(is)) => write_text(path, old, new, was, is, out),
        _ => out.write_all(literal(is).as_bytes()),
    }
}

fn write_text(
    path: &Path,
    old: Option<&Half>,
    new: Option<&Half>,
    was: &[u8],
    is: &[u8],
    out: &mut dyn Write,
) -> io::Result<()> {
    let diff = LineDiff::new(was, is);
    let hunks = diff.hunks();
    if hunks.is_empty() {
        return Ok(());
    }
    let name = |half: Option<&Half>, prefix| {
        half.map_or_else(|| "/dev/null".to_owned(), |_| header(prefix, path))
    };
    write!(out, "--- {}\n+++ {}\n", name(old, "a/"), name(new, "b/"))?;
    hunks.iter().try_for_each(|hunk| diff.write(hunk, out))
}
