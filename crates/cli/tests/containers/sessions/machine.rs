//! A host that was prepared for host commands over SSH: disposable copies of this machine's directories, the dedicated
//! user, and a real sshd that containers reach.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use testkit::{Docker, Namespace, Process, Run, World, need};

use super::stage::Stage;

const MYTOOL: &str = include_str!("../../bridge/mytool.sh");
/// File with the authorized keys of the dedicated user.
pub(super) const KEYS: &str = "/var/lib/agent-sandbox/host-runner/.ssh/authorized_keys";

pub(super) struct Machine {
    /// Stage whose sessions run on that host.
    pub(super) stage: Stage,
    pub(super) network: &'static str,
    pub(super) gateway: String,
    pub(super) port: u16,
    _sshd: Process,
}

impl Machine {
    /// Creates a machine whose list allows `mytool`, with this configuration and an image that has an SSH client.
    #[track_caller]
    pub(super) fn new() -> Self {
        let docker = Docker::new();
        let (network, gateway) = docker.network();
        let stage = Stage::new("");
        let world = host(&stage.world.clone().exec_file("local/bin/mytool", MYTOOL));
        let setup = ["host-command", "setup", "--allow", "mytool", "--yes"];
        world.run(setup).succeeds();
        let (port, sshd) = sshd(&world, &gateway);
        let stage = stage.moved_to(world);
        Self { stage, network, gateway, port, _sshd: sshd }
    }

    /// Writes the configuration: keys of the file, then keys of `host_commands`.
    pub(super) fn configure(&self, top: &str, commands: &str) {
        let image = self.stage.docker.ssh_client();
        let text = format!(
            "image = '{image}'\nnetwork = '{}'\n{top}\n[host_commands]\nenabled = true\ntransport = 'ssh'\n\
             user = 'host-runner'\nhost = 'host.docker.internal'\nport = {}\n{commands}\n",
            self.network, self.port
        );
        self.stage.world.write("project/sandbox.toml", text);
    }

    /// Returns the authorized keys, one per line.
    pub(super) fn keys(&self) -> String {
        self.stage.world.host(["sh", "-c", &format!("cat {KEYS} 2>/dev/null")]).output()
    }

    /// Sends a request to this host's sshd from the host itself, with a key.
    pub(super) fn ask(&self, key: &str, address: &str) -> Run {
        let (key, port) = (self.stage.world.path(key), self.port.to_string());
        let key = key.display().to_string();
        let target = format!("host-runner@{address}");
        let fixed = ["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"];
        let fixed = fixed.into_iter().chain(["-o", "UserKnownHostsFile=/dev/null"]);
        let line = ["-o", "LogLevel=ERROR", "-i", &key, "-p", &port, &target, "mytool", "x"];
        self.stage.world.host(fixed.chain(line))
    }
}

/// Creates a key pair in a file of the world.
pub(super) fn make_key(world: &World, name: &str) {
    let path = world.path(name).display().to_string();
    let keygen = need("ssh-keygen").display().to_string();
    world.host([keygen.as_str(), "-q", "-t", "ed25519", "-N", "", "-f", &path]).succeeds();
}

fn host(world: &World) -> World {
    for name in ["host_key", "other_key"] {
        make_key(world, name);
    }
    let world = world.clone().dir("local/sbin").dir("lib");
    let (root, binary) = (world.path("").display().to_string(), world.binary().display());
    let script = format!(
        "cp -a /etc {root}/etc
        rm -rf {root}/etc/ssh/* {root}/etc/agent-sandbox
        mkdir {root}/etc/ssh/sshd_config.d
        cp {root}/host_key {root}/etc/ssh/ssh_host_ed25519_key
        cp {root}/host_key.pub {root}/etc/ssh/ssh_host_ed25519_key.pub
        echo 'Include /etc/ssh/sshd_config.d/*.conf' > {root}/etc/ssh/sshd_config
        touch {root}/local/bin/agent-sandbox
        mount -o bind {root}/etc /etc
        mount -o bind {root}/local /usr/local
        mount -o bind {binary} /usr/local/bin/agent-sandbox
        mount -o bind {root}/lib /var/lib
        mount -t tmpfs tmpfs /run
        mkdir /run/sshd"
    );
    let namespace = Namespace::of_root(&world, &script);
    world.within(namespace)
}

/// Starts sshd on a free port, for the host itself and for its containers.
#[track_caller]
fn sshd(world: &World, gateway: &str) -> (u16, Process) {
    need("sshd");
    let config = world.path("sshd_config").display().to_string();
    for _ in 0..20 {
        let port = TcpListener::bind((gateway, 0)).unwrap().local_addr().unwrap().port();
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nListenAddress {gateway}\nPidFile none\nUsePAM no\n\
             Include /etc/ssh/sshd_config\n"
        );
        world.write("sshd_config", text);
        // By its absolute path, because it re-executes itself for each connection (`sshd(8)`).
        let mut sshd = world.start(["/usr/sbin/sshd", "-D", "-e", "-f", &config]);
        while sshd.is_running() {
            let there = |address: &str| TcpStream::connect((address, port)).is_ok();
            if there("127.0.0.1") && there(gateway) {
                return (port, sshd);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("sshd does not listen at {gateway}");
}
