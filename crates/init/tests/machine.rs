//! Test of `init` as PID 1 of a QEMU machine. `./dev test machine` provides the kernel.
#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{World, need};

/// Returns a variable that `./dev test machine` sets.
fn given(name: &str) -> PathBuf {
    let value = std::env::vars_os().find(|(known, _)| known == name);
    let (_, value) = value.unwrap_or_else(|| panic!("start this test with: ./dev test machine"));
    value.into()
}

const JOB: &str = "#!/bin/sh
id -u
grep -c -E ' /(proc|sys|dev|dev/pts|dev/shm|run|sys/fs/cgroup) ' /proc/mounts
readlink /workspace
(sleep 1000 &)
exit 3
";

/// Creates an initramfs with busybox, the binary as `/init`, and a job.
fn image(world: &World) -> PathBuf {
    let root = world.path("root");
    for dir in ["bin", "etc", "home/octobot"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy(given("AGENT_SANDBOX_STATIC").join("agent-sandbox-init"), root.join("init")).unwrap();
    fs::copy(need("busybox"), root.join("bin/busybox")).unwrap();
    for name in ["sh", "id", "grep", "readlink", "sleep"] {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "octobot:x:1000:1000::/home/octobot:/bin/sh\n").unwrap();
    let _ = world.clone().exec_file("root/job", JOB);
    let image = world.path("image");
    let script = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\" 2>/dev/null";
    let made = Command::new("sh").args(["-c", script]).arg(&root).arg(&image).status().unwrap();
    assert!(made.success());
    image
}

#[test]
fn machine_is_set_up_does_its_job_and_is_turned_off() {
    let world = World::with_binary(Path::new("/nothing"));
    let image = image(&world);
    let kernel = given("AGENT_SANDBOX_KERNEL");
    let variables = "SESSION_ID=vm AGENT_COW=none AGENT_COMMAND=/job SESSION_TOKEN=hush";
    let append = format!("console=ttyS0 quiet panic=-1 rdinit=/init {variables}");
    // Emulation is slow, but works without KVM.
    let mut line = vec![need("qemu-system-x86_64").into_os_string()];
    line.extend(
        ["-accel", "tcg", "-cpu", "max", "-m", "512", "-nographic", "-no-reboot"].map(Into::into),
    );
    line.extend([
        "-kernel".into(),
        kernel.into_os_string(),
        "-initrd".into(),
        image.into_os_string(),
    ]);
    line.extend(["-append".into(), append.into()]);
    let run = world.start(line).wait_up_to(Duration::from_secs(300)).succeeds();
    // Lines on a serial console end with `\r\n`.
    let screen = run.output().replace('\r', "");
    let expected = "1000\n7\n/.data/octobot/workspace\n[init] finished with code 3; powering off\n";
    assert!(screen.contains(expected), "{run}");
    assert!(screen.contains("Power down"), "{run}");
    assert!(!screen.contains("hush"), "{run}");
}
