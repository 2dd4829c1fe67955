//! A project, a home directory, and a session that is removed with the test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{chown, symlink};
use std::sync::{Arc, Mutex};

use testkit::{Docker, Run, User, World, user};

/// Name of every session here: each test has its own home directory.
pub(super) const NAME: &str = "box";
/// The real key, which no agent ever sees.
pub(super) const KEY: &str = "sk-real-0123456789abcdef";

pub(super) struct Stage {
    pub(super) docker: Docker,
    pub(super) world: World,
}

impl Stage {
    /// Creates a project that belongs to the usual agent, with this configuration and the smallest image.
    #[track_caller]
    pub(super) fn new(config: &str) -> Self {
        let docker = Docker::new();
        let image = docker.busybox();
        Self::on(docker, image, config)
    }

    /// Creates it on another daemon.
    #[track_caller]
    pub(super) fn on(docker: Docker, image: &str, config: &str) -> Self {
        let text = format!("image = '{image}'\n{config}\n");
        let world = docker.world().clone().file("project/sandbox.toml", text);
        if user() == User::Root {
            chown(world.path("project"), Some(1000), Some(1000)).unwrap();
        }
        Self { docker, world }
    }

    /// Creates it, and starts the session.
    #[track_caller]
    pub(super) fn up(config: &str) -> Self {
        let stage = Self::new(config);
        stage.bring_up().succeeds();
        stage
    }

    /// Creates the session on another host.
    pub(super) fn moved_to(mut self, host: World) -> Self {
        self.world = host;
        self
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.world = self.world.clone().env(name, value);
        self
    }

    pub(super) fn configure(&self, config: &str) {
        let text = format!("image = '{}'\n{config}\n", self.docker.busybox());
        self.world.write("project/sandbox.toml", text);
    }

    #[track_caller]
    pub(super) fn bring_up(&self) -> Run {
        self.world.run(["--trust", "up", "--name", NAME, "--recreate"])
    }

    #[track_caller]
    pub(super) fn down(&self) -> Run {
        self.world.run(["down", NAME])
    }

    /// Runs a script in the session.
    #[track_caller]
    pub(super) fn sh(&self, script: &str) -> Run {
        self.world.run(["exec", "-s", NAME, "sh", "-c", script])
    }

    /// Returns the containers of this world, by the label of its data directory.
    pub(super) fn containers(&self) -> Vec<String> {
        let Some(id) = self.id() else { return Vec::new() };
        let label = format!("label=agent-sandbox.session={id}");
        let run = self.docker.run(["ps", "--all", "--quiet", "--filter", &label]).succeeds();
        run.output().lines().map(str::to_owned).collect()
    }

    /// Returns the session's id, if it is recorded.
    pub(super) fn id(&self) -> Option<String> {
        let run = self.world.run(["inspect", NAME]);
        let text = run.output();
        let line = text.lines().find_map(|line| line.strip_prefix("id"))?;
        Some(line.trim().to_owned())
    }

    pub(super) fn container(&self) -> String {
        format!("agent-sandbox-{}", self.id().unwrap())
    }

    /// Replaces a mounted directory by a link while the container is stopped. The container must not start again.
    #[track_caller]
    pub(super) fn refuses_swapped(&self, directory: &str, target: &str) {
        let container = self.container();
        self.docker.run(["stop", "--time", "1", &container]).succeeds();
        fs::rename(self.world.path(directory), self.world.path("moved")).unwrap();
        symlink(target, self.world.path(directory)).unwrap();
        self.docker.run(["start", &container]);
        self.docker.run(["wait", &container]);
        self.docker
            .run(["logs", &container])
            .stderr_contains("not the one that the session was created with");
        self.docker.run(["stop", "--time", "1", &container]).succeeds();
    }

    /// Asks the provider from the session, which must receive the real key.
    #[track_caller]
    pub(super) fn asks_with_the_real_key(&self, provider: &Provider) {
        let before = provider.shown().len();
        self.sh(
            "wget -q -O - --header \"x-api-key: $ANTHROPIC_API_KEY\" $ANTHROPIC_BASE_URL/v1/models",
        )
        .succeeds()
        .stdout("answer\n");
        assert_eq!(provider.shown()[before..], [KEY]);
    }

    /// Returns the engine's report about the container.
    #[track_caller]
    pub(super) fn inspect(&self, format: &str) -> String {
        let run = self.docker.run(["inspect", "--format", format, &self.container()]).succeeds();
        run.output().trim().to_owned()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let run = self.world.run(["rm", "--yes", NAME]);
        if !std::thread::panicking() && self.id().is_some() {
            run.succeeds();
        }
        let left = fs::read_dir(self.world.path("home/.local/share/agent-sandbox/boxes"));
        assert!(std::thread::panicking() || left.into_iter().flatten().next().is_none());
    }
}

/// Provider on loopback that records the keys that it receives.
pub(super) struct Provider {
    pub(super) address: String,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(super) fn new() -> Self {
        Self::at("127.0.0.1:0")
    }

    pub(super) fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shown = Arc::<Mutex<Vec<String>>>::default();
        let keys = shown.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keys = keys.clone();
                std::thread::spawn(move || answer(&stream, &keys));
            }
        });
        Self { address, shown }
    }

    /// Returns the received keys, with `none` for a request without one.
    pub(super) fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }
}

fn answer(mut stream: &TcpStream, keys: &Mutex<Vec<String>>) {
    let mut key = String::from("none");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(value) = line.to_lowercase().strip_prefix("x-api-key: ") {
            value.clone_into(&mut key);
        }
        if line.is_empty() {
            break;
        }
    }
    keys.lock().unwrap().push(key);
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nanswer\n";
    let _ = stream.write_all(answer.as_bytes());
}
