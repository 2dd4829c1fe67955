//! A host with a broker, and a container's view of it: a mount namespace with the bridge at its usual path.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sandbox_protocol::frame::{self, Kind, Request};
use serde_json::{Value, json};
use testkit::{Namespace, Process, Run, Signal, World};
pub(crate) use testkit::{PATIENCE, until};

/// Program of the host. The container has none of this name.
const MYTOOL: &str = include_str!("mytool.sh");

pub(crate) struct Stage {
    pub world: World,
    broker: Option<Process>,
    list: Value,
    deployment: bool,
}

impl Stage {
    /// Starts a broker whose session may run `mytool` and some git commands.
    pub(crate) fn new() -> Self {
        Self::with(&json!({}))
    }

    /// Starts a broker with other keys in its list.
    pub(crate) fn with(keys: &Value) -> Self {
        Self::build(keys, None)
    }

    /// Starts a broker on a host that has a list.
    pub(crate) fn under(keys: &Value, deployment: &str) -> Self {
        Self::build(keys, Some(deployment))
    }

    fn build(keys: &Value, deployment: Option<&str>) -> Self {
        let world = World::new()
            .exec_file("bin/mytool", MYTOOL)
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
            "allowed": ["mytool", "git status", "git log", "git diff"],
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

    /// Writes the files that `up` would write.
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

    /// Starts another broker on the same socket, and returns the first one.
    pub(crate) fn hand_over(&mut self) -> Process {
        let first = self.broker.take().unwrap();
        self.start();
        first
    }

    /// Starts the broker through another program.
    pub(crate) fn start_by(&mut self, starter: &[&str]) {
        let path = |name: &str| self.world.path(name).into_os_string();
        // The machine that runs the tests may have a list.
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

    /// Ends the broker by a signal, and waits until it has exited.
    pub(crate) fn stop(&mut self, signal: Signal) {
        let broker = self.broker.take().unwrap();
        broker.signal(signal);
        broker.wait();
    }

    /// Returns the container's view: shims for these names, the shared directory, the bridge, nothing else of `/run`.
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

    /// Sends a request as an attacker's own client would, without a shim.
    pub(crate) fn ask(&self, argv: &[&str]) -> Answer {
        self.ask_in(argv, self.world.path("container/workspace"))
    }

    pub(crate) fn ask_in(&self, argv: &[&str], cwd: impl Into<PathBuf>) -> Answer {
        let mut socket = self.request(argv, cwd);
        // The broker no longer reads from a client that it refused.
        let _ = frame::write(&mut socket, Kind::InputEnd, &[]);
        Answer::read(socket)
    }

    /// Sends a request, and leaves the rest to the test.
    pub(crate) fn request(&self, argv: &[&str], cwd: impl Into<PathBuf>) -> UnixStream {
        let mut socket = self.connect();
        let request = Request { cwd: cwd.into(), argv: argv.iter().map(Into::into).collect() };
        // An overloaded broker sends the reason and hangs up before it reads.
        let _ = frame::write(&mut socket, Kind::Request, &request.encode());
        socket
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.world.path("session/bridge/socket")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Returns the audit log, once it has this many lines.
    pub(crate) fn audit(&self, lines: usize) -> Vec<Value> {
        until("the audit log has its lines", || {
            let text =
                std::fs::read_to_string(self.world.path("state/audit.jsonl")).unwrap_or_default();
            let parsed: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (parsed.len() >= lines).then_some(parsed)
        })
    }

    /// Returns the number that a command writes into a file, once it is there.
    pub(crate) fn pid_in(&self, path: &str) -> i32 {
        until("a process has written its number", || {
            std::fs::read_to_string(self.world.path(path)).ok()?.trim().parse().ok()
        })
    }
}

/// Result of a request.
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

    /// Asserts that the request was refused for this reason.
    #[track_caller]
    pub(crate) fn denied(&self, name: &str, why: &str) {
        assert!(self.err.starts_with(&format!("denied: {name}\n")), "{self:?}");
        assert!(self.err.contains(why) && self.code == Some(1) && self.out.is_empty(), "{self:?}");
    }

    /// Asserts that the command succeeded with this output.
    #[track_caller]
    pub(crate) fn gave(&self, out: &str) {
        assert!(self.code == Some(0) && self.out == out, "{self:?}");
    }
}

/// Converts the run of a shim.
#[track_caller]
pub(crate) fn denied(run: Run, name: &str, why: &str) {
    let run = run.code(1).stdout("").stderr_contains(why);
    assert!(run.messages().starts_with(&format!("denied: {name}\n")), "{run}");
}

pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until a process has exited.
#[track_caller]
pub(crate) fn ends(pid: i32) {
    until("the process is gone", || (!runs(pid)).then_some(()));
}

/// Writes, and ignores a closed connection.
pub(crate) fn try_write(mut to: impl Write, bytes: &[u8]) {
    let _ = to.write_all(bytes);
}
