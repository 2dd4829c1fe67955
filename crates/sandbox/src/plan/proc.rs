//! The `/proc` of a sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox_linux::file;

use serde::Serialize;

use sandbox_policy::host::Host;

/// The `/proc` of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proc {
    /// A new mount.
    New,
    /// A new mount in which these paths are read-only.
    Guarded(Vec<PathBuf>),
    /// The outer sandbox's `/proc`.
    Outer,
}

/// Entries of `/proc` that root can write without any capability, because root owns them. With
/// `sys/kernel/core_pattern` alone, root makes the kernel run a program outside of every sandbox: core(5).
const ROOT_OWNED: [&str; 9] =
    ["sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr", "dynamic_debug"];

impl Proc {
    /// Chooses the `/proc` of a new sandbox.
    ///
    /// A sandbox that root starts must not write to `/proc`, so parts of it are covered. The kernel then refuses a new
    /// procfs mount in a nested user namespace (`mount_too_revealing()` in fs/namespace.c), so nested sandboxes share
    /// the outer one.
    pub(crate) fn of(host: &Host) -> Self {
        if host.inside && is_covered() {
            return Self::Outer;
        }
        if host.uid != 0 {
            return Self::New;
        }
        let paths = ROOT_OWNED.iter().map(|name| Path::new("/proc").join(name));
        Self::Guarded(paths.filter(|path| fs::symlink_metadata(path).is_ok()).collect())
    }
}

/// Returns true if anything is mounted inside `/proc`.
fn is_covered() -> bool {
    let table = file::kernel_text("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|point| point.starts_with("/proc/"))
}
