//! E*: secrets in variables, in other processes, behind agents.

use testkit::World;

use super::{inside, outside};
use crate::probe::is_plain;

#[test]
fn e1_credential_variables_are_hidden() {
    let names = [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "GITLAB_TOKEN",
        "NPM_TOKEN",
        "DATABASE_URL",
        "PGPASSWORD",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "KUBECONFIG",
    ];
    let value = |name: &str| match name {
        "DATABASE_URL" => "postgres://user:s3cret@host/db",
        _ => "/s3cret",
    };
    let world = names.iter().fold(World::new(), |world, name| world.env(*name, value(name)));
    let look = "env; tr '\\0' '\\n' </proc/self/environ; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'";
    outside(&world, look).stdout_contains("s3cret");
    inside(&world, look).stdout_lacks("s3cret");
    world.run(["--env", "GH_TOKEN", "printenv", "GH_TOKEN"]).succeeds().stdout("/s3cret\n");
}

#[test]
fn e2_the_first_process_holds_no_hidden_variable() {
    let world = World::new().env("GH_TOKEN", "s3cret").env("VISIBLE", "yes");
    let look = "tr '\\0' '\\n' </proc/1/environ; ps auxeww; cat /proc/1/cmdline";
    inside(&world, look).stdout_lacks("s3cret");
    outside(&world, "tr '\\0' '\\n' </proc/$$/environ").stdout_contains("s3cret");
    inside(&world, "env").stdout_contains("VISIBLE");
}

#[test]
fn e2_processes_of_the_host_are_not_visible() {
    let world = World::new();
    let marker = format!("41{}", std::process::id());
    // Tests the argument of a shell, too: `exec` may come after the first look.
    let host =
        world.host_terminal(["sh", "-c", r#"echo up; GH_TOKEN=s3cret exec sleep "$0""#, &marker]);
    host.wait_for("up");
    let look = format!("grep -lzax '[4]{}' /proc/[0-9]*/cmdline", &marker[1..]);
    outside(&world, &look).stdout_contains("cmdline");
    inside(&world, &look).stdout("");
}

#[cfg(feature = "setup")]
#[test]
fn e3_memory_of_the_sandbox_itself_holds_no_hidden_variable() {
    let world = World::new().env("GH_TOKEN", "s3cret-in-memory");
    let look = r"
import os, subprocess
child = subprocess.Popen(['sleep', '30'])
for pid in (p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()):
    try:
        maps = [l.split() for l in open(f'/proc/{pid}/maps')]
        memory = open(f'/proc/{pid}/mem', 'rb', 0)
    except OSError:
        continue
    for line in maps:
        if not line[1].startswith('rw'): continue
        start, end = (int(x, 16) for x in line[0].split('-'))
        try:
            memory.seek(start)
            if b'ret-in' + b'-memory' in memory.read(end - start): print('found in', pid)
        except OSError: pass
child.kill()
print('looked')
";
    super::python_inside(&world, &[], look).succeeds().stdout("looked\n");
    super::python_inside(&world, &["--env", "GH_TOKEN"], look).stdout_contains("found in");
}

/// The first process inside is a fork of the launcher, which knew the caller's secrets.
const OPEN_A_PROCESS: &str = r"
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
child = subprocess.Popen(['sleep', '30'])
target = {'first': 1, 'child': child.pid}[sys.argv[1]]
def succeeds(act):
    try: return act() >= 0
    except OSError: return False
at = f'/proc/{target}'
ways = {name: (lambda name=name: os.open(f'{at}/{name}', os.O_RDONLY))
        for name in ['mem', 'environ', 'maps', 'auxv', 'exe', 'root', 'cwd', 'ns/mnt', 'fd/2']}
ways['attach'] = lambda: libc.ptrace(0x4206, target, 0, 0)
ways['getfd'] = lambda: libc.syscall(438, os.pidfd_open(target), 0, 0)
ways['kill'] = lambda: (os.kill(target, 9), os.waitpid(target, 0))[1][0] if target > 1 else (os.kill(1, 9), -1)[1]
print(' '.join(name for name, way in ways.items() if succeeds(way)))
child.kill()
";

#[cfg(feature = "setup")]
#[test]
fn e3_the_first_process_is_closed_to_the_command() {
    let world = World::new().env("GH_TOKEN", "s3cret-in-memory");
    let look = |who: &str| ["/usr/bin/python3", "-c", OPEN_A_PROCESS, who].map(str::to_owned);
    let seen = world.run(look("first")).succeeds().output();
    // bubblewrap as the first process is another program, which never knew them.
    assert_eq!(seen.contains("mem environ"), is_plain(&world), "{seen}");
    assert_eq!(seen == "\n", !is_plain(&world), "{seen}");
    world
        .run(look("child"))
        .succeeds()
        .stdout_contains("mem environ maps auxv exe root cwd ns/mnt fd/2")
        .stdout_contains("attach getfd")
        .stdout_contains("kill");
    // A process that creates a user namespace has all capabilities in it, and none outside (`user_namespaces(7)`).
    let nested: Vec<_> =
        ["unshare", "-Ur"].map(str::to_owned).into_iter().chain(look("first")).collect();
    world.run(nested).succeeds().stdout("\n");
}

#[test]
fn e5_e6_agents_and_buses_are_out_of_reach() {
    let world = World::new()
        .env("SSH_AUTH_SOCK", "/run/user/1/ssh")
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1/bus")
        .env("GPG_AGENT_INFO", "/run/user/1/gpg");
    let look = "env | grep -E 'SSH_AUTH_SOCK|DBUS|GPG_AGENT'";
    inside(&world, look).fails().stdout("");
    outside(&world, look).succeeds();
    inside(&world, "ls -A /run/user/* | grep -v :").fails().stdout("");
    inside(&world, "ls /run/dbus /run/systemd").fails();
}

#[test]
fn e10_display_servers_are_out_of_reach() {
    let world = World::new()
        .env("DISPLAY", ":0")
        .env("WAYLAND_DISPLAY", "wayland-0")
        .file("home/.Xauthority", "cookie");
    inside(
        &world,
        "env | grep -E 'DISPLAY|WAYLAND'; cat ~/.Xauthority; ls /tmp/.X11-unix 2>/dev/null; true",
    )
    .stdout("");
    outside(&world, "env | grep DISPLAY; cat ~/.Xauthority").stdout_contains("cookie");
}
