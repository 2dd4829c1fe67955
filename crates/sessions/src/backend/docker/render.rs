//! Translation of a plan to the engine's API. It is total and decides nothing.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, Mount, MountBindOptions, MountType, MountVolumeOptions, RestartPolicy,
    RestartPolicyNameEnum,
};
use sandbox_policy::config::Access;

use super::names;
use super::plan::{Bind, Container, Source};

/// Labels of a container.
pub(super) const SESSION: &str = "agent-sandbox.session";
pub(super) const POLICY: &str = "agent-sandbox.policy";
pub(super) const STATE: &str = "agent-sandbox.state";
/// Sysctl: the first port that unprivileged users can bind in the container's network namespace.
const LOW_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";
const OWNER: &str = "agent-sandbox.owner";

/// Values of a container's labels.
pub(super) struct Marks<'m> {
    pub(super) session: &'m str,
    pub(super) policy: &'m str,
    pub(super) state: &'m str,
    pub(super) owner: u32,
}

/// Differences between engines.
pub(super) struct Dialect {
    /// True when the engine makes mounts below a read-only mount read-only too.
    pub(super) deeply: bool,
    /// Seccomp filter: its JSON for Docker, or the path of a file with it for Podman.
    pub(super) seccomp: Option<String>,
}

/// Returns the request that creates a container. `secrets` are variables that no plan contains.
pub(super) fn body(
    plan: &Container,
    marks: &Marks<'_>,
    dir: &Path,
    secrets: &[(String, String)],
    dialect: &Dialect,
) -> ContainerCreateBody {
    let mut env: Vec<String> =
        plan.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    env.extend(secrets.iter().map(|(name, value)| format!("{name}={value}")));
    // A name without a value removes the image's variable.
    env.extend(plan.unset.iter().filter(|name| !plan.env.contains_key(*name)).cloned());
    ContainerCreateBody {
        hostname: Some("sandbox".into()),
        user: Some(plan.user.clone()),
        image: Some(plan.image.clone()),
        entrypoint: Some(plan.entrypoint.clone()),
        cmd: Some(Vec::new()),
        env: Some(env),
        working_dir: Some("/".into()),
        tty: Some(plan.terminal),
        open_stdin: Some(plan.terminal),
        labels: Some(labels(marks)),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..Default::default() }),
        stop_signal: Some("SIGTERM".into()),
        stop_timeout: Some(plan.stop_timeout.into()),
        host_config: Some(host_config(plan, marks, dir, dialect)),
        ..Default::default()
    }
}

pub(super) fn labels(marks: &Marks<'_>) -> HashMap<String, String> {
    [
        (SESSION, marks.session.to_owned()),
        (POLICY, marks.policy.to_owned()),
        (STATE, marks.state.to_owned()),
        (OWNER, marks.owner.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn host_config(plan: &Container, marks: &Marks<'_>, dir: &Path, dialect: &Dialect) -> HostConfig {
    let memory = i64::try_from(plan.memory).unwrap_or(i64::MAX);
    let tmpfs = plan.tmpfs.iter();
    let tmpfs = tmpfs.map(|(path, options)| (path.to_string_lossy().into_owned(), options.clone()));
    let restart = RestartPolicy {
        name: Some(RestartPolicyNameEnum::UNLESS_STOPPED),
        maximum_retry_count: None,
    };
    let log = HostConfigLogConfig {
        typ: Some("json-file".into()),
        config: Some(
            [("max-size", "10m"), ("max-file", "3")].map(|(k, v)| (k.into(), v.into())).into(),
        ),
    };
    HostConfig {
        network_mode: Some(plan.network.clone()),
        extra_hosts: Some(plan.hosts.clone()),
        mounts: Some(
            plan.mounts.iter().map(|bind| mount(bind, marks, dir, dialect.deeply)).collect(),
        ),
        tmpfs: Some(tmpfs.collect()),
        readonly_rootfs: Some(!plan.privileged),
        cap_drop: Some(vec!["ALL".into()]),
        cap_add: Some(plan.capabilities.clone()),
        security_opt: Some(security(plan, dialect)),
        privileged: Some(plan.privileged),
        devices: Some(plan.devices.iter().map(|device| mapping(device)).collect()),
        memory: limit(memory),
        // Memory plus swap. The default would be twice the memory limit.
        memory_swap: limit(memory),
        nano_cpus: plan.cpus.map(|cpus| i64::from(cpus) * 1_000_000),
        pids_limit: limit(plan.pids.into()),
        restart_policy: Some(restart),
        runtime: plan.runtime.clone(),
        userns_mode: plan.userns.clone(),
        ipc_mode: Some("private".into()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        publish_all_ports: Some(false),
        sysctls: plan.low_ports.then(|| HashMap::from([(LOW_PORTS.into(), "0".into())])),
        log_config: Some(log),
        ..Default::default()
    }
}

fn limit(most: i64) -> Option<i64> {
    Some(most).filter(|most| *most > 0)
}

fn security(plan: &Container, dialect: &Dialect) -> Vec<String> {
    let mut options = Vec::new();
    if !plan.new_privileges {
        options.push("no-new-privileges:true".to_owned());
    }
    if plan.capabilities.iter().any(|name| name == "SYS_ADMIN") {
        options.push("apparmor=unconfined".to_owned());
    }
    options.extend(dialect.seccomp.iter().map(|profile| format!("seccomp={profile}")));
    options
}

fn mapping(device: &str) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.to_owned()),
        path_in_container: Some(device.to_owned()),
        cgroup_permissions: Some("rwm".into()),
    }
}

/// Returns the request for a container that mounts a volume and runs no program.
pub(super) fn tidier(image: &str, volume: &str) -> ContainerCreateBody {
    let mount = Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.to_owned()),
        target: Some("/layer".into()),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..Default::default() }),
        ..Default::default()
    };
    ContainerCreateBody {
        user: Some("65534:65534".into()),
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/no/program/at/all".into()]),
        cmd: Some(Vec::new()),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            mounts: Some(vec![mount]),
            cap_drop: Some(vec!["ALL".into()]),
            security_opt: Some(vec!["no-new-privileges:true".into()]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Translates a mount to the structured form, in which no character of a path is special.
fn mount(bind: &Bind, marks: &Marks<'_>, dir: &Path, deeply: bool) -> Mount {
    let text = |path: &Path| Some(path.to_string_lossy().into_owned());
    let read_only = bind.access != Access::Rw;
    let mount =
        Mount { target: text(&bind.target), read_only: Some(read_only), ..Default::default() };
    let source = match &bind.source {
        Source::Host(path) => path.clone(),
        Source::Session(below) => dir.join(below),
        Source::Layer(number) => {
            // Do not copy files of the image into it.
            let options = MountVolumeOptions { no_copy: Some(true), ..Default::default() };
            return Mount {
                typ: Some(MountType::VOLUME),
                source: Some(names::volume(marks.session, *number)),
                volume_options: Some(options),
                ..mount
            };
        }
    };
    let options = MountBindOptions {
        // An engine that cannot make mounts below it read-only must not show them.
        non_recursive: (read_only && !deeply).then_some(true),
        read_only_force_recursive: (read_only && deeply).then_some(true),
        ..Default::default()
    };
    let typ = Some(MountType::BIND);
    Mount { typ, source: text(&source), bind_options: Some(options), ..mount }
}
