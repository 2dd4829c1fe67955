//! Files whose content is in the index of their repository.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};

use crate::index::Index;
use crate::protect::{is_git_shape, lstat, pointer_path, read, settle};

/// Larger indexes are not read. One of this size has about half a million entries.
const MAX_INDEX: u64 = 64 << 20;

/// Returns true when git tracks a file with this content: a clone, a checkout or a merge brought it.
///
/// A sandbox may have written everything that is read here, so the answer does not prove the origin of the file.
pub fn is_tracked(file: &Path, content: &[u8]) -> bool {
    let Some((top, git_dir)) = repository(file) else { return false };
    let Ok(index) = read(&git_dir.join("index"), MAX_INDEX) else { return false };
    let (Some(index), Ok(path)) = (Index::parse(&index), file.strip_prefix(top)) else {
        return false;
    };
    let entry = index.entries.get(&(path.as_os_str().as_bytes().to_vec(), 0));
    entry.is_some_and(|entry| entry.id == blob_id(content))
}

/// Returns the work tree of a file and its git directory.
fn repository(file: &Path) -> Option<(&Path, PathBuf)> {
    file.ancestors().skip(1).find_map(|top| {
        let entry = top.join(".git");
        let meta = lstat(&entry)?;
        let git_dir = if meta.is_dir() {
            entry
        } else {
            settle(top, &pointer_path(&read(&entry, 8192).ok()?)?)?.path
        };
        is_git_shape(&git_dir).then_some((top, git_dir))
    })
}

fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    let hex = |byte: u8| [byte >> 4, byte & 15].map(|half| char::from_digit(u32::from(half), 16));
    hash.finalize().into_iter().flat_map(hex).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_id_is_that_of_git() {
        // `printf hello | git hash-object --stdin`
        assert_eq!(blob_id(b"hello"), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
    }
}
