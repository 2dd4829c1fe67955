//! A host with a broker, and a container's view of it: a mount namespace in which the bridge stands where it would.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sandbox_protocol::frame::{self, Kind, Request};
use serde_json::{Value, json};
use testkit::{Namespace, Process, Run, Signal, World};
pub(crate) use testkit::{PATIENCE, until};

/// A program of the host's. The container has none of this name.
const PIPO: &str = include_str!("pipo.sh");

pub(crate) struct Stage {
    pub world: World,
    broker: Option<Process>,
    list: Value,
    deployment: bool,
}

impl Stage {
    /// A broker whose session may ask for `pipo` and some git commands.
    pub(crate) fn new() -> Self {
        Self::with(&json!({}))
    }

    /// The same with other keys in its list.
    pub(crate) fn with(keys: &Value) -> Self {
        Self::build(keys, None)
    }

    /// The same on a host that has a list of its own.
    pub(crate) fn under(keys: &Value, deployment: &str) -> Self {
        Self::build(keys, Some(deployment))
    }

    fn build(keys: &Value, deployment: Option<&str>) -> Self {
        let world = World::new()
            .exec_file("bin/pipo", PIPO)
            .dir("session/bridge")
            .dir("session/broker")
            .dir("state")
            .dir("work/sub")
            .file("work/file", "shared\n")
            .file("secret", "the host's\n");
        if let Some(text) = deployment {
            world.write("deployment.toml", text);
        }
        let mut list = json!({
            "allowed": ["pipo", "git status", "git log", "git diff"],
            "mounts": [{ "container": world.path("container/workspace"), "host": world.path("work") }],
            "path": [world.path("bin"), "/usr/bin", "/bin"],
        });
        for (key, value) in keys.as_object().unwrap() {
            list[key] = value.clone();
        }
        let mut stage = Self {
            world: world.dir("container/workspace"),
            broker: None,
            list,
            deployment: deployment.is_some(),
        };
        stage.write();
        stage.start();
        stage
    }

    /// What `up` would write.
    fn write(&self) {
        self.world.write("session/broker/list.json", self.list.to_string());
        let entries = self.list["allowed"].as_array().unwrap();
        let text = |entry: &Value| entry.as_str().or(entry["cmd"].as_str()).unwrap().to_owned();
        let commands: Vec<Vec<String>> = entries
            .iter()
            .map(|entry| text(entry).split(' ').map(str::to_owned).collect())
            .collect();
        let routes = json!({ "way": { "unix": { "socket": "/run/agent-sandbox/bridge/socket" } }, "commands": commands });
        self.world.write("session/bridge/routes.json", routes.to_string());
    }

    pub(crate) fn start(&mut self) {
        self.start_by(&[]);
    }

    /// Starts another broker at the same socket, and returns the first one.
    pub(crate) fn hand_over(&mut self) -> Process {
        let first = self.broker.take().unwrap();
        self.start();
        first
    }

    /// Starts the broker through another program.
    pub(crate) fn start_by(&mut self, starter: &[&str]) {
        let path = |name: &str| self.world.path(name).into_os_string();
        // A machine that runs the tests may have a list of its own.
        let list = if self.deployment { "deployment.toml" } else { "no-such-list.toml" };
        let words = [
            "host-command".into(),
            "serve".into(),
            "--listen".into(),
            path("session/bridge/socket"),
            "--session-list".into(),
            path("session/broker/list.json"),
            "--state".into(),
            path("state"),
            "--list".into(),
            path(list),
        ];
        let starter = starter.iter().map(std::ffi::OsString::from);
        let binary = self.world.binary().as_os_str().to_owned();
        let broker = self.world.start(starter.chain([binary]).chain(words));
        broker.wait_for_message("listening on");
        self.broker = Some(broker);
    }

    pub(crate) fn broker(&self) -> &Process {
        self.broker.as_ref().unwrap()
    }

    /// Ends the broker by a signal, and waits for its end.
    pub(crate) fn stop(&mut self, signal: Signal) {
        let broker = self.broker.take().unwrap();
        broker.signal(signal);
        broker.wait();
    }

    /// The container's view: shims for these names, the shared directory, the bridge, and nothing else of the host's `/run`.
    pub(crate) fn container(&self, names: &[&str]) -> World {
        let (binary, root) = (self.world.binary().display(), self.world.path(""));
        let names = names.join(" ");
        let script = format!(
            "mount -t tmpfs tmpfs /run
            mkdir -p /run/agent-sandbox/bridge/bin
            touch /run/agent-sandbox/agent-sandbox /run/agent-sandbox/bridge/socket /run/agent-sandbox/bridge/routes.json
            mount -o bind {binary} /run/agent-sandbox/agent-sandbox
            for name in {names}; do ln -s ../../agent-sandbox /run/agent-sandbox/bridge/bin/$name; done
            cd {root}
            mount -o bind session/bridge/socket /run/agent-sandbox/bridge/socket
            mount -o bind session/bridge/routes.json /run/agent-sandbox/bridge/routes.json
            mount -o bind work container/workspace",
            root = root.display(),
        );
        let namespace = Namespace::new(&self.world, &script);
        let world = self.world.clone().within(namespace).cwd("container/workspace");
        world.env("PATH", "/run/agent-sandbox/bridge/bin:/usr/local/bin:/usr/bin:/bin")
    }

    /// Asks as a client of the attacker's own would, who needs no shim.
    pub(crate) fn ask(&self, argv: &[&str]) -> Answer {
        self.ask_in(argv, self.world.path("container/workspace"))
    }

    pub(crate) fn ask_in(&self, argv: &[&str], cwd: impl Into<PathBuf>) -> Answer {
        let mut socket = self.request(argv, cwd);
        // One that was refused is not listened to any more.
        let _ = frame::write(&mut socket, Kind::InputEnd, &[]);
        Answer::read(socket)
    }

    /// Asks, and leaves the rest to the test.
    pub(crate) fn request(&self, argv: &[&str], cwd: impl Into<PathBuf>) -> UnixStream {
        let mut socket = self.connect();
        let request = Request { cwd: cwd.into(), argv: argv.iter().map(Into::into).collect() };
        // A broker that has too much to do hangs up before it listens, and says why.
        let _ = frame::write(&mut socket, Kind::Request, &request.encode());
        socket
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.world.path("session/bridge/socket")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// The audit log, once it has this many lines.
    pub(crate) fn audit(&self, lines: usize) -> Vec<Value> {
        until("the audit log has its lines", || {
            let text =
                std::fs::read_to_string(self.world.path("state/audit.jsonl")).unwrap_or_default();
            let parsed: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (parsed.len() >= lines).then_some(parsed)
        })
    }

    /// The number that a command wrote into a file, once it has.
    pub(crate) fn pid_in(&self, path: &str) -> i32 {
        until("a process has written its number", || {
            std::fs::read_to_string(self.world.path(path)).ok()?.trim().parse().ok()
        })
    }
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub out: String,
    pub err: String,
    pub code: Option<u8>,
}

impl Answer {
    pub(crate) fn read(mut socket: impl Read) -> Self {
        let (mut out, mut err, mut answer) = (Vec::new(), Vec::new(), Self::default());
        while let Ok(Some(frame)) = frame::read(&mut socket) {
            match frame.kind {
                Kind::Output => out.extend(frame.body),
                Kind::Error => err.extend(frame.body),
                Kind::Exit => answer.code = frame.body.first().copied(),
                _ => {}
            }
        }
        answer.out = String::from_utf8_lossy(&out).into_owned();
        answer.err = String::from_utf8_lossy(&err).into_owned();
        answer
    }

    /// It was refused, and this is why.
    #[track_caller]
    pub(crate) fn denied(&self, name: &str, why: &str) {
        assert!(self.err.starts_with(&format!("denied: {name}\n")), "{self:?}");
        assert!(self.err.contains(why) && self.code == Some(1) && self.out.is_empty(), "{self:?}");
    }

    /// It ran and ended well, with this output.
    #[track_caller]
    pub(crate) fn gave(&self, out: &str) {
        assert!(self.code == Some(0) && self.out == out, "{self:?}");
    }
}

/// The same of a run through a shim.
#[track_caller]
pub(crate) fn denied(run: Run, name: &str, why: &str) {
    let run = run.code(1).stdout("").stderr_contains(why);
    assert!(run.messages().starts_with(&format!("denied: {name}\n")), "{run}");
}

pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until a process is gone.
#[track_caller]
pub(crate) fn ends(pid: i32) {
    until("the process is gone", || (!runs(pid)).then_some(()));
}

/// Writes, whether or not somebody still reads.
pub(crate) fn try_write(mut to: impl Write, bytes: &[u8]) {
    let _ = to.write_all(bytes);
}
