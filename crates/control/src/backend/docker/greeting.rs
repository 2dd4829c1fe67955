//! The first word with an engine: which version it speaks, what it is, and who runs it.
//!
//! Its own questions for that, `version` and `info`, make it start other programs to find out about them. This one
//! costs nothing, and its answer has everything in its headers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, ClientVersion};

/// How long an engine may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer.
const LONGEST: u64 = 16 << 10;

/// What an engine says, and what is seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Major and minor version of what both sides speak.
    pub(super) version: (usize, usize),
    /// Whether it is Podman.
    pub(super) podman: bool,
    /// Whether root answers.
    pub(super) by_root: bool,
}

impl Greeting {
    /// Asks an engine.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let owner = rustix::net::sockopt::socket_peercred(&stream)?.uid;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(LONGEST).read_to_end(&mut answer)?;
        read(&String::from_utf8_lossy(&answer), owner.is_root())
    }

    /// The same for the library that speaks to it.
    pub(super) fn client_version(&self) -> ClientVersion {
        let (major_version, minor_version) = self.version;
        ClientVersion { major_version, minor_version }
    }
}

fn read(answer: &str, by_root: bool) -> io::Result<Greeting> {
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
        return Err(io::Error::other(format!("it does not answer as an engine does: {first}")));
    };
    let ours = (API_DEFAULT_VERSION.major_version, API_DEFAULT_VERSION.minor_version);
    let podman = header("libpod-api-version").is_some();
    Ok(Greeting { version: ours.min(version), podman, by_root })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_older_version_is_spoken_and_podman_is_known() {
        let docker = "HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10.24\r\n\r\nOK";
        let podman = "HTTP/1.0 200 OK\r\nLibpod-Api-Version: 4.3.1\r\napi-version: 9.99\r\n\r\nOK";
        let (docker, podman) = (read(docker, false).unwrap(), read(podman, true).unwrap());
        assert_eq!((docker.version, docker.podman, docker.by_root), ((1, 41), false, false));
        assert!(podman.version < (9, 99) && podman.podman && podman.by_root);
        for wrong in [
            "",
            "HTTP/1.0 404 Not Found\r\n\r\n",
            "SSH-2.0",
            "HTTP/1.0 200 OK\r\nApi-Version: x\r\n\r\n",
        ] {
            assert!(read(wrong, false).is_err(), "{wrong}");
        }
    }
}
