//! First request to an engine: its API version, its kind, and its user.
//!
//! For `version` and `info` the engine starts other programs. `_ping` is cheap, and its response headers contain
//! everything.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion};

/// Time limit for the first response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a response.
const LONGEST: u64 = 256 << 10;

/// Result of the first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Major and minor API version that both sides support.
    pub(super) version: (usize, usize),
    /// Version of the libpod API, if the engine is Podman.
    pub(super) podman: Option<String>,
    /// True if the process at the socket runs as root.
    pub(super) by_root: bool,
    /// Pid of that process.
    pub(super) pid: i32,
}

impl Greeting {
    /// Sends the request.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let owner = rustix::net::sockopt::socket_peercred(&stream)?;
        let answer = get(stream, "/_ping")?;
        read(&answer, owner.uid.is_root(), owner.pid.as_raw_pid())
    }

    /// Queries Podman's properties over the libpod API.
    pub(super) fn podman(&self, socket: &Path) -> io::Result<serde_json::Value> {
        let version = self.podman.as_deref().unwrap_or_default();
        let answer = get(UnixStream::connect(socket)?, &format!("/v{version}/libpod/info"))?;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Ok(serde_json::from_str(body)?)
    }

    /// Returns the API version for the client library.
    pub(super) fn client_version(&self) -> ClientVersion {
        let (major_version, minor_version) = self.version;
        ClientVersion { major_version, minor_version }
    }
}

/// Requests a path with HTTP/1.0, so that the end of the connection ends the response.
fn get(mut stream: UnixStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn read(answer: &str, by_root: bool, pid: i32) -> io::Result<Greeting> {
    let header = |name: &str| {
        let mut lines = answer.lines().take_while(|line| !line.is_empty());
        lines.find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let version = header("api-version").and_then(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let Some(version) = version else {
        let first = answer.lines().next().unwrap_or("nothing");
        return Err(io::Error::other(format!("unexpected response: {first}")));
    };
    let ours = (API_DEFAULT_VERSION.major_version, API_DEFAULT_VERSION.minor_version);
    let podman = header("libpod-api-version").map(str::to_owned);
    Ok(Greeting { version: ours.min(version), podman, by_root, pid })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn read_negotiates_the_older_version_and_detects_podman() {
        let docker = "HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10.24\r\n\r\nOK";
        let podman = "HTTP/1.0 200 OK\r\nLibpod-Api-Version: 4.3.1\r\napi-version: 9.99\r\n\r\nOK";
        let (docker, podman) = (read(docker, false, 7).unwrap(), read(podman, true, 7).unwrap());
        assert_eq!((docker.version, docker.podman, docker.by_root), ((1, 41), None, false));
        assert!(podman.version < (9, 99) && podman.by_root);
        assert_eq!(podman.podman.as_deref(), Some("4.3.1"));
        for wrong in [
            "",
            "HTTP/1.0 404 Not Found\r\n\r\n",
            "SSH-2.0",
            "HTTP/1.0 200 OK\r\nApi-Version: x\r\n\r\n",
        ] {
            assert!(read(wrong, false, 7).is_err(), "{wrong}");
        }
    }
}
