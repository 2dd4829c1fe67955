//! A real sshd on a test port, with test keys.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use testkit::{Namespace, Process, Run, World, need};

/// Command that sshd runs on the host.
const MYTOOL: &str = include_str!("mytool.sh");

pub(crate) struct Sshd {
    pub world: World,
    /// Command without the environment that sshd needs.
    pub bare: World,
    port: u16,
    _process: Process,
}

impl Sshd {
    /// Starts an sshd that allows `key` only `host-command serve` and `plain` everything, with these keys in the list.
    pub(crate) fn new(keys: &str) -> Self {
        Self::with_options(keys, "")
    }

    /// Starts an sshd with further options for `key`.
    pub(crate) fn with_options(keys: &str, options: &str) -> Self {
        let world = World::new()
            .exec_file("bin/mytool", MYTOOL)
            .dir("state")
            .dir("work/sub")
            .file("work/file", "shared\n");
        let world = world.file("secret", "the host's\n");
        let list = format!(
            "path = ['{}', '/usr/bin', '/bin']\nmounts = [{{ container = '/workspace', host = '{}' }}]\n{}",
            world.path("bin").display(),
            world.path("work").display(),
            if keys.contains("allowed") {
                keys.to_owned()
            } else {
                format!("allowed = ['mytool', 'git status', 'git log']\n{keys}")
            },
        );
        world.write("list.toml", list);
        new_keys(&world, &["key", "plain", "host_key", "other_key"]);
        let serve = format!(
            "{} host-command serve --list {} --state {}",
            world.binary().display(),
            world.path("list.toml").display(),
            world.path("state").display()
        );
        let keys = format!(
            "restrict,command=\"{serve}\"{options} {}\n{}\n",
            world.read("key.pub").trim(),
            world.read("plain.pub").trim()
        );
        world.write("authorized_keys", keys);
        let bare = world.clone();
        let world = at_home(world);
        let (port, process) = start(&world, "");
        world.write("known_hosts", format!("[127.0.0.1]:{port} {}", world.read("host_key.pub")));
        world.write("wrong_hosts", format!("[127.0.0.1]:{port} {}", world.read("other_key.pub")));
        Self { world, bare, port, _process: process }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the arguments of a client with this key.
    pub(crate) fn words(&self, key: &str, options: &[&str], line: &[&str]) -> Vec<String> {
        let mut words = client_words(&self.world, self.port, key);
        words.extend(options.iter().map(|word| (*word).to_owned()));
        words.push("127.0.0.1".into());
        words.extend(line.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Sends a line unchanged.
    pub(crate) fn ask(&self, line: &str) -> Run {
        self.client(&[], &[line])
    }

    pub(crate) fn client(&self, options: &[&str], line: &[&str]) -> Run {
        self.world.host(self.words("key", options, line))
    }

    /// Sends a line with the unrestricted key, as the control.
    pub(crate) fn plain(&self, options: &[&str], line: &[&str]) -> Run {
        self.world.host(self.words("plain", options, line))
    }
}

/// Returns the start of a client's command line, up to the destination.
pub(crate) fn client_words(world: &World, port: u16, key: &str) -> Vec<String> {
    let path = |name: &str| world.path(name).display().to_string();
    let known = format!("UserKnownHostsFile={}", path("known_hosts"));
    let options = ["BatchMode=yes", "IdentitiesOnly=yes", "LogLevel=ERROR", &known];
    let options = options.iter().flat_map(|option| ["-o", option]);
    let words = ["ssh", "-F", "none"].into_iter().chain(options).map(str::to_owned);
    words.chain(["-i".into(), path(key), "-p".into(), port.to_string()]).collect()
}

/// Prepares the machine for sshd: for root, it needs a directory in `/run`, and an unlocked account.
fn at_home(world: World) -> World {
    if !rustix::process::getuid().is_root() {
        return world;
    }
    let users = fs::read_to_string("/etc/shadow").unwrap_or_default();
    let open = |line: &str| {
        if line.starts_with("root:") {
            "root:*:19000:0:99999:7:::".to_owned()
        } else {
            line.to_owned()
        }
    };
    world.write("shadow", users.lines().map(open).collect::<Vec<_>>().join("\n") + "\n");
    let shadow = world.path("shadow").display().to_string();
    let script = format!(
        "mount -t tmpfs tmpfs /run\nmkdir /run/sshd\nchmod 600 {shadow}\nmount -o bind {shadow} /etc/shadow"
    );
    let namespace = Namespace::of_root(&world, &script);
    world.within(namespace)
}

/// Starts sshd on a free port.
pub(crate) fn start(world: &World, more: &str) -> (u16, Process) {
    need("sshd");
    let mut said = String::new();
    for _ in 0..20 {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let path = |name: &str| world.path(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nLogLevel VERBOSE\n\
             AuthorizedKeysFile {}\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n\
             AcceptEnv *\nPermitUserEnvironment no\nMaxStartups 100\n{more}\n",
            path("host_key"),
            path("authorized_keys"),
        );
        world.write("sshd_config", config);
        let mut process = world.start([
            sshd().as_os_str(),
            "-D".as_ref(),
            "-e".as_ref(),
            "-f".as_ref(),
            world.path("sshd_config").as_os_str(),
        ]);
        if listens(&mut process, port) {
            return (port, process);
        }
        said = process.wait().to_string();
    }
    panic!("sshd does not listen: {said}");
}

fn listens(process: &mut Process, port: u16) -> bool {
    while process.is_running() {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    false
}

/// sshd re-executes itself for each connection, by its absolute path (`sshd(8)`).
fn sshd() -> &'static Path {
    Path::new("/usr/sbin/sshd")
}

/// Creates keys with these names.
pub(crate) fn new_keys(world: &World, names: &[&str]) {
    let program = need("ssh-keygen").display().to_string();
    for name in names {
        let path = world.path(name).display().to_string();
        world.host([&program, "-q", "-t", "ed25519", "-N", "", "-f", &path]).succeeds();
    }
}
