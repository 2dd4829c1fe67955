//! A test proxy, and requests to it.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sandbox_proxy::token::Token;
use serde_json::{Value, json};
pub(crate) use testkit::{PATIENCE, until};
use testkit::{Process, Signal, World};

use crate::server::Server;
use crate::wire::{Answer, Connection};

/// Strings that a client must never receive.
pub(crate) const KEY: &str = "sk-real-0123456789-key";

/// Listeners beside the default one.
const SIDES: usize = 3;

/// A running proxy.
pub(crate) struct Stage {
    pub world: World,
    process: Option<Process>,
    pub address: SocketAddr,
    /// Other listeners, each with its connection limit.
    pub sides: Vec<SocketAddr>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_env(&[])
    }

    /// Starts a proxy with these environment variables.
    pub(crate) fn with_env(env: &[(&str, &str)]) -> Self {
        let mut world = World::unseen();
        let (runtime, state) = (world.path("run"), world.path("state"));
        world = world.dir("run").env("XDG_RUNTIME_DIR", &runtime).env("XDG_STATE_HOME", &state);
        for (name, value) in env {
            world = world.env(name, value);
        }
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut stage = Self { world, process: None, address: any, sides: vec![any; SIDES] };
        stage.start();
        stage
    }

    /// Starts the proxy, and waits until it is ready.
    pub(crate) fn start(&mut self) {
        self.start_by(&[]);
    }

    /// Starts the proxy through another program.
    pub(crate) fn start_by(&mut self, starter: &[&str]) {
        let binary = self.world.binary().display().to_string();
        let listeners: Vec<String> =
            [self.address].iter().chain(&self.sides).map(SocketAddr::to_string).collect();
        let listeners = listeners.iter().flat_map(|address| ["--listen", address]);
        let words = [binary.as_str(), "proxy"].into_iter().chain(listeners);
        let process = self.world.start(starter.iter().copied().chain(words));
        process.wait_for_message("admin socket at");
        self.process = Some(process);
        let health = self.admin("GET", "/v1/health", None).json();
        let listening = health["listening"].as_array().unwrap().iter();
        let mut all = listening.map(|address| address.as_str().unwrap().parse().unwrap());
        self.address = all.next().unwrap();
        self.sides = all.collect();
    }

    /// Ends the proxy by a signal, and waits until it has exited.
    pub(crate) fn stop(&mut self, signal: Signal) {
        let process = self.process.take().unwrap();
        process.signal(signal);
        process.wait();
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.as_ref().unwrap().pid().as_raw_pid()
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.world.path("run/agent-sandbox/proxy").join(name)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.world.path("state/agent-sandbox/proxy").join(name)
    }

    /// Sends a request to the admin API.
    pub(crate) fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut stream = UnixStream::connect(self.socket("admin")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map_or_else(String::new, Value::to_string);
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&bytes)
    }

    /// Registers a session with these terms, and returns its token.
    pub(crate) fn register(&self, terms: Value) -> String {
        let token = new_token();
        let answer = self.try_register(&token, terms);
        assert_eq!(answer.status, 201, "{}", answer.text());
        token
    }

    pub(crate) fn try_register(&self, token: &str, mut terms: Value) -> Answer {
        terms["token"] = json!(token);
        self.admin("POST", "/v1/sessions", Some(&terms))
    }

    /// Registers a session of the provider `anthropic` with the test's server.
    pub(crate) fn session(&self, server: &Server) -> String {
        self.register(
            json!({ "provider": "anthropic", "api_key": KEY, "upstream_url": server.url() }),
        )
    }

    /// Registers a session that may request any path.
    pub(crate) fn open_session(&self, server: &Server) -> String {
        self.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": server.url() }))
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    /// Sends one request on a new connection.
    pub(crate) fn send(&self, request: &str) -> Answer {
        let mut connection = self.connect();
        connection.write(request.as_bytes());
        connection.answer()
    }

    /// Returns a plain request with a token.
    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n"))
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: {length}\r\n\r\n{body}"))
    }

    /// Returns the audit log, once it has this many lines.
    pub(crate) fn audit(&self, lines: usize) -> Vec<Value> {
        until("the audit log has its lines", || {
            let text = std::fs::read_to_string(self.file("audit.jsonl")).unwrap();
            let parsed: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (parsed.len() >= lines).then_some(parsed)
        })
    }

    /// Returns a value of the Prometheus metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.admin("GET", "/metrics", None).text();
        let line =
            text.lines().find(|line| line.starts_with(&format!("agent_sandbox_proxy_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
    }

    /// Returns its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

pub(crate) fn new_token() -> String {
    Token::generate().unwrap().text().to_string()
}
