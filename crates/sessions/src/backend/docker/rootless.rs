//! Properties of rootless engines: their uid mapping, and the resources that they cannot limit.

use bollard::models::{SystemInfo, SystemInfoCgroupDriverEnum};
use serde_json::Value;

use super::plan::{EngineFacts, Range};

/// Sets the properties of rootless Docker, from its own report and its user namespace.
pub(super) fn docker(facts: &mut EngineFacts, info: &SystemInfo, pid: i32) {
    let mut options = info.security_options.iter().flatten();
    facts.rootless = options.any(|option| option.contains("name=rootless"));
    if !facts.rootless {
        return;
    }
    let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
    facts.users = ranges(&map);
    // Without cgroups, Docker reports support for limits, but does not set them.
    let none = info.cgroup_driver == Some(SystemInfoCgroupDriverEnum::NONE);
    let limits =
        [("memory", info.memory_limit), ("pids", info.pids_limit), ("cpus", info.cpu_cfs_quota)];
    let cannot = limits.into_iter().filter(|(_, can)| none || *can == Some(false));
    facts.unlimited = cannot.map(|(what, _)| what).collect();
}

/// Sets the properties of rootless Podman, from its libpod report.
pub(super) fn podman(facts: &mut EngineFacts, info: &Value) {
    let host = &info["host"];
    facts.rootless = host["security"]["rootless"] == true;
    if !facts.rootless {
        return;
    }
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let range = |value: &Value| {
        Some(Range {
            inside: number(&value["container_id"])?,
            outside: number(&value["host_id"])?,
            count: number(&value["size"])?,
        })
    };
    let map = host["idMappings"]["uidmap"].as_array();
    facts.users = map.into_iter().flatten().filter_map(range).collect();
    let controllers = host["cgroupControllers"].as_array();
    let has = |name: &str| {
        host["cgroupVersion"] == "v2"
            && controllers.is_some_and(|all| all.iter().any(|one| *one == *name))
    };
    let limits = [("memory", "memory"), ("pids", "pids"), ("cpus", "cpu")];
    facts.unlimited =
        limits.into_iter().filter(|(_, name)| !has(name)).map(|(what, _)| what).collect();
}

/// Parses the lines of `/proc/PID/uid_map`, `user_namespaces(7)`.
fn ranges(map: &str) -> Vec<Range> {
    let range = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse().ok());
        Some(Range { inside: words.next()??, outside: words.next()??, count: words.next()?? })
    };
    map.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_contain_the_uid_mapping_and_the_missing_limits() {
        assert_eq!(
            ranges("         0       1001          1\n         1     100000      65536\n"),
            [
                Range { inside: 0, outside: 1001, count: 1 },
                Range { inside: 1, outside: 100_000, count: 65536 }
            ]
        );
        let info = |version: &str| {
            serde_json::json!({ "host": {
                "security": { "rootless": true }, "cgroupVersion": version, "cgroupControllers": ["memory", "pids"],
                "idMappings": { "uidmap": [{ "container_id": 1, "host_id": 7, "size": 9 }, { "size": -1 }] },
            } })
        };
        for (version, unlimited) in [("v1", vec!["memory", "pids", "cpus"]), ("v2", vec!["cpus"])] {
            let mut facts = EngineFacts::default();
            podman(&mut facts, &info(version));
            assert_eq!((facts.rootless, facts.unlimited), (true, unlimited));
            assert_eq!(facts.users, [Range { inside: 1, outside: 7, count: 9 }]);
        }
    }
}
