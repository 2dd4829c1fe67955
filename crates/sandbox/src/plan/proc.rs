//! Which `/proc` a sandbox sees.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox_linux::file;

use serde::Serialize;

use sandbox_policy::host::Host;

/// Which `/proc` a sandbox sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proc {
    /// A new one.
    New,
    /// A new one in which these paths are read-only.
    Guarded(Vec<PathBuf>),
    /// That of the sandbox around this one.
    Outer,
}

/// What root may write in `/proc` without any capability, by owning it. `core_pattern` alone
/// makes the kernel run a program outside of every sandbox.
const ROOTS: [&str; 9] =
    ["sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr", "dynamic_debug"];

impl Proc {
    /// A sandbox that root started must neither write its own `/proc` nor get a fresh one: the
    /// kernel refuses that to nested namespaces once a part is covered, so these share it.
    pub(crate) fn of(host: &Host) -> Self {
        if host.inside && is_covered() {
            return Self::Outer;
        }
        if host.uid != 0 {
            return Self::New;
        }
        let paths = ROOTS.iter().map(|name| Path::new("/proc").join(name));
        Self::Guarded(paths.filter(|path| fs::symlink_metadata(path).is_ok()).collect())
    }
}

/// Whether something is mounted inside `/proc`.
fn is_covered() -> bool {
    let table = file::kernel_text("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|point| point.starts_with("/proc/"))
}
