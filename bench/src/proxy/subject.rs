//! Subjects: a direct connection, our proxy, and nginx.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::upstream::Upstream;
use crate::BenchError;

pub(super) const DIRECT: &str = "direct";
pub(super) const OURS: &str = "ours";
pub(super) const NGINX: &str = "nginx";

/// Endpoint that requests are sent to.
pub(crate) struct Subject {
    pub name: &'static str,
    pub address: SocketAddr,
    pub token: String,
    upstream: Upstream,
    process: Option<Process>,
}

/// Proxy process. Dropping it stops the process.
struct Process {
    child: Child,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the subjects that work here.
pub(super) fn available(upstream: &Upstream) -> Result<Vec<Subject>, BenchError> {
    let mut subjects = vec![
        Subject {
            name: DIRECT,
            address: upstream.address,
            token: token(),
            upstream: upstream.clone(),
            process: None,
        },
        ours(upstream)?,
    ];
    match nginx(upstream) {
        Ok(nginx) => subjects.push(nginx),
        Err(error) => println!("skipped: nginx: {error}"),
    }
    Ok(subjects)
}

fn token() -> String {
    format!("session-{}", "0123456789abcdef".repeat(4))
}

fn ours(upstream: &Upstream) -> Result<Subject, BenchError> {
    let binary = std::env::vars_os()
        .find(|(name, _)| name == "AGENT_SANDBOX_BIN")
        .ok_or(BenchError::NoBinary)?
        .1;
    let (address, folder) = (free_address()?, folder("ours")?);
    let mut command = Command::new(&binary);
    command
        .args(["proxy", "--listen", &address.to_string()])
        .env("HOME", &folder)
        .env("XDG_STATE_HOME", folder.join("state"));
    let process =
        start(command.env("XDG_RUNTIME_DIR", &folder), folder.clone(), address, "agent-sandbox")?;
    let session = json!({ "token": token(), "provider": "anthropic", "api_key": "sk-measured-key", "upstream_url": format!("http://{}", upstream.address), "limits": { "max_parallel": 4000 } });
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--unix-socket"])
        .arg(folder.join("agent-sandbox/proxy/admin"));
    curl.args(["--data", &session.to_string(), "http://proxy/v1/sessions"]).stdout(Stdio::null());
    let registered = curl.status().map_err(|error| BenchError::Start("curl".into(), error))?;
    if !registered.success() {
        return Err(BenchError::Fails(
            "the registration of a session".into(),
            registered.to_string(),
        ));
    }
    Ok(Subject {
        name: OURS,
        address,
        token: token(),
        upstream: upstream.clone(),
        process: Some(process),
    })
}

/// Starts nginx, tuned for speed and streaming: persistent connections and no buffering. It writes its access log, as
/// our proxy does.
fn nginx(upstream: &Upstream) -> Result<Subject, BenchError> {
    let (address, folder) = (free_address()?, folder("nginx")?);
    let (dir, server) = (folder.display(), upstream.address);
    let config = format!(
        "worker_processes auto; pid {dir}/pid; daemon off; error_log {dir}/error.log; events {{ worker_connections 4096; }}\n\
         http {{ access_log {dir}/access.log; client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;\n\
         uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; keepalive_requests 1000000000;\n\
         upstream model {{ server {server}; keepalive 256; keepalive_requests 1000000000; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_buffering off;\n\
         proxy_set_header Connection \"\"; proxy_set_header x-api-key sk-measured-key; }} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config)?;
    let mut command = Command::new("nginx");
    let process = start(command.arg("-c").arg(&file), folder, address, "nginx")?;
    Ok(Subject {
        name: NGINX,
        address,
        token: token(),
        upstream: upstream.clone(),
        process: Some(process),
    })
}

fn free_address() -> io::Result<SocketAddr> {
    std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn folder(name: &str) -> io::Result<PathBuf> {
    let folder =
        std::env::temp_dir().join(format!("agent-sandbox-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn start(
    command: &mut Command,
    folder: PathBuf,
    address: SocketAddr,
    name: &str,
) -> Result<Process, BenchError> {
    let failed = |error| BenchError::Start(name.to_owned(), error);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let process = Process { child, folder };
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(address).is_err() {
        if Instant::now() > deadline {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(process)
}

impl Subject {
    pub(super) fn is_proxy(&self) -> bool {
        self.process.is_some()
    }

    /// Returns the number of connections that the server has accepted.
    pub(super) fn opened(&self) -> usize {
        self.upstream.opened()
    }

    /// Returns the CPU time of the proxy's processes in seconds.
    pub(super) fn cpu(&self) -> f64 {
        const TICKS_PER_SECOND: f64 = 100.0;
        let ticks = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after = stat.rsplit(')').next().unwrap_or("");
            let numbers = after.split_ascii_whitespace().skip(11).take(2);
            numbers.filter_map(|number| number.parse::<f64>().ok()).sum::<f64>()
        };
        self.pids().into_iter().map(ticks).sum::<f64>() / TICKS_PER_SECOND
    }

    /// Returns the resident memory of the proxy's processes in MB.
    pub(super) fn memory(&self) -> f64 {
        let kilobytes = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find(|line| line.starts_with("VmRSS:"));
            line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        self.pids().into_iter().map(kilobytes).sum::<f64>() / 1024.0
    }

    fn pids(&self) -> Vec<u32> {
        let Some(process) = &self.process else { return Vec::new() };
        let first = process.child.id();
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"))
            .unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(first).chain(children).collect()
    }
}
