//! The minimal privileges of a container, as seen from inside and as reported by the engine.

use super::stage::{NAME, Stage};

#[test]
fn container_has_the_least_from_inside() {
    let stage = Stage::up("");
    for (script, why) in [
        ("touch /x", "the root is read-only"),
        ("touch /usr/x /etc/x", "all of it"),
        ("touch /run/x", "and what is ours"),
        ("cat /run/agent-sandbox/private/control/control", "what the first process is told"),
        ("kill -9 1", "the first process"),
        ("mount -t tmpfs tmpfs /tmp", "no mounts"),
        ("chown 0 /workspace/sandbox.toml", "no capabilities"),
        ("ping -c 1 -W 1 127.0.0.1", "no raw sockets"),
        ("mknod /tmp/null c 1 3", "no devices"),
        ("cat /proc/kcore | head -c 1 | grep -q .", "masked"),
        ("echo 1 > /proc/sys/kernel/panic", "the machine's settings"),
    ] {
        let run = stage.sh(script);
        assert!(!run.status().success(), "{why}: {script}");
    }
    stage
        .sh("echo ok > /tmp/x; cat /tmp/x; cp /bin/busybox /tmp/busybox; /tmp/busybox true")
        .succeeds()
        .stdout("ok\n");
    let status = stage.sh("grep -E 'CapEff|CapPrm|NoNewPrivs|Seccomp:' /proc/self/status").output();
    for line in
        ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"]
    {
        assert!(status.contains(line), "{status}");
    }
    stage.sh("ls /dev/sda /dev/vda /dev/kvm /dev/fuse /var/run/docker.sock").fails();
}

#[test]
fn container_has_the_least_as_the_engine_says() {
    let stage = Stage::up("resources = { memory = '256m', cpus = '0.5', pids = 99 }");
    for (field, expected) in [
        ("{{.HostConfig.NetworkMode}}", "none"),
        ("{{.HostConfig.Privileged}}", "false"),
        ("{{.HostConfig.ReadonlyRootfs}}", "true"),
        ("{{.HostConfig.CapDrop}}", "[ALL]"),
        ("{{.HostConfig.CapAdd}}", "[SETUID SETGID SETPCAP KILL]"),
        ("{{index .HostConfig.SecurityOpt 0}}", "no-new-privileges:true"),
        ("{{slice (index .HostConfig.SecurityOpt 1) 0 9}}", "seccomp={"),
        ("{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}", "268435456 268435456"),
        ("{{.HostConfig.NanoCpus}}", "500000000"),
        ("{{.HostConfig.PidsLimit}}", "99"),
        ("{{.HostConfig.RestartPolicy.Name}}", "unless-stopped"),
        ("{{.HostConfig.IpcMode}} {{.HostConfig.PidMode}} {{.HostConfig.UTSMode}}", "private"),
        ("{{.HostConfig.PublishAllPorts}} {{.HostConfig.PortBindings}}", "false map[]"),
        ("{{.HostConfig.Binds}} {{.HostConfig.Devices}}", "[] []"),
        ("{{.Config.StopTimeout}}", "30"),
    ] {
        assert_eq!(stage.inspect(field), expected, "{field}");
    }
    let sources = stage.inspect("{{range .Mounts}}{{.Type}} {{.Source}}\n{{end}}");
    assert!(sources.lines().all(|line| line.starts_with("bind ")), "{sources}");
    assert!(!sources.contains("docker.sock") && !sources.contains(".local/state"), "{sources}");
    // Every extra privilege was reported.
    stage.down().succeeds();
    stage.bring_up().succeeds().stderr_contains("granted: capability SETUID");
}

/// The filter is ours: `io_uring` and user namespaces are refused on every engine, for every system call number.
#[test]
fn system_calls_that_kernels_were_broken_through_are_refused() {
    let docker = testkit::Docker::new();
    let image = docker.debian();
    let stage = Stage::on(docker, image, "");
    stage.bring_up().succeeds();
    let tried = r#"
use strict; use warnings;
sub tried { my ($name, $number, @rest) = @_; $! = 0; my $got = syscall($number, @rest); printf "%s %d %d\n", $name, $got, $!+0; }
my ($uring, $clone3, $clone, $unshare) = map { 0 + $_ } @ARGV;
my $args = pack("Q11", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0);
my $room = "\0" x 256;
tried("io_uring_setup", $uring, 1, $room);
tried("clone3", $clone3, $args, 88);
tried("unshare-user", $unshare, 0x10000000);
tried("clone-user", $clone, 0x10000000 | 17, 0, 0, 0, 0);
tried("unshare-files", $unshare, 0x400);
"#;
    stage.world.write("project/tried.pl", tried);
    let numbers = if cfg!(target_arch = "aarch64") {
        ["425", "435", "220", "97"]
    } else {
        ["425", "435", "56", "272"]
    };
    let line = ["exec", "-s", NAME, "perl", "tried.pl"].into_iter().chain(numbers);
    let said = stage.world.run(line).succeeds().output();
    for refused in ["io_uring_setup -1 38", "clone3 -1 38", "unshare-user -1 1", "clone-user -1 1"]
    {
        assert!(said.contains(refused), "{refused}: {said}");
    }
    assert!(said.contains("unshare-files 0 0"), "control: {said}");
    stage.sh("unshare -U true").fails();
    // Ordinary programs work: threads, pipes, timers, sockets, debuggers, package managers.
    let work = "perl -e 'pipe R, W; if (fork) { wait; exit $? >> 8 } exec \"true\"' && \
        seq 1000 | sort -n --parallel=4 | tail -1 && tar -C /etc -cf - passwd | tar -tf - && \
        dpkg --print-architecture > /dev/null && timeout 5 sleep 0.01 && flock . true && nice true";
    stage.sh(work).succeeds().stdout("1000\npasswd\n");
}
