//! HTTP API: request rate, and memory of the server and of 100 sessions.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::Fixture;
use crate::BenchError;

const SESSIONS: usize = 100;
/// Duration of the load for each kind of request.
const SPAN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// Server process. Dropping it kills the process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the benchmark and prints the results.
pub(super) fn run(fixture: &Fixture) -> Result<(), BenchError> {
    let socket = fixture.world.path("home/.local/share/agent-sandbox/api.sock");
    let server = Server(fixture.ours("local", ["serve"]).ready()?.command.spawn()?);
    let began = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Fails("serve".into(), "the server does not listen".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let alone = memory(server.0.id(), "VmRSS:");
    let filled = fill(fixture, &socket);
    let measured = filled.and_then(|()| measure(fixture, &socket, &server, alone));
    fixture.ours("local", ["down", "--all"]).works()?;
    measured
}

fn fill(fixture: &Fixture, socket: &Path) -> Result<(), BenchError> {
    let mut client = Client::new(socket)?;
    for number in 0..SESSIONS {
        let (cwd, name) = (fixture.world.path("local"), format!("s{number}"));
        let body = serde_json::json!({ "name": name, "cwd": cwd, "network": "none" }).to_string();
        let status = client.call("POST", "/v1/sessions", &body)?;
        if status != 201 {
            return Err(BenchError::Fails("create".into(), format!("status {status}")));
        }
    }
    Ok(())
}

fn measure(
    fixture: &Fixture,
    socket: &Path,
    server: &Server,
    alone: f64,
) -> Result<(), BenchError> {
    println!("\nthe API with {SESSIONS} sessions, one connection, requests per second");
    for path in ["/v1/health", "/v1/sessions/s50", "/v1/sessions"] {
        println!("{path:44} {:8.0}", rate(socket, path)?);
    }
    let now = memory(server.0.id(), "VmRSS:");
    println!("\n{:44} {now:8.0} kB, {alone:.0} before the first session", "the server");
    let home = fixture.world.path("home").display().to_string();
    let (count, memory) = processes(&home, server.0.id())?;
    let (count, memory) = (count / to_f64(SESSIONS), memory / to_f64(SESSIONS));
    println!("{:44} {memory:8.0} kB (PSS) in {count:.0} processes", "each session");
    Ok(())
}

fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from)
}

fn rate(socket: &Path, path: &str) -> Result<f64, BenchError> {
    let mut client = Client::new(socket)?;
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < SPAN {
        if client.call("GET", path, "")? != 200 {
            return Err(BenchError::Fails(path.into(), "the status is not 200".into()));
        }
        count += 1;
    }
    Ok(to_f64(count) / began.elapsed().as_secs_f64())
}

/// Returns the number and the memory of the processes of a home's sessions, except one process.
fn processes(home: &str, except: u32) -> Result<(f64, f64), BenchError> {
    let (mut count, mut sum) = (0.0, 0.0);
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment);
        if let Some(pid) = pid.filter(|pid| *pid != except && text.contains(home)) {
            count += 1.0;
            sum += memory(pid, "Pss:").max(0.0);
        }
    }
    Ok((count, sum))
}

/// Returns a memory field of a process in kB, or 0 if it has just ended.
fn memory(pid: u32, field: &str) -> f64 {
    let file = if field == "Pss:" { "smaps_rollup" } else { "status" };
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// Client with a persistent connection.
struct Client(BufReader<UnixStream>);

impl Client {
    fn new(socket: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// Sends a request and returns the status.
    fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<u16> {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        self.0.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        self.0.read_exact(&mut vec![0; length])?;
        Ok(status)
    }
}
