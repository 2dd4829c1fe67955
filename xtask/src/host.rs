//! Settings of this machine that the tests need: FUSE and user namespaces.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

use crate::command::{as_root, run, succeeds};
use crate::made::Thing;
use crate::say::{Context, Failure, Outcome};
use crate::workspace::Workspace;

const FUSE: &str = "/dev/fuse";
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Lets every user mount by FUSE until the tests are over. With udev, that is the default.
pub(crate) fn need_fuse(workspace: &Workspace) -> Outcome {
    let is_device = || fs::metadata(FUSE).is_ok_and(|device| device.file_type().is_char_device());
    if !is_device() && !succeeds(as_root("modprobe").arg("fuse")) {
        let failure = Failure::new("this kernel does not support FUSE");
        return Err(failure.hint("load its module, or use another kernel"));
    }
    let mode = fs::metadata(FUSE).context(format_args!("read {FUSE}"))?.mode() & 0o7777;
    if mode == 0o666 {
        return Ok(());
    }
    workspace.made.record(&Thing::FuseMode(format!("{mode:o}")))?;
    set_fuse_mode("666")
}

pub(crate) fn set_fuse_mode(mode: &str) -> Outcome {
    run(as_root("chmod").args([mode, FUSE]))
}

/// Fails when bwrap is installed but cannot work. Otherwise each test would report the same cause.
pub(crate) fn need_namespaces(mut bwrap: Command) -> Outcome {
    let run = bwrap.args(["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]).output();
    let run = run.context("run bwrap")?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let failure = Failure::new(format!("bwrap cannot create a sandbox here: {}", said.trim_end()));
    let forbidden = fs::read_to_string(APPARMOR).is_ok_and(|switch| switch.trim() == "1");
    Err(failure.hint(if forbidden {
        "AppArmor forbids user namespaces; as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        "run `agent-sandbox doctor` for the cause"
    }))
}
