//! Which bubblewrap: never one that a sandbox could have put there.

use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sandbox_linux::file;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::plan::{Plan, View};
use sandbox_policy::host::Host;

/// A bubblewrap that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Where it is, free of symlinks.
    pub path: PathBuf,
    /// Whether it would run with root's rights for everybody. Ours never does: it is started
    /// with `no_new_privs`, under which the bit means nothing.
    pub setuid: bool,
}

/// A version of bubblewrap, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first one that is safe to have setuid on a machine: CVE-2026-41163.
    pub const SAFE_SETUID: Self = Self(0, 11, 2);

    /// Asks a bubblewrap.
    pub fn of(bwrap: &Path) -> Option<Self> {
        Self::read(&answer(bwrap, "--version")?)
    }

    /// Reads `bubblewrap 0.11.2`; what follows the numbers does not matter.
    fn read(text: &str) -> Option<Self> {
        let text = text.split_whitespace().nth(1)?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let first = numbers.next()?.ok()?;
        let mut rest = numbers.map_while(Result::ok);
        Some(Self(first, rest.next()?, rest.next().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What a bubblewrap prints when it is called with one flag.
pub(crate) fn answer(bwrap: &Path, flag: &str) -> Option<String> {
    let mut command = sandbox_linux::process::command(bwrap);
    command.arg(flag).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// No bubblewrap to be had.
#[derive(Debug, Error)]
pub enum FindError {
    /// Not installed.
    #[error("bwrap is not in PATH")]
    Missing,
    /// Only in places that cannot be trusted.
    #[error("the only bwrap is `{}`, in a place that a sandboxed command can write", .0.display())]
    Untrusted(PathBuf),
    /// Runs with root's rights, and lets everybody misuse them.
    #[error("`{}` ({}) is setuid, and below {} everybody can gain root's rights through it (CVE-2026-41163)",
        path.display(), text(*version), Version::SAFE_SETUID)]
    Setuid {
        /// Where it is.
        path: PathBuf,
        /// Its version, when it says one.
        version: Option<Version>,
    },
}

fn text(version: Option<Version>) -> String {
    version.map_or_else(|| "of no known version".into(), |version| version.to_string())
}

impl Hint for FindError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => "install with: apt install bubblewrap".into(),
            Self::Untrusted(_) => "install the distribution's: apt install bubblewrap".into(),
            Self::Setuid { path, .. } => {
                let (safe, path) = (Version::SAFE_SETUID, path.display());
                format!("update it to {safe} or later, or take the bit away: sudo chmod u-s {path}")
            }
        })
    }
}

/// Searches `$PATH`, then the usual places: an agent's `PATH` may lack them.
pub fn find(host: &Host, plan: Option<&Plan>) -> Result<Bwrap, FindError> {
    let mut dirs = host.search_path();
    dirs.extend(["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from));
    let mut untrusted = None;
    for path in dirs.iter().filter_map(|dir| file::real(dir.join("bwrap")).ok()) {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode();
        if !metadata.is_file() || mode & 0o111 == 0 {
            continue;
        }
        let owner = metadata.uid();
        let foreign = owner != 0 && owner != host.uid && !host.inside && !is_system(owner, &path);
        if foreign
            || mode & 0o022 != 0
            || plan.is_some_and(|plan| writable_inside(host, plan, &path))
        {
            untrusted.get_or_insert(path);
            continue;
        }
        let setuid = mode & 0o4000 != 0 && metadata.uid() == 0;
        if setuid {
            must_be_safe(&path)?;
        }
        return Ok(Bwrap { path, setuid });
    }
    Err(untrusted.map_or(FindError::Missing, FindError::Untrusted))
}

/// Whether a file is the system's, although root is nobody here: inside somebody else's user
/// namespace every owner that it does not know is shown as the overflow user.
fn is_system(owner: u32, path: &Path) -> bool {
    const OVERFLOW: u32 = 65534;
    const PLACES: [&str; 4] = ["/usr/bin", "/bin", "/nix/store", "/gnu/store"];
    let mapped = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first..first + count).contains(&u64::from(OVERFLOW)))
    };
    let map = file::kernel_text("/proc/self/uid_map").unwrap_or_default();
    owner == OVERFLOW
        && !map.lines().any(|line| mapped(line).unwrap_or(true))
        && PLACES.iter().any(|place| path.starts_with(place))
}

fn must_be_safe(setuid: &Path) -> Result<(), FindError> {
    match Version::of(setuid) {
        Some(version) if version >= Version::SAFE_SETUID => Ok(()),
        version => Err(FindError::Setuid { path: setuid.to_path_buf(), version }),
    }
}

/// Whether the directory of a program is writable inside the sandbox that it is to build. The
/// file itself is protected by a mount of its own, but an earlier sandbox may have had no such rule.
fn writable_inside(host: &Host, plan: &Plan, path: &Path) -> bool {
    let Some(dir) = path.parent() else { return false };
    let at = |dir| plan.mounts.iter().find(|mount| mount.target == dir && mount.view != View::Pin);
    match dir.ancestors().find_map(at) {
        Some(mount) => mount.view == View::ReadWrite,
        // Where everything was opened, it is up to the permissions.
        None => plan.root_writable && dir.ancestors().any(|dir| may_write(host, dir)),
    }
}

fn may_write(host: &Host, dir: &Path) -> bool {
    sandbox_linux::file::writable(dir)
        || fs::metadata(dir).is_ok_and(|metadata| metadata.uid() == host.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_reads_what_bubblewrap_prints() {
        for (text, expected) in [
            ("bubblewrap 0.8.0\n", Some(Version(0, 8, 0))),
            ("bubblewrap 0.11.2", Some(Version(0, 11, 2))),
            ("bubblewrap 0.12", Some(Version(0, 12, 0))),
            ("bubblewrap 1.2.3-rc1", Some(Version(1, 2, 3))),
            ("bubblewrap", None),
            ("bubblewrap x.y", None),
            ("", None),
        ] {
            assert_eq!(Version::read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn version_orders_by_number_and_not_by_letter() {
        assert!(Version(0, 8, 0) < Version::SAFE_SETUID);
        assert!(Version(0, 11, 10) > Version::SAFE_SETUID);
        assert!(Version(1, 0, 0) > Version(0, 99, 99));
    }
}
