//! `bench hostcmd`: time of a host command, compared with `ssh localhost true` over an open connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_protocol::frame::{self, Kind, Request};
use testkit::World;

use crate::BenchError;
use crate::rounds::{Order, SEED, Times};

/// Time for the servers to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let servers = Servers::start()?;
    let names = ["ssh localhost true", "forced command", "Unix socket"];
    let mut runs = [const { Vec::new() }; 3];
    let mut order = Order::new();
    for round in 0..=rounds {
        for index in order.shuffled(names.len()) {
            let before = Instant::now();
            match index {
                0 => servers.ssh("plain")?,
                1 => servers.ssh("key")?,
                _ => servers.ask()?,
            }
            if round > 0 {
                runs[index].push(before.elapsed());
            }
        }
    }
    let times = runs.map(Times::of);
    println!(
        "{rounds} interleaved rounds, seed {SEED:#x}; both SSH connections are opened before\n"
    );
    println!("{:<20} {:>9} {:>9} {:>7}", "", "min ms", "median", "ratio");
    for (name, time) in names.iter().zip(&times) {
        let ratio = time.min() / times[0].min();
        println!("{name:<20} {:>9.2} {:>9.2} {ratio:>7.2}", time.min(), time.median());
    }
    Ok(())
}

/// A broker and an sshd. Dropping it kills both.
struct Servers {
    world: World,
    port: u16,
    children: Vec<Child>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.children {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Servers {
    fn start() -> Result<Self, BenchError> {
        let world = World::unseen().dir("state").dir("work");
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let mut servers = Self { world, port, children: Vec::new() };
        servers.write()?;
        servers.serve()?;
        Self::wait_for(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let socket = servers.world.path("socket");
        Self::wait_for(|| UnixStream::connect(&socket).is_ok())?;
        Ok(servers)
    }

    fn write(&self) -> Result<(), BenchError> {
        let path = |name: &str| self.world.path(name).display().to_string();
        for name in ["key", "plain", "host_key"] {
            call(Command::new("ssh-keygen").args([
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-f",
                &path(name),
            ]))?;
        }
        self.world.write(
            "list.toml",
            format!(
                "allowed = ['true']\nmounts = [{{ container = '/w', host = '{}' }}]\n",
                path("work")
            ),
        );
        let serve = format!(
            "{} host-command serve --list {} --state {}",
            self.world.binary().display(),
            path("list.toml"),
            path("state")
        );
        let keys = [self.world.read("key.pub"), self.world.read("plain.pub")];
        self.world.write(
            "authorized_keys",
            format!("restrict,command=\"{serve}\" {}{}", keys[0], keys[1]),
        );
        let (host_key, keys) = (path("host_key"), path("authorized_keys"));
        self.world.write(
            "sshd_config",
            format!(
                "Port {}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\nUsePAM no\nStrictModes no\n\
                 AuthorizedKeysFile {keys}\nPermitRootLogin prohibit-password\n",
                self.port
            ),
        );
        Ok(())
    }

    fn serve(&mut self) -> Result<(), BenchError> {
        let path = |name: &str| self.world.path(name);
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(path("sshd_config"));
        let mut broker = Command::new(self.world.binary());
        broker.args(["host-command", "serve", "--listen"]).arg(path("socket"));
        broker.arg("--list").arg(path("list.toml")).arg("--state").arg(path("state"));
        for server in [&mut sshd, &mut broker] {
            let name = server.get_program().to_string_lossy().into_owned();
            server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = server.spawn().map_err(|error| BenchError::Start(name, error))?;
            self.children.push(child);
        }
        Ok(())
    }

    fn wait_for(ready: impl Fn() -> bool) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        while !ready() {
            if Instant::now() > deadline {
                return Err(
                    io::Error::other("timed out: sshd or the broker does not listen").into()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Runs `true` over SSH. The first call with a key opens a persistent connection.
    fn ssh(&self, key: &str) -> Result<(), BenchError> {
        let path = |name: &str| self.world.path(name).display().to_string();
        let options = [
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=no".into(),
            "UserKnownHostsFile=/dev/null".into(),
            "LogLevel=ERROR".into(),
            "ControlMaster=auto".into(),
            "ControlPersist=30".into(),
            format!("ControlPath={}", path(&format!("control-{key}"))),
        ];
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-i", &path(key), "-p", &self.port.to_string()]);
        ssh.args(options.iter().flat_map(|option| ["-o", option]));
        call(ssh.args(["127.0.0.1", "true"]).stderr(Stdio::null()))
    }

    fn ask(&self) -> Result<(), BenchError> {
        let mut socket = UnixStream::connect(self.world.path("socket"))?;
        let request = Request { cwd: Path::new("/w").into(), argv: vec!["true".into()] };
        frame::write(&mut socket, Kind::Request, &request.encode())?;
        while let Some(frame) = frame::read(&mut socket)? {
            if frame.kind == Kind::Exit && frame.body == [0] {
                return Ok(());
            }
        }
        Err(BenchError::Fails("true".into(), "no exit frame with status 0 on the socket".into()))
    }
}

fn call(command: &mut Command) -> Result<(), BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    match status.map_err(|error| BenchError::Start(name.clone(), error))? {
        status if status.success() => Ok(()),
        status => Err(BenchError::Fails(name, status.to_string())),
    }
}
