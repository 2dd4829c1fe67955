//! Queries about files, and reading of kernel files.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Resolves every symlink of a path, as [`std::fs::canonicalize`] does, but into a stack buffer. musl would map and
/// unmap a page for each result, and the start of a sandbox needs dozens.
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

/// Reads a file of `/proc` or `/sys`. These report no size, so without a large buffer they would be read in dozens of
/// pieces and could change in between.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 << 10);
    std::fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of `/proc` or `/sys` as text. Bytes that are not UTF-8 are replaced, so that one odd name does not
/// make the rest unreadable.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&kernel_bytes(path)?).into_owned())
}

/// Returns true if the caller can read a file, or list or enter a directory.
pub fn readable(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
        || rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Cache of directories that root cannot enter inside a sandbox, where it has no capability over files of other users.
/// For any other user the kernel already refused access outside: `path_resolution(7)`. Each directory is checked once.
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
    /// Returns true if a parent directory of a path is closed to root inside a sandbox.
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

/// Returns true if a directory belongs to another user and its mode lets neither others nor our groups in.
fn is_shut(dir: &Path) -> bool {
    let Ok(stat) = rustix::fs::stat(dir) else { return false };
    let group = rustix::fs::Gid::from_raw(stat.st_gid);
    let ours = || {
        group == rustix::process::getegid()
            || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&group))
    };
    let bit = || if ours() { 0o010 } else { 0o001 };
    // An ACL may grant access that the mode bits do not show: acl(5).
    let listed =
        || rustix::fs::getxattr(dir, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok();
    stat.st_uid != 0 && stat.st_mode & bit() == 0 && !listed()
}

/// Returns true if the caller may write to its own cgroup, as with systemd's delegation: cgroups(7).
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
        // The cgroup v2 line names no controllers, and the tree is mounted at one of two paths.
        let places =
            if mounted.is_empty() { vec![at(""), at("unified")] } else { vec![at(mounted)] };
        places.iter().any(|procs| rustix::fs::access(procs, Access::WRITE_OK).is_ok())
    })
}

/// Returns true if the caller can write a file, or create and remove names in a directory.
pub fn writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Returns the bytes available to the caller on the file system of a path.
pub fn free_space(path: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
