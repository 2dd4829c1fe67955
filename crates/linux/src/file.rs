//! Questions about files.

use std::path::Path;

use rustix::fs::Access;

/// Whether the caller can read a file, or list or enter a directory.
pub fn readable(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
        || rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Whether the caller may change the control group that it runs in, as systemd lets users do.
pub fn owns_cgroup() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
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
