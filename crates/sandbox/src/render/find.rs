//! Search for a bubblewrap that is safe to run: one that no sandboxed command could have planted.

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

/// bubblewrap program that is safe to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Its path, free of symlinks.
    pub path: PathBuf,
    /// True if it is setuid root. A sandbox starts it with `no_new_privs`, under which execve(2) ignores the bit.
    pub setuid: bool,
}

/// Version of bubblewrap, as `bwrap --version` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// First version that is safe to install setuid root: CVE-2026-41163.
    pub(crate) const SAFE_SETUID: Self = Self(0, 11, 2);

    /// Runs `bwrap --version` and returns the version.
    pub fn of(bwrap: &Path) -> Option<Self> {
        Self::read(&answer(bwrap, "--version")?)
    }

    /// Parses `bubblewrap 0.11.2`. Anything after the numbers is ignored.
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

/// Runs bubblewrap with one flag and returns its output.
pub(crate) fn answer(bwrap: &Path, flag: &str) -> Option<String> {
    let mut command = sandbox_linux::process::command(bwrap);
    command.arg(flag).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Failure to find a bubblewrap that is safe to run.
#[derive(Debug, Error)]
pub enum FindError {
    /// Not installed.
    #[error("bwrap is not in PATH")]
    Missing,
    /// Only found where a sandboxed command or another user could have put it.
    #[error("cannot trust `{}`, the only bwrap found: a sandboxed command or another user can replace it", .0.display())]
    Untrusted(PathBuf),
    /// Setuid root, in a version that lets any user become root.
    #[error("`{}` ({}) is setuid root; before version {} this lets any user become root (CVE-2026-41163)",
        path.display(), text(*version), Version::SAFE_SETUID)]
    Setuid {
        /// Its path.
        path: PathBuf,
        /// Its version, if known.
        version: Option<Version>,
    },
}

fn text(version: Option<Version>) -> String {
    version.map_or_else(|| "unknown version".into(), |version| version.to_string())
}

impl Hint for FindError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => "install with: apt install bubblewrap".into(),
            Self::Untrusted(_) => {
                "install the distribution's package: apt install bubblewrap".into()
            }
            Self::Setuid { path, .. } => {
                let (safe, path) = (Version::SAFE_SETUID, path.display());
                format!("update it to {safe} or later, or clear the bit: sudo chmod u-s {path}")
            }
        })
    }
}

/// Searches `$PATH`, then the system directories, which an agent's `PATH` may lack.
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

/// Returns true if a file belongs to the system although its owner is not root. In a user namespace that does not map
/// root, the kernel shows the owner as the overflow user: `user_namespaces(7)`.
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

/// Returns true if the directory of a program is writable inside the sandbox that the program will build. A mount
/// protects the file in this sandbox, but an earlier one may have had no such rule.
fn writable_inside(host: &Host, plan: &Plan, path: &Path) -> bool {
    let Some(dir) = path.parent() else { return false };
    let at = |dir| plan.mounts.iter().find(|mount| mount.target == dir && mount.view != View::Pin);
    match dir.ancestors().find_map(at) {
        Some(mount) => mount.view == View::ReadWrite,
        // With a writable root, the permissions decide.
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
    fn version_compares_numbers() {
        assert!(Version(0, 8, 0) < Version::SAFE_SETUID);
        assert!(Version(0, 11, 10) > Version::SAFE_SETUID);
        assert!(Version(1, 0, 0) > Version(0, 99, 99));
    }
}
