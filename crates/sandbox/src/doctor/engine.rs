//! Container runtime of the engine, and whether container escapes are known for its version. It isolates containers as
//! much as the kernel does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Timeout for the engine's response.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of the response.
const MAX_RESPONSE: u64 = 1 << 20;

/// First versions, for each release line, that fix the container escapes found until the end of 2025: working directories
/// and mounts that lead through `/proc/self/fd`, and races with masked paths and consoles.
/// <https://github.com/opencontainers/runc/security/advisories>
const FIXED: [(u32, u32, u32); 2] = [(1, 2, 8), (1, 3, 3)];

/// Returns the version of runc that the engine behind a socket reports.
pub(super) fn runc(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.write_all(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE).read_to_end(&mut response).ok()?;
    let body = response.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let version: Value = serde_json::from_slice(&response[body..]).ok()?;
    let parts = version["Components"].as_array()?;
    let runc = parts.iter().find(|part| part["Name"] == "runc")?;
    runc["Version"].as_str().map(str::to_owned)
}

/// Returns true when a version is older than the fixed version of its release line.
pub(super) fn is_behind(version: &str) -> bool {
    let number = |part: &str| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().ok()
    };
    let parts: Vec<u32> = version.split('.').map_while(number).collect();
    let [major, minor, patch, ..] = parts[..] else { return false };
    let of_line = FIXED.iter().find(|fixed| (fixed.0, fixed.1) == (major, minor));
    let fixed = of_line.unwrap_or(&FIXED[0]);
    (major, minor, patch) < *fixed
}

#[cfg(test)]
mod tests {
    use super::is_behind;

    #[test]
    fn a_version_is_behind_when_its_line_has_a_fixed_one() {
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
