//! The runtime under the container engine, which is as much of the wall as the kernel: whether ways out of it are known.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// How long the engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer.
const LONGEST: u64 = 1 << 20;

/// Versions from which on the ways out that were found until the end of 2025 are closed, for each line of releases:
/// working directories and mounts that lead through `/proc/self/fd`, masked paths and consoles that are swapped.
/// <https://github.com/opencontainers/runc/security/advisories>
const FLOORS: [(u32, u32, u32); 2] = [(1, 2, 8), (1, 3, 3)];

/// The version of runc under the engine behind a socket, if it says so.
pub(super) fn runc(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).ok()?;
    let body = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let told: Value = serde_json::from_slice(&answer[body..]).ok()?;
    let parts = told["Components"].as_array()?;
    let runc = parts.iter().find(|part| part["Name"] == "runc")?;
    runc["Version"].as_str().map(str::to_owned)
}

/// Whether a version is older than the one that its line of releases should have.
pub(super) fn is_behind(version: &str) -> bool {
    let number = |part: &str| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().ok()
    };
    let parts: Vec<u32> = version.split('.').map_while(number).collect();
    let [major, minor, patch, ..] = parts[..] else { return false };
    let of_line = FLOORS.iter().find(|floor| (floor.0, floor.1) == (major, minor));
    let floor = of_line.unwrap_or(&FLOORS[0]);
    (major, minor, patch) < *floor
}

#[cfg(test)]
mod tests {
    use super::is_behind;

    #[test]
    fn a_version_is_behind_when_its_line_has_a_better_one() {
        for (version, behind) in [
            ("1.1.5+ds1", true),
            ("1.1.12", true),
            ("1.2.7", true),
            ("1.2.8", false),
            ("1.3.2", true),
            ("1.3.3", false),
            ("1.4.0-rc.3", false),
            ("2.0.0", false),
            ("unknown", false),
        ] {
            assert_eq!(is_behind(version), behind, "{version}");
        }
    }
}
