//! Uid of PID 1 in rootless containers, where uid 0 maps to the invoking user. The agent runs as uid 0 without
//! capabilities, so that its files belong to that user. PID 1 moves to the uid in `AGENT_KEEPER`, so that the agent has
//! no access to it.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::CapabilitySets;
use sandbox_protocol::variable::AGENT_KEEPER;

use crate::environment::Environment;

/// Returns the uid of PID 1 if the agent runs as uid 0. Ignores the variable if uid 0 is root on the host, because an
/// agent must not run as root.
pub(crate) fn of(environment: &Environment) -> Option<u32> {
    let text = std::str::from_utf8(environment.set(AGENT_KEEPER)?).ok()?;
    let number = text.parse::<u32>().ok().filter(|number| !matches!(*number, 0 | u32::MAX))?;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    root_is_mapped(&map).then_some(number)
}

/// Returns true when uid 0 maps to another uid outside: `user_namespaces(7)`.
fn root_is_mapped(map: &str) -> bool {
    let mut ranges = map.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u32>);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    });
    ranges.any(|(inside, outside)| inside == 0 && outside != 0)
}

/// Switches to that uid, and keeps every capability that root had: capabilities(7), `SECBIT_KEEP_CAPS`.
pub(crate) fn switch_to(number: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[gid])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::set_keep_capabilities(false)?;
    // The capabilities are still permitted, but no longer effective.
    let now = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets { effective: now.permitted, ..now };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_counts_only_where_root_is_mapped() {
        for (map, expected) in [
            ("         0       1000          1\n         1     100000      65536\n", true),
            ("0 100000 65536\n", true),
            ("0 0 4294967295\n", false),
            ("0 0 1\n1 100000 65536\n", false),
            ("1000 1000 1\n", false),
            ("", false),
            ("x y z\n", false),
        ] {
            assert_eq!(root_is_mapped(map), expected, "{map:?}");
        }
        for wrong in ["0", "4294967295", "-1", "x", ""] {
            let environment = Environment::of([format!("{AGENT_KEEPER}={wrong}").into_bytes()]);
            assert_eq!(of(&environment), None, "{wrong}");
        }
    }
}
