//! T*, R-D4: input into the caller's terminal, and processes that outlive it.

use testkit::{World, need};

use super::python;

/// Tries every way to type `x` into the terminal, and prints the kernel's answers.
const INJECT: &str = r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def ioctl(request, data):
    buffer = ctypes.create_string_buffer(data)
    done = libc.syscall(ctypes.c_long(16), ctypes.c_long(FD), ctypes.c_ulong(request), buffer)
    return 'done' if done == 0 else os.strerror(ctypes.get_errno())
import platform
if platform.machine() == 'aarch64':
    raise SystemExit('the number of ioctl differs here')
FD = os.open('/dev/tty', os.O_RDWR)
for request, data in ((0x5412, b'x'), (0x5412 | 1 << 32, b'x'), (0x541C, b'\x03'), (0x541C | 7 << 40, b'\x03')):
    print(f'{request:x}: {ioctl(request, data)}')
FD = 0
print('stdin:', ioctl(0x5412, b'x'))
print('end')
";

#[cfg(feature = "setup")]
#[test]
fn t1_r_d4_nothing_can_be_typed_into_the_terminal() {
    let world = World::new();
    let run = world.terminal([python().as_str(), "-c", INJECT]);
    run.wait_for("end");
    let output = run.output();
    assert_eq!(output.matches("Operation not permitted").count(), 5, "{output}");
    // If `dev.tty.legacy_tiocsti` is 0, the kernel refuses with EIO, which the control then shows instead of EPERM.
    let legacy =
        std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_else(|_| "1".into());
    let control = world.host_terminal([python().as_str(), "-c", INJECT]);
    control.wait_for("end");
    let typed = if legacy.trim() == "1" { "5412: done" } else { "5412: Input/output error" };
    assert!(
        control.output().contains(typed) || testkit::user() == testkit::User::Root,
        "{}",
        control.output()
    );
    assert!(!control.output().contains("541c: Operation not permitted"), "{}", control.output());
}

#[cfg(feature = "setup")]
#[test]
fn t1_the_shell_that_started_it_receives_no_command() {
    let world = World::new();
    let binary = world.binary().display().to_string();
    let attack = r"import fcntl
try:
    for c in b'touch pwned\n': fcntl.ioctl(0, 0x5412, bytes([c]))
except OSError: pass
print('tried')";
    world.write("project/attack.py", attack);
    let mut shell = world.host_terminal(["sh", "-i"]);
    shell.enter(&format!("{binary} {} attack.py", python()));
    shell.wait_for("tried");
    shell.enter("echo al''ive");
    shell.wait_for("alive");
    assert!(!world.has("project/pwned"), "{}", shell.output());
}

#[test]
fn t6_nothing_outlives_the_terminal() {
    let world = World::new();
    let setsid = need("setsid").display().to_string();
    let marker = format!("42{}", std::process::id());
    let script = format!(
        "trap '' HUP; {setsid} sleep {marker} & nohup sleep {marker} >/dev/null 2>&1 & echo up; wait"
    );
    let run = world.terminal(["sh", "-c", &script]);
    run.wait_for("up");
    drop(run);
    let gone = format!(
        "for i in $(seq 100); do pgrep -xf 'sleep {marker}' >/dev/null || exit 0; sleep 0.05; done; exit 1"
    );
    super::outside(&world, &gone).succeeds();
}
