//! The API: how many requests it answers, and what it and a hundred sessions weigh.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::Ground;
use crate::BenchError;

const SESSIONS: usize = 100;
/// How long each kind of request is sent for.
const SPAN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the measurement.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures and prints.
pub(super) fn run(ground: &Ground) -> Result<(), BenchError> {
    let socket = ground.world.path("home/.local/share/agent-sandbox/api.sock");
    let server = Server(ground.ours("local", ["serve"]).ready()?.command.spawn()?);
    let began = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Fails("serve".into(), "it does not listen".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let alone = weight(server.0.id(), "VmRSS:");
    let filled = fill(ground, &socket);
    let measured = filled.and_then(|()| measure(ground, &socket, &server, alone));
    ground.ours("local", ["down", "--all"]).works()?;
    measured
}

fn fill(ground: &Ground, socket: &Path) -> Result<(), BenchError> {
    let mut client = Client::new(socket)?;
    for number in 0..SESSIONS {
        let (cwd, name) = (ground.world.path("local"), format!("s{number}"));
        let body = serde_json::json!({ "name": name, "cwd": cwd, "network": "none" }).to_string();
        let status = client.call("POST", "/v1/sessions", &body)?;
        if status != 201 {
            return Err(BenchError::Fails("create".into(), format!("status {status}")));
        }
    }
    Ok(())
}

fn measure(ground: &Ground, socket: &Path, server: &Server, alone: f64) -> Result<(), BenchError> {
    println!("\nthe API with {SESSIONS} sessions, one connection, requests in a second");
    for path in ["/v1/health", "/v1/sessions/s50", "/v1/sessions"] {
        println!("{path:44} {:8.0}", rate(socket, path)?);
    }
    let now = weight(server.0.id(), "VmRSS:");
    println!("\n{:44} {now:8.0} kB, {alone:.0} before the first session", "the server");
    let home = ground.world.path("home").display().to_string();
    let (count, weight) = beside(&home, server.0.id())?;
    let (count, weight) = (count / to_f64(SESSIONS), weight / to_f64(SESSIONS));
    println!("{:44} {weight:8.0} kB in {count:.0} processes, shared pages divided", "each session");
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
            return Err(BenchError::Fails(path.into(), "it is not answered".into()));
        }
        count += 1;
    }
    Ok(to_f64(count) / began.elapsed().as_secs_f64())
}

/// How many processes the sessions of a home have, and what they weigh, without this one.
fn beside(home: &str, except: u32) -> Result<(f64, f64), BenchError> {
    let (mut count, mut sum) = (0.0, 0.0);
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment);
        if let Some(pid) = pid.filter(|pid| *pid != except && text.contains(home)) {
            count += 1.0;
            sum += weight(pid, "Pss:").max(0.0);
        }
    }
    Ok((count, sum))
}

/// In kB; nothing of a process that has just ended.
fn weight(pid: u32, field: &str) -> f64 {
    let file = if field == "Pss:" { "smaps_rollup" } else { "status" };
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// A connection that stays open.
struct Client(BufReader<UnixStream>);

impl Client {
    fn new(socket: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// The status of one call.
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
