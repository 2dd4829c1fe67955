//! Questions about files.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// The path behind every symlink. As [`std::fs::canonicalize`], but in memory of ours: musl would
/// map and unmap a page for each answer, which the start of a sandbox needs dozens of.
pub fn real(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
    let mut answer = [0; libc::PATH_MAX as usize];
    // SAFETY: the path ends in NUL, and the buffer is as long as the call may write.
    let found = unsafe { libc::realpath(path.as_ptr(), answer.as_mut_ptr()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has written a string and its NUL.
    let answer = unsafe { CStr::from_ptr(answer.as_ptr()) };
    Ok(OsStr::from_bytes(answer.to_bytes()).into())
}

/// A file of the kernel's. Such a file has no size to go by: read without one, it would come in
/// dozens of small pieces, and change between them.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 << 10);
    std::fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text. Names in it may be any bytes: one that is no text must not make the rest
/// unreadable.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&kernel_bytes(path)?).into_owned())
}

/// Whether the caller can read a file, or list or enter a directory.
pub fn readable(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
        || rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Directories that keep root out as soon as it is in a sandbox: there its powers end at what belongs to others. The kernel
/// has told every other user. Each directory is looked at once.
#[derive(Debug)]
pub struct BeyondRoot {
    is_root: bool,
    shut: HashMap<PathBuf, bool>,
}

impl Default for BeyondRoot {
    fn default() -> Self {
        Self { is_root: rustix::process::geteuid().is_root(), shut: HashMap::new() }
    }
}

impl BeyondRoot {
    /// Returns true when one of the directories above a path keeps root out.
    pub fn holds(&mut self, path: &Path) -> bool {
        self.is_root && path.parent().is_some_and(|dir| self.is_behind(dir))
    }

    fn is_behind(&mut self, dir: &Path) -> bool {
        if let Some(known) = self.shut.get(dir) {
            return *known;
        }
        let shut = is_shut(dir) || dir.parent().is_some_and(|parent| self.is_behind(parent));
        self.shut.insert(dir.to_path_buf(), shut);
        shut
    }
}

/// Returns true when a directory belongs to another user, who lets neither all nor our groups in.
fn is_shut(dir: &Path) -> bool {
    let Ok(stat) = rustix::fs::stat(dir) else { return false };
    let group = rustix::fs::Gid::from_raw(stat.st_gid);
    let ours = || {
        group == rustix::process::getegid()
            || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&group))
    };
    let bit = || if ours() { 0o010 } else { 0o001 };
    // A list of single users says more than these bits do.
    let listed =
        || rustix::fs::getxattr(dir, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok();
    stat.st_uid != 0 && stat.st_mode & bit() == 0 && !listed()
}

/// Whether the caller may change the control group that it runs in, as systemd lets users do.
pub fn owns_cgroup() -> bool {
    let groups = kernel_text("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { return false };
        let mounted = controllers.strip_prefix("name=").unwrap_or(controllers);
        let at = |tree: &str| {
            Path::new("/sys/fs/cgroup")
                .join(tree)
                .join(group.trim_start_matches('/'))
                .join("cgroup.procs")
        };
        // The unified tree has no controllers in its line, and is mounted at one of two places.
        let places =
            if mounted.is_empty() { vec![at(""), at("unified")] } else { vec![at(mounted)] };
        places.iter().any(|procs| rustix::fs::access(procs, Access::WRITE_OK).is_ok())
    })
}

/// Whether the caller can write a file, or make and remove names in a directory.
pub fn writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Bytes that the caller may still write to the filesystem of a path.
pub fn free_space(path: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
