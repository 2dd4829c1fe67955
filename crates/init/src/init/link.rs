//! Step 6: creates `/workspace`, a link to the workspace in the home directory.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::step::{Outcome, StepError, file};

/// Creates the link, unless a mount, a file or a directory with content is in its place.
pub(crate) fn set_up(link: &Path, target: &Path) -> Result<Outcome, StepError> {
    match fs::symlink_metadata(link) {
        Ok(about) if about.is_symlink() => {
            if fs::read_link(link).is_ok_and(|now| now == target) {
                return Ok(Outcome::Already);
            }
        }
        Ok(about) if about.is_dir() => {
            if is_mount(link, &about) {
                return Ok(Outcome::Skipped("warning: it is a mount and is not replaced"));
            }
            match fs::remove_dir(link) {
                Ok(()) => {}
                Err(error) => return left(link, error),
            }
        }
        Ok(_) => return Ok(Outcome::Skipped("warning: it is a file and is not replaced")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file("inspect", link)(error)),
    }
    make(link, target)
}

/// Creates the link under another name and renames it, so that an existing link is replaced atomically.
fn make(link: &Path, target: &Path) -> Result<Outcome, StepError> {
    let draft = draft(link);
    let made = match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(target, &draft).and_then(|()| fs::rename(&draft, link)),
    };
    match made {
        Ok(()) => Ok(Outcome::Done),
        Err(error) => left(link, error),
    }
}

fn draft(link: &Path) -> PathBuf {
    let mut name = link.as_os_str().to_owned();
    name.push(".staging");
    name.into()
}

fn left(link: &Path, error: io::Error) -> Result<Outcome, StepError> {
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => {
            Ok(Outcome::Skipped("warning: it is a directory with content and is not replaced"))
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            Ok(Outcome::Skipped("warning: the root file system is read-only; no link created"))
        }
        io::ErrorKind::PermissionDenied => Ok(Outcome::Skipped(
            "warning: no permission to change the root directory; no link created",
        )),
        io::ErrorKind::ResourceBusy => {
            Ok(Outcome::Skipped("warning: it is a mount and is not replaced"))
        }
        _ => Err(file("replace", link)(error)),
    }
}

/// Returns true when a directory is on another file system than its parent. A bind mount of the same file system is
/// detected by EBUSY instead.
fn is_mount(dir: &Path, about: &fs::Metadata) -> bool {
    let parent = dir.parent().and_then(|parent| fs::metadata(parent).ok());
    parent.is_some_and(|parent| parent.dev() != about.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_up_makes_the_link_where_nothing_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("workspace");
        let target = Path::new("/home/octobot/workspace");
        let is_right = || fs::read_link(&link).is_ok_and(|now| now == target);
        assert_eq!(set_up(&link, target).unwrap(), Outcome::Done, "nothing was there");
        assert_eq!(set_up(&link, target).unwrap(), Outcome::Already, "it was right");
        fs::remove_file(&link).unwrap();
        symlink("/elsewhere", &link).unwrap();
        assert_eq!(set_up(&link, target).unwrap(), Outcome::Done, "another link");
        assert!(is_right());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert_eq!(set_up(&link, target).unwrap(), Outcome::Done, "an empty directory");
        assert!(is_right());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        fs::write(link.join("x"), "").unwrap();
        assert!(matches!(set_up(&link, target).unwrap(), Outcome::Skipped(_)), "content stays");
        assert!(link.join("x").is_file());
    }
}
