//! The least that a container has, as it is seen from inside and as the engine says it.

use super::stage::Stage;

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
        ("{{.HostConfig.SecurityOpt}}", "[no-new-privileges:true]"),
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
    // Everything beyond the least was said.
    stage.down().succeeds();
    stage.bring_up().succeeds().stderr_contains("granted: capability SETUID");
}
