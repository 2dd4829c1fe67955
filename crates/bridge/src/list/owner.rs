//! Checks that no other user can change files that decide what runs on the host, as sudo and sshd do.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_policy::path::resolve::Resolver;
use sandbox_protocol::Hint;
use thiserror::Error;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Reason why another user can change a file or directory.
#[derive(Debug, Error)]
pub enum Loose {
    /// Another user owns it.
    #[error("`{}` belongs to uid {owner}", path.display())]
    Owner {
        /// File or directory.
        path: PathBuf,
        /// Uid of the owner.
        owner: u32,
    },
    /// Its mode grants write access to others.
    #[error("other users can write to `{}` (mode {mode:o})", path.display())]
    Writable {
        /// File or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be inspected.
    #[error("cannot inspect `{}`: {source}", path.display())]
    Unknown {
        /// File or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl Hint for Loose {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Owner { path, .. } => Some(format!("run `chown root: {}`", path.display())),
            Self::Writable { path, .. } => Some(format!("run `chmod go-w {}`", path.display())),
            Self::Unknown { .. } => None,
        }
    }
}

/// Checks a file, every directory above it, and every directory of a symlink in its path. Each must belong to root or
/// `user`, and no other user may have write access.
pub(crate) fn check_owner(path: &Path, user: u32) -> Result<(), Loose> {
    let place = Resolver::default().place(path);
    for end in place.links.iter().chain([&place.path]) {
        for path in end.ancestors() {
            check_one(path, user)?;
        }
    }
    Ok(())
}

fn check_one(path: &Path, user: u32) -> Result<(), Loose> {
    let found = fs::symlink_metadata(path)
        .map_err(|source| Loose::Unknown { path: path.to_owned(), source })?;
    if found.uid() != 0 && found.uid() != user {
        return Err(Loose::Owner { path: path.to_owned(), owner: found.uid() });
    }
    // In a sticky directory such as `/tmp`, other users cannot replace files that they do not own.
    let shared = found.is_dir() && found.mode() & STICKY != 0;
    if found.mode() & OTHERS_WRITE != 0 && !shared {
        return Err(Loose::Writable { path: path.to_owned(), mode: found.mode() & 0o7777 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_believed_only_when_no_other_user_can_change_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let user = fs::metadata(&root).unwrap().uid();
        let (dir, elsewhere) = (root.join("dir"), root.join("elsewhere"));
        let (file, link) = (dir.join("list"), elsewhere.join("link"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let set =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (why, path, changed, mode, believed) in [
            ("owned and protected", &file, &file, 0o644, true),
            ("writable by others", &file, &file, 0o646, false),
            ("writable by a group", &file, &file, 0o664, false),
            ("replaceable by others", &file, &dir, 0o757, false),
            ("replaceable by a group", &file, &dir, 0o775, false),
            ("a sticky directory", &file, &dir, 0o1777, true),
            ("the link's target", &link, &file, 0o666, false),
            ("the link's directory", &link, &elsewhere, 0o777, false),
            ("through a link", &link, &elsewhere, 0o755, true),
        ] {
            for (path, usual) in [(&file, 0o644), (&dir, 0o755), (&elsewhere, 0o755)] {
                set(path, usual);
            }
            set(changed, mode);
            assert_eq!(check_owner(path, user).is_ok(), believed, "{why}");
        }
        let other = check_owner(&file, user + 1);
        assert!(user == 0 || matches!(other, Err(Loose::Owner { .. })), "{other:?}");
    }
}
