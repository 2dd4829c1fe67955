//! Checks that each mount is still the file or directory that was inspected when the container was created, not a
//! replacement by a link or another directory. Also restores the modes of file systems in memory.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use sandbox_protocol::Hint;
use sandbox_protocol::variable::AGENT_MOUNTS;
use thiserror::Error;

use crate::environment::Environment;
use crate::log::{Log, shown};

#[derive(Debug, Error)]
pub(crate) enum MountError {
    #[error("invalid list of mounts in {AGENT_MOUNTS}")]
    List(#[source] serde_json::Error),
    #[error("cannot inspect the mount `{}`", shown(path))]
    Look { path: PathBuf, source: io::Error },
    #[error("the mount at `{}` is not the one that the session was created with", shown(.0))]
    Another(PathBuf),
}

impl Hint for MountError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::List(_) => "write a JSON array of [PATH, DEVICE, INODE]",
            Self::Look { .. } | Self::Another(_) => {
                "if it was replaced on purpose, run `agent-sandbox up` to accept the new one"
            }
        };
        Some(text.to_owned())
    }
}

/// Compares each mount with the expected device and inode.
pub(crate) fn check(environment: &Environment) -> Result<(), MountError> {
    let Some(text) = environment.set(AGENT_MOUNTS) else { return Ok(()) };
    let known: Vec<(PathBuf, u64, u64)> = serde_json::from_slice(text).map_err(MountError::List)?;
    for (path, dev, ino) in known {
        let about = fs::symlink_metadata(&path)
            .map_err(|source| MountError::Look { path: path.clone(), source })?;
        if (about.dev(), about.ino()) != (dev, ino) {
            return Err(MountError::Another(path));
        }
    }
    Ok(())
}

/// Mount points of file systems in memory.
const IN_MEMORY: [&str; 2] = ["/tmp", "/run"];
/// Default mode of a file system in memory: tmpfs(5).
const USUAL: u32 = 0o1777;

/// Gives file systems in memory the mode of their mount options. runc before 1.1.8 gives them the mode of the directory
/// in the image: <https://github.com/opencontainers/runc/issues/3911>.
pub(crate) fn restore_modes(log: Log) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for place in IN_MEMORY {
        let Some(asked) = asked_mode(&table, place) else { continue };
        let mode = fs::symlink_metadata(place).map_or(asked, |about| about.mode() & 0o7777);
        if mode == asked {
            continue;
        }
        if let Err(error) = fs::set_permissions(place, fs::Permissions::from_mode(asked)) {
            log.warn(format_args!("cannot change the mode of `{place}` to {asked:04o}: {error}"));
        }
    }
}

/// Returns the mode in the mount options of the file system in memory at this path. Returns `None` for other file
/// systems. The default mode is not listed: `proc_pid_mountinfo(5)`.
fn asked_mode(table: &str, place: &str) -> Option<u32> {
    let is_here = |line: &&str| line.split(' ').nth(4) == Some(place);
    // The last one is on top.
    let (_, about) = table.lines().rfind(is_here)?.split_once(" - ")?;
    let options = about.strip_prefix("tmpfs ")?.split(' ').nth(1)?;
    let mode = options.split(',').find_map(|option| option.strip_prefix("mode="));
    mode.map_or(Some(USUAL), |mode| u32::from_str_radix(mode, 8).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_mode_is_that_of_the_mount_on_top() {
        let line = |at: &str, about: &str| format!("40 30 0:50 / {at} rw,nosuid - {about}\n");
        let open = line("/tmp", "tmpfs tmpfs rw,size=2097152k,uid=1000,gid=1000");
        let closed = line("/tmp", "tmpfs tmpfs rw,size=64k,mode=700");
        for (why, table, expected) in [
            ("the usual mode", open.clone(), Some(0o1777)),
            ("another mode", closed.clone(), Some(0o700)),
            ("the one on top decides", [&open[..], &closed].concat(), Some(0o700)),
            ("a disk", line("/tmp", "ext4 /dev/vda rw"), None),
            ("another place", line("/tmp/x", "tmpfs tmpfs rw"), None),
            ("nothing", String::new(), None),
        ] {
            assert_eq!(asked_mode(&table, "/tmp"), expected, "{why}");
        }
    }

    #[test]
    fn check_refuses_what_is_another_file_than_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "").unwrap();
        let about = fs::symlink_metadata(&path).unwrap();
        let given = |dev: u64, ino: u64| {
            let text = serde_json::to_string(&[(path.to_str().unwrap(), dev, ino)]).unwrap();
            Environment::of([format!("{AGENT_MOUNTS}={text}").into_bytes()])
        };
        assert!(check(&Environment::default()).is_ok());
        assert!(check(&given(about.dev(), about.ino())).is_ok());
        assert!(matches!(check(&given(about.dev(), about.ino() + 1)), Err(MountError::Another(_))));
        assert!(matches!(check(&given(about.dev() + 1, about.ino())), Err(MountError::Another(_))));
        let same = given(about.dev(), about.ino());
        fs::remove_file(&path).unwrap();
        assert!(matches!(check(&same), Err(MountError::Look { .. })));
        let odd = Environment::of([format!("{AGENT_MOUNTS}=x").into_bytes()]);
        assert!(matches!(check(&odd), Err(MountError::List(_))));
    }
}
