//! The shim in a container that reaches the host over SSH: with a readable key, and with a relay that holds it.

use serde_json::json;
use testkit::{Namespace, Process, World};

use crate::sshd::Sshd;
use crate::stage::denied;

/// View of the container. If there is a relay, its socket replaces the key.
fn container(sshd: &Sshd, way: &serde_json::Value) -> World {
    let routes = json!({ "way": way, "commands": [["mytool"], ["git", "status"]] });
    sshd.world.write("routes.json", routes.to_string());
    let (binary, root) = (sshd.world.binary().display(), sshd.world.path(""));
    let script = format!(
        "mount -t tmpfs tmpfs /run
        mkdir -p /run/agent-sandbox/bridge/bin {root}/workspace
        touch /run/agent-sandbox/agent-sandbox
        mount -o bind {binary} /run/agent-sandbox/agent-sandbox
        for name in mytool git; do ln -s ../../agent-sandbox /run/agent-sandbox/bridge/bin/$name; done
        cp {root}/routes.json /run/agent-sandbox/bridge/routes.json
        mount -t tmpfs tmpfs /mnt
        mkdir /mnt/workspace
        mount -o bind {root}/work /mnt/workspace",
        root = root.display(),
    );
    let namespace = Namespace::new(&sshd.bare, &script);
    let world = sshd.bare.clone().within(namespace).cwd("/mnt/workspace");
    world.env("PATH", "/run/agent-sandbox/bridge/bin:/usr/local/bin:/usr/bin:/bin")
}

fn ssh(sshd: &Sshd, known_hosts: &str, accept_new: bool) -> serde_json::Value {
    let user = user(sshd);
    json!({ "ssh": {
        "user": user, "host": "127.0.0.1", "port": sshd.port(), "key": sshd.world.path("key"),
        "known_hosts": sshd.world.path(known_hosts), "accept_new": accept_new,
    }})
}

fn user(sshd: &Sshd) -> String {
    sshd.bare.host(["id", "-un"]).succeeds().output().trim().to_owned()
}

fn list(world: &World) -> String {
    format!(
        "allowed = ['mytool', 'git status']\nmounts = [{{ container = '/mnt/workspace', host = '{}' }}]\npath = ['{}', '/usr/bin']",
        world.path("work").display(),
        world.path("bin").display()
    )
}

#[test]
fn the_agent_does_not_notice_ssh() {
    let sshd = Sshd::new("");
    sshd.world.write("list.toml", list(&sshd.world));
    let container = container(&sshd, &ssh(&sshd, "known_hosts", false));
    container
        .host(["mytool", "a b", "", "$(id)", "'", ";"])
        .succeeds()
        .stdout("<a b><><$(id)><'><;>\n");
    container.host(["mytool", "code", "9"]).code(9);
    container.host(["sh", "-c", "echo hello | mytool cat"]).succeeds().stdout("hello\n");
    container.host(["mytool", "both"]).stdout("to-out\n").stderr("to-err\n");
    let sub = container.clone().cwd("/mnt/workspace/sub");
    sub.host(["mytool", "pwd"])
        .succeeds()
        .stdout(&format!("{}\n", sshd.world.path("work/sub").display()));
    sub.host(["mytool", "read", "/mnt/workspace/file"]).succeeds().stdout("shared\n");
    denied(sub.host(["mytool", "read", "../../secret"]), "mytool", "leads out");
    container.host(["mytool", "a\nb"]).code(125).stderr_contains("cannot send this command by SSH");
}

#[test]
fn the_hosts_key_is_pinned() {
    let sshd = Sshd::new("");
    sshd.world.write("list.toml", list(&sshd.world));
    for (known, accept_new, works) in [
        ("wrong_hosts", false, false),
        ("wrong_hosts", true, false),
        ("no_hosts", false, false),
        ("no_hosts", true, true),
    ] {
        let run = container(&sshd, &ssh(&sshd, known, accept_new)).host(["mytool", "x"]);
        if works {
            run.succeeds().stdout("<x>\n");
        } else {
            run.code(255).stdout("");
        }
    }
}

fn relay(sshd: &Sshd) -> Process {
    let path = |name: &str| sshd.world.path(name).display().to_string();
    let target = format!("{}@127.0.0.1", user(sshd));
    let port = sshd.port().to_string();
    let words = [
        "host-command",
        "relay",
        "--listen",
        &path("relay"),
        "--key",
        &path("key"),
        "--known-hosts",
        &path("known_hosts"),
        "--port",
        &port,
        &target,
    ];
    let relay = sshd.world.spawn(words);
    relay.wait_for_message("listening on");
    relay
}

#[test]
fn a_relay_needs_no_key_in_the_agents_reach() {
    let sshd = Sshd::new("");
    sshd.world.write("list.toml", list(&sshd.world));
    let relay = relay(&sshd);
    let container = container(&sshd, &json!({ "unix": { "socket": sshd.world.path("relay") } }));
    container.host(["mytool", "a b", "$(id)"]).succeeds().stdout("<a b><$(id)>\n");
    container.host(["mytool", "code", "9"]).code(9);
    container.host(["sh", "-c", "echo hello | mytool cat"]).succeeds().stdout("hello\n");
    container.host(["mytool", "both"]).stdout("to-out\n").stderr("to-err\n");
    denied(container.host(["mytool", "read", "/etc/passwd"]), "mytool", "shares with the host");
    drop(relay);
    container.host(["mytool", "x"]).code(125);
}
