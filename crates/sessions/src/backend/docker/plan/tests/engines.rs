//! Plans of one configuration for different kinds of engines.

use sandbox_protocol::Hint;
use sandbox_protocol::layout::{PRIVATE_DIR, RUNTIME_DIR};

use super::*;

/// Returns a rootless engine of uid 4242, with subordinate uids from 100000.
fn rootless(podman: bool) -> EngineFacts {
    let users = vec![
        Range { inside: 0, outside: 4242, count: 1 },
        Range { inside: 1, outside: 100_000, count: 65536 },
    ];
    EngineFacts { rootless: true, podman, users, ..EngineFacts::default() }
}

#[test]
fn agent_is_the_caller_outside_on_every_engine() {
    let proxied = "secrets.anthropic = { mode = 'proxy', env_var = 'ANTHROPIC_API_KEY' }";
    let world = World::new(proxied);
    let image = Image { id: "sha256:1".into(), ..Image::default() };
    for (engine, user, userns, peer) in [
        (EngineFacts::default(), "4242:4343", None, 0),
        (EngineFacts { podman: true, ..EngineFacts::default() }, "4242:4343", None, 0),
        (rootless(true), "4242:4343", Some("keep-id"), 100_000),
        (rootless(false), "0:0", None, 100_000 + 65529 - 1),
    ] {
        let made = world.plan_with(&engine, &image).unwrap();
        assert_eq!((made.agent.user.as_str(), made.userns.as_deref()), (user, userns));
        assert_eq!(made.proxy.as_ref().map(|proxy| proxy.peer), Some(peer), "{engine:?}");
        // If the agent has uid 0, directories that it must not own belong to another uid than 0.
        let kept = user == "0:0";
        assert_eq!(made.env.contains_key("AGENT_KEEPER"), kept);
        for place in ["/run", PRIVATE_DIR] {
            let options = &made.tmpfs[Path::new(place)];
            assert_eq!(options.contains("uid=65529"), kept, "{place} {options}");
        }
        assert_eq!(made.tmpfs.contains_key(Path::new(RUNTIME_DIR)), kept);
    }
}

#[test]
fn rootless_engine_refuses_settings_that_it_does_not_support() {
    let image = Image { id: "sha256:1".into(), ..Image::default() };
    let few = vec![Range { inside: 0, outside: 4242, count: 1 }];
    let secret = "secrets.anthropic = { mode = 'proxy', env_var = 'ANTHROPIC_API_KEY' }";
    for (text, engine, said) in [
        (
            secret,
            EngineFacts { users: few.clone(), ..rootless(false) },
            "too few subordinate users",
        ),
        (secret, EngineFacts { users: few, ..rootless(true) }, "too few subordinate users"),
        ("services.dockerd = 'auto'", rootless(false), "services.dockerd"),
        ("workspace.path = 'https://h/r.git'", rootless(true), "workspace.path"),
        ("cow = true", rootless(true), "only rootful Docker"),
        ("cow = true", rootless(false), "only rootful Docker"),
        (
            "resources.pids = 9",
            EngineFacts { unlimited: vec!["memory", "pids"], ..rootless(false) },
            "cannot limit `pids`",
        ),
    ] {
        let error = World::new(text).plan_with(&engine, &image).unwrap_err();
        assert!(error.to_string().contains(said) && error.hint().is_some(), "{text}: {error}");
    }
    // Default limits that cannot be set are omitted, and listed as exceptions.
    let engine = EngineFacts { unlimited: vec!["memory", "pids", "cpus"], ..rootless(false) };
    let made = World::new("network = false").plan_with(&engine, &image).unwrap();
    assert_eq!((made.memory, made.pids), (0, 0));
    assert_eq!(
        made.exceptions
            .iter()
            .filter(|one| one.what.starts_with("no ") && one.what.ends_with(" limit"))
            .count(),
        2
    );
}

#[test]
fn host_commands_over_ssh_are_refused_with_a_layer() {
    let ssh = "host_commands = { enabled = true, transport = 'ssh', user = 'x', allowed = ['deploy'], host_key = 'accept-new' }\nnetwork = 'bridge'\n";
    assert!(World::new(ssh).plan().is_ok());
    let said = World::new(&format!("{ssh}cow = true")).said();
    assert!(said.contains("with a copy-on-write layer"), "{said}");
}
