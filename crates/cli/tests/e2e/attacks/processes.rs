//! PR*, R-D3, R-D7 to R-D10: other processes, namespaces, and the sandbox itself.

use std::os::unix::fs::PermissionsExt;

use testkit::{Signal, User, World, user};

use super::{inside, is_plain, outside, python_inside, python_outside};

#[cfg(feature = "setup")]
#[test]
fn pr1_r_d3_processes_of_the_host_cannot_be_signalled_or_traced() {
    let world = World::new();
    let host = world.host_terminal(["sh", "-c", "echo up; exec sleep 60"]);
    host.wait_for("up");
    let pid = host.pid().as_raw_pid();
    let attack = format!(
        "import ctypes, os\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def attempt(name, *args):\n    ctypes.set_errno(0); r = getattr(libc, name)(*args); print(name, r >= 0)\n\
         attempt('kill', {pid}, 0)\n\
         attempt('syscall', 434, {pid}, 0)\n\
         attempt('ptrace', 16, {pid}, 0, 0)\n\
         print(os.path.exists('/proc/{pid}'))"
    );
    python_inside(&world, &[], &attack).stdout("kill False\nsyscall False\nptrace False\nFalse\n");
    // Also not by process group, and not with pid -1.
    inside(&world, "kill -9 -1").stderr_lacks("panicked");
    outside(&world, &format!("kill -0 {pid}")).succeeds();
    python_outside(&world, &attack).stdout_contains("kill True\nsyscall True");
    host.signal(Signal::KILL);
}

#[test]
fn pr1_the_caller_cannot_be_signalled_by_its_number_or_group() {
    let world = World::new();
    let mut run = world.spawn([
        "sh",
        "-c",
        "kill -9 0; echo alive; kill -9 $PPID; kill -9 1; echo still; exec sleep 60",
    ]);
    // These signals reach only processes inside.
    let _ = run.is_running();
    let run = run.wait();
    assert!(run.status().code().is_some(), "the supervisor itself was not killed\n{run}");
}

#[test]
fn pr2_aliases_in_proc_lead_back_inside() {
    let world = World::new().file("home/.ssh/key", "s3cret").file("home/notes", "mine");
    let home = world.path("home").display().to_string();
    for root in [
        "/proc/self/root",
        "/proc/1/root",
        "/proc/thread-self/root",
        "/proc/1/cwd/../../../../../..",
    ] {
        let attack = format!("cat {root}{home}/.ssh/key; echo x > {root}{home}/notes");
        inside(&world, &attack).fails().stdout("");
    }
    assert_eq!(world.read("home/notes"), "mine");
    outside(&world, &format!("cat /proc/self/root{home}/.ssh/key")).stdout("s3cret");
}

#[test]
fn pr3_another_way_to_run_a_program_does_not_widen_the_walls() {
    let world = World::new().file("home/notes", "mine");
    let attack = "cp /bin/sh mine; loader=$(ls /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 2>/dev/null | head -1); \
                  $loader ./mine -c 'echo theirs > ~/notes'";
    inside(&world, attack).fails();
    assert_eq!(world.read("home/notes"), "mine");
    outside(&world, attack).succeeds();
    assert_eq!(world.read("home/notes"), "theirs\n");
}

/// Writes the value that is already there, so that a missing protection does no damage.
const REWRITE: &str =
    "v=$(cat PROC/sys/kernel/core_pattern) && echo \"$v\" > PROC/sys/kernel/core_pattern";

#[test]
fn pr4_settings_of_the_kernel_cannot_be_written() {
    let world = World::new();
    let attack = REWRITE.replace("PROC", "/proc");
    inside(&world, &attack).fails();
    // Values that belong to the sandbox's own namespaces may be writable.
    let own = "^/proc/sys/(net|user|kernel/(sem|shm|msg|hostname|domainname|ns_last_pid|pid_max|auto_msgmni)|fs/(mqueue|binfmt_misc))";
    let writable =
        "find /proc/sys /proc/irq /proc/bus /proc/sysrq-trigger /sys -type f -writable 2>/dev/null";
    inside(&world, &format!("{writable} | grep -vE '{own}'")).stdout("");
    if user() == User::Root {
        inside(&world, writable).stdout("");
        outside(&world, &attack).succeeds();
    }
}

#[test]
fn pr4_a_fresh_proc_is_no_way_to_write_them() {
    let world = World::new();
    let rewrite = REWRITE.replace("PROC", "/tmp/p");
    let attack =
        format!("mkdir -p /tmp/p; unshare -Urpfm sh -c 'mount -t proc p /tmp/p; {rewrite}'");
    inside(&world, &attack).fails();
    inside(&world, "unshare -Urm umount /proc/sys").fails();
    inside(&world, "unshare -Urm mount -o remount,bind,rw /proc/sys").fails();
    if user() == User::Root {
        let place = world.path("outside").display().to_string();
        outside(&world, &attack.replace("/tmp/p", &place)).succeeds();
    }
}

#[test]
fn pr5_children_that_hide_from_their_parent_end_with_the_run() {
    let world = World::new();
    let marker = format!("43{}", std::process::id());
    let script = format!(
        "(setsid sh -c 'trap \"\" HUP TERM; (sleep {marker} &) ; sleep {marker}' >/dev/null 2>&1 &) ; sleep 0.1; echo up"
    );
    inside(&world, &script).succeeds().stdout("up\n");
    outside(&world, &format!("pgrep -xf 'sleep {marker}'")).fails();
    let run = world.spawn(["sh", "-c", &format!("{script}; exec sleep {marker}")]);
    run.wait_for("up");
    run.signal(Signal::KILL);
    run.wait().killed_by(Signal::KILL);
    let gone = format!(
        "for i in $(seq 100); do pgrep -xf 'sleep {marker}' >/dev/null || exit 0; sleep 0.05; done; exit 1"
    );
    outside(&world, &gone).succeeds();
}

/// Attempts to drop a restriction from new namespaces. Each exits with 0 on success.
const SHED: &[&str] = &[
    "umount ~/.netrc && test -s ~/.netrc",
    "umount -l ~/.netrc && test -s ~/.netrc",
    "umount ~/.ssh && test -s ~/.ssh/key",
    "umount -l ~ && test -s ~/.netrc",
    "mount -o remount,rw,bind ~ && echo x > ~/notes",
    "mount -o remount,rw ~ && echo x > ~/notes",
    "mount -o remount,rw,bind / && echo x > ~/notes",
    "mkdir -p /tmp/m && mount --bind ~ /tmp/m && cat /tmp/m/.netrc | grep .",
    "mkdir -p /tmp/m && mount --rbind / /tmp/m && umount -l /tmp/m$HOME/.netrc && test -s /tmp/m$HOME/.netrc",
    "mkdir -p /tmp/m && mount --rbind / /tmp/m && mount -o remount,rw,bind /tmp/m && echo x > /tmp/m$HOME/notes",
    "mkdir -p /tmp/m && mount --rbind /proc/1/root /tmp/m && echo x > /tmp/m$HOME/notes",
    "mkdir -p /tmp/m && mount --make-rprivate / && mount --move ~ /tmp/m && test -s /tmp/m/.netrc",
    "mkdir -p /tmp/m/u /tmp/m/w /tmp/m/o && mount -t overlay o -o lowerdir=$HOME,upperdir=/tmp/m/u,workdir=/tmp/m/w /tmp/m/o && test -s /tmp/m/o/.netrc",
    "mkdir -p /tmp/m && mount -t tmpfs t /tmp/m && mkdir /tmp/m/old && pivot_root /tmp/m /tmp/m/old; test -s /old$HOME/.netrc",
    "chroot /proc/1/root sh -c 'test -s ~/.netrc'",
    "nsenter -t 1 -m sh -c 'echo x > ~/notes'",
    "nsenter -t 1 -U -m --preserve-credentials sh -c 'echo x > ~/notes'",
    "test -s ~/.netrc",
    "mkdir -p /tmp/m && mount --bind .git /tmp/m && echo x >> /tmp/m/config",
    "umount .git/config && echo x >> .git/config",
    "umount -l .git && echo x >> .git/config",
    "mount -o remount,rw,bind .git/config && echo x >> .git/config",
    "mkdir -p /tmp/m && mount -t proc p /tmp/m && test -e /tmp/m/2000000",
    "mkdir -p /tmp/m && mount -t sysfs s /tmp/m && mkdir /tmp/m/x",
    "mkdir -p /tmp/m && mount -t cgroup2 c /tmp/m && mkdir /tmp/m/evil",
    "mkdir -p /tmp/m && mount -t debugfs d /tmp/m",
    "mkdir -p /tmp/m && mount /dev/vda /tmp/m",
];

#[test]
fn pr6_r_d7_namespaces_of_its_own_shed_no_wall() {
    let world = World::new()
        .file("home/.netrc", "s3cret")
        .file("home/.ssh/key", "s3cret")
        .file("home/notes", "mine")
        .git_init("project");
    let config = world.read("project/.git/config");
    for attack in SHED {
        for flags in ["-Urm", "-Urmpf", "-Urmpfn"] {
            world.run(["unshare", flags, "sh", "-c", attack]).fails();
        }
        assert_eq!(world.read("home/notes"), "mine", "{attack}");
        assert_eq!(world.read("project/.git/config"), config, "{attack}");
    }
    // The control: without the sandbox, in the same namespaces but without the restrictions.
    outside(&world, "unshare -Urm sh -c 'test -s ~/.netrc && echo x > ~/notes'").succeeds();
    inside(&world, "unshare -Urm true").succeeds();
}

#[test]
fn pr6_the_groups_of_the_host_cannot_be_changed_through_a_namespace() {
    let world = World::new();
    let attack = "dir=$(mktemp -d); unshare -UrCm sh -c \"mount -t cgroup2 none $dir && mkdir $dir/as-test-$$ && rmdir $dir/as-test-$$\"";
    inside(&world, attack).fails();
    // A user without subordinate groups (`subgid(5)`) cannot do it in any case.
    if user() == User::Root {
        outside(&world, attack).succeeds();
        inside(&world, "unshare -UrC true").fails();
    }
}

#[test]
fn pr7_no_namespace_of_the_host_can_be_joined() {
    let world = World::new();
    let leak = format!(
        "exec 9</proc/self/ns/mnt 8</proc/self/ns/user; {} sh -c 'ls -l /proc/self/fd; nsenter --mount=/proc/self/fd/9 true'",
        world.binary().display()
    );
    outside(&world, &leak).fails().stdout_lacks("mnt:[");
    inside(&world, "readlink /proc/1/ns/mnt /proc/self/ns/mnt | uniq | wc -l").stdout("1\n");
    let host = outside(&world, "readlink /proc/self/ns/mnt").output();
    inside(&world, "readlink /proc/1/ns/mnt /proc/2/ns/mnt").stdout_lacks(host.trim());
}

#[test]
fn pr9_what_builds_the_sandbox_cannot_be_replaced() {
    let world = World::new();
    std::fs::copy(world.binary(), world.path("project/agent-sandbox")).unwrap();
    let own = World::with_binary(world.path("project/agent-sandbox"));
    let path = world.path("project/agent-sandbox").display().to_string();
    for attack in
        ["echo x > FILE", "rm FILE", "mv FILE x", "cp /bin/true FILE.new; mv FILE.new FILE"]
    {
        let attack = attack.replace("FILE", &path);
        own.run(["--rw", &world.path("project").display().to_string(), "sh", "-c", &attack])
            .fails();
    }
    outside(&world, "cp /bin/true new && mv new agent-sandbox").succeeds();
    inside(
        &world,
        "echo x > /run/agent-sandbox/agent-sandbox || rm /run/agent-sandbox/agent-sandbox",
    )
    .fails();
}

#[test]
fn pr9_a_bwrap_that_a_sandbox_could_have_made_is_not_used() {
    let world = World::new();
    inside(&world, "printf '#!/bin/sh\\ntouch ~/pwned\\n' > bwrap; chmod 755 bwrap").succeeds();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.path("project").display());
    world.clone().env("PATH", &path).run(["true"]).succeeds();
    assert!(!world.has("home/pwned"));
    world.clone().env("PATH", &path).host(["bwrap"]).succeeds();
    assert!(world.has("home/pwned"), "the control: the shell would take it");
}

#[test]
fn pr9_bwrap_cannot_be_changed_through_its_own_process() {
    let world = World::new().dir("outside/bin");
    std::fs::copy(testkit::need("bwrap"), world.path("outside/bin/bwrap")).unwrap();
    let path = format!("{}:/usr/bin:/bin", world.path("outside/bin").display());
    let world = world.env("PATH", path);
    let mode = || std::fs::metadata(world.path("outside/bin/bwrap")).unwrap().permissions().mode();
    let before = mode();
    inside(&world, "chmod 4755 /proc/1/exe; touch /proc/1/exe; echo x > /proc/1/exe; true");
    assert_eq!(mode(), before);
    assert_eq!(
        std::fs::read(testkit::need("bwrap")).unwrap(),
        std::fs::read(world.path("outside/bin/bwrap")).unwrap()
    );
    outside(&world, "chmod 4755 ../outside/bin/bwrap").succeeds();
    assert_ne!(mode(), before, "the control: its owner can");
}

#[test]
fn fs11_device_files_of_the_host_cannot_be_changed() {
    let world = World::new();
    let touch = "touch -c -d @$(stat -c %Y /dev/full) /dev/full";
    let run = inside(&world, touch);
    if user() == User::Root && is_plain(&world) {
        run.succeeds(); // bubblewrap cannot mount a device read-only, see SECURITY.md.
        return;
    }
    run.fails();
    inside(&world, "echo > /dev/null && head -c1 /dev/zero > /dev/null").succeeds();
    if user() == User::Root {
        outside(&world, touch).succeeds();
    }
}

#[test]
fn pr10_r_d10_a_sandbox_inside_can_only_restrict() {
    let world = World::new()
        .file("home/.netrc", "s3cret")
        .file("home/notes", "mine")
        .env("GH_TOKEN", "s3cret");
    let binary = world.binary().display().to_string();
    for flags in
        ["--ro '!@secrets'", "--rw /", "--exclude '!~/.netrc'", "--env GH_TOKEN", "--trust --rw ~"]
    {
        let attack = format!(
            "{binary} {flags} sh -c 'cat ~/.netrc; printenv GH_TOKEN; echo theirs > ~/notes'"
        );
        inside(&world, &attack).stdout_lacks("s3cret");
        assert_eq!(world.read("home/notes"), "mine", "{flags}");
    }
    world.run(["--exclude", "!~/.netrc", "sh", "-c", "cat ~/.netrc"]).stdout("s3cret");
}

#[test]
fn pr11_a_command_that_looks_like_an_option_is_a_command() {
    let world = World::new()
        .exec_file("project/--bind", "#!/bin/sh\necho ran\n")
        .file("home/notes", "mine");
    let path = format!("{}:/usr/bin:/bin", world.path("project").display());
    world
        .clone()
        .env("PATH", path)
        .run(["--", "--bind", "/", "/", "sh", "-c", "echo x > ~/notes"])
        .stdout("ran\n");
    assert_eq!(world.read("home/notes"), "mine");
}

#[test]
fn r_d9_nothing_here_is_setuid() {
    let world = World::new();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(world.binary()).unwrap());
    assert_eq!(mode & 0o6000, 0);
    inside(
        &world,
        "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000",
    )
    .fails();
}
