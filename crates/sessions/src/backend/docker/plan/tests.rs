//! Tests of the container that a configuration describes.

mod engines;
mod layers;

use std::fs;
use std::os::unix::fs::symlink;

use sandbox_policy::config::{Access, ConfigError, Request, load};
use sandbox_protocol::Hint;
use sandbox_protocol::layout::PRIVATE_DIR;

use super::*;

/// Home with a project, and a configuration.
struct World {
    root: tempfile::TempDir,
    host: Host,
}

impl World {
    fn new(text: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        for dir in ["home/project/src", "home/data", "elsewhere"] {
            fs::create_dir_all(at.join(dir)).unwrap();
        }
        fs::write(at.join("sandbox.toml"), text.replace("ROOT", at.to_str().unwrap())).unwrap();
        let host = Host {
            cwd: Some(at.join("home/project")),
            home: Some(at.join("home")),
            env: [("GIVEN".into(), "callers".into())].into(),
            uid: 4242,
            gid: 4343,
            ..Host::read()
        };
        Self { root, host }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn load(&self) -> Result<Config, ConfigError> {
        let request = Request { config: Some(self.path("sandbox.toml")), ..Request::default() };
        load(&self.host, &request)
    }

    fn config(&self) -> Config {
        self.load().unwrap()
    }

    fn plan_with(&self, engine: &EngineFacts, image: &Image) -> Result<Container, ContainerError> {
        let binaries = Binaries {
            sandbox: Some("/opt/agent-sandbox".into()),
            init: Some("/opt/agent-sandbox-init".into()),
        };
        let dir = self.path("session");
        let session = SessionPaths { id: "s1", dir: &dir, binaries: &binaries };
        container(&self.host, &self.config(), &session, engine, image)
    }

    fn plan(&self) -> Result<Container, ContainerError> {
        self.plan_with(
            &EngineFacts::default(),
            &Image { id: "sha256:1".into(), ..Image::default() },
        )
    }

    fn said(&self) -> String {
        let (text, hint) = match self.load() {
            Err(error) => (error.to_string(), error.hint()),
            Ok(_) => self.plan().map_err(|error| (error.to_string(), error.hint())).unwrap_err(),
        };
        assert!(hint.is_some(), "{text}");
        text.replace(self.path("").to_str().unwrap(), "/")
    }
}

fn at<'c>(container: &'c Container, target: &str) -> Option<&'c Bind> {
    container.mounts.iter().find(|bind| bind.target == Path::new(target))
}

#[test]
fn container_has_minimal_permissions_by_default() {
    let made = World::new("agent.command = 'true'").plan().unwrap();
    assert_eq!((made.network.as_str(), made.user.as_str()), ("none", "4242:4343"));
    assert_eq!((made.capabilities.len(), made.exceptions.len()), (0, 0));
    assert!(!made.privileged && !made.new_privileges && made.proxy.is_none());
    assert_eq!((made.memory, made.pids, made.stop_timeout), (8 << 30, 4096, 10));
    assert_eq!(made.entrypoint, ["/run/agent-sandbox/agent-sandbox-init", "entrypoint"]);
    assert!(
        made.tmpfs.contains_key(Path::new("/tmp")) && made.tmpfs.contains_key(Path::new("/run"))
    );
    assert!(!made.env.contains_key("GIVEN"), "no variable of the caller's environment");
    assert!(made.notes[0].contains("`/workspace`"), "{:?}", made.notes);
}

#[test]
fn pid_1_supervises_when_a_setting_needs_it() {
    for (text, start, why) in [
        ("agent.command = 'x'", Start::Exec, "nothing needs it"),
        ("agent.command = 'x'\nagent.init = 'supervise'", Start::Supervise, "asked for"),
        ("image = 'x'", Start::Supervise, "no agent to become"),
        (
            "agent.command = 'x'\nnetwork = { allowed_hosts = ['a.io'] }",
            Start::Supervise,
            "egress by name",
        ),
        (
            "agent.command = 'x'\n[secrets.a]\nmode = 'proxy'\nenv_var = 'A'\nprovider = 'openai'",
            Start::Supervise,
            "proxy",
        ),
        ("agent.command = 'x'\nworkspace.path = 'https://a.io/x'", Start::Supervise, "a clone"),
        ("agent.command = 'x'\nservices.dockerd = 'auto'", Start::Supervise, "a service"),
        ("agent.command = 'x'\nagent.user = 'node'", Start::Supervise, "a user of the image"),
    ] {
        let made = World::new(text).plan().unwrap();
        assert_eq!(made.agent.start, start, "{why}");
        let root = start == Start::Supervise;
        assert_eq!(made.user == "0:0", root, "{why}");
        assert_eq!(made.capabilities.is_empty(), !root, "{why}");
        assert!(made.exceptions.len() >= made.capabilities.len(), "each with a reason");
    }
    let text = "agent = { command = 'x', init = 'exec' }\nnetwork = { allowed_hosts = ['a.io'] }";
    assert!(World::new(text).said().contains("PID 1 opens the connection to the proxy"));
}

#[test]
fn network_is_the_requested_one_and_an_exception() {
    for (text, network, exceptions) in [
        ("network = 'none'", "none", 0),
        ("network = false", "none", 0),
        ("network = 'host'", "host", 1),
        ("network = true", "host", 1),
        ("network = 'bridge'", "bridge", 1),
        ("network = 'my-net'", "my-net", 1),
        ("network = { allowed_hosts = ['a.io'] }", "none", 0),
    ] {
        let made = World::new(&format!("{text}\nagent.init = 'supervise'")).plan().unwrap();
        assert_eq!(made.network, network, "{text}");
        let said = made.exceptions.iter().filter(|e| e.what.starts_with("network"));
        assert_eq!(said.count(), exceptions, "{text}");
    }
    for name in ["default", "container", "ns"] {
        let said = World::new(&format!("network = '{name}'")).said();
        assert!(said.contains("is not the name of a network"), "{said}");
    }
    let text = "network = 'host'\n[secrets.a]\nmode = 'proxy'\nenv_var = 'A'\nprovider = 'openai'";
    let made = World::new(text).plan().unwrap();
    assert!(made.proxy.is_some_and(|proxy| proxy.shared), "it shares the host's loopback");
}

#[test]
fn mounts_keep_special_characters_and_modes() {
    let world = World::new(
        "shared_dirs = { x = { host = 'a:b,c d', guest = '/x y:z,w' } }\nmounts = [{ host = 'ROOT/elsewhere', container = '/ref' }]",
    );
    fs::create_dir(world.path("a:b,c d")).unwrap();
    let made = world.plan().unwrap();
    let odd = at(&made, "/x y:z,w").unwrap();
    assert_eq!(odd.source, Source::Host(world.path("a:b,c d")));
    assert_eq!((odd.access, at(&made, "/ref").unwrap().access), (Access::Rw, Access::Ro));
    assert!(odd.identity.is_some(), "its identity is recorded");
    assert!(made.env["AGENT_MOUNTS"].contains("/x y:z,w"));
}

#[test]
fn mounts_are_refused_after_they_are_resolved() {
    for (host, why) in [
        ("/", "whole file system"),
        ("ROOT/home", "whole home"),
        ("ROOT", "whole home"),
        ("ROOT/home/.local/state/agent-sandbox", "data of agent-sandbox"),
        ("ROOT/home/.local/share/agent-sandbox/sessions", "data of agent-sandbox"),
        ("ROOT/home/.config", "data of agent-sandbox"),
        ("ROOT/link", "whole home"),
        ("ROOT/home/docker.sock", "root on this machine"),
        ("ROOT/home/run", "root on this machine"),
        ("/proc/self", "belongs to this machine"),
        ("/dev/null", "belongs to this machine"),
        ("ROOT/elsewhere/socket", "neither a file nor a directory"),
        ("ROOT/nowhere", "cannot mount"),
    ] {
        let text = format!("mounts = [{{ host = '{host}', container = '/m', mode = 'rw' }}]");
        let mut world = World::new(&text);
        for dir in [
            ".local/state/agent-sandbox",
            ".local/share/agent-sandbox/sessions",
            ".config/agent-sandbox",
            "run",
        ] {
            fs::create_dir_all(world.path("home").join(dir)).unwrap();
        }
        let _listener =
            std::os::unix::net::UnixListener::bind(world.path("elsewhere/socket")).unwrap();
        fs::write(world.path("home/run/engine.sock"), "").unwrap();
        symlink(world.path("home/run/engine.sock"), world.path("home/docker.sock")).unwrap();
        symlink("home", world.path("link")).unwrap();
        let address = format!("unix://{}", world.path("home/docker.sock").display());
        world.host.env.insert("DOCKER_HOST".into(), address.into());
        assert!(world.said().contains(why), "{host}: {}", world.said());
    }
    for target in
        ["/", "/proc/x", "/run/agent-sandbox/bin", "/run", "/dev", "/home/agent", "/etc/passwd"]
    {
        let text = format!("mounts = [{{ host = 'ROOT/elsewhere', container = '{target}' }}]");
        assert!(World::new(&text).said().contains("nothing can be mounted"), "{target}");
    }
    let twice = "mounts = [{ host = 'ROOT/elsewhere', container = '/m' }, { host = 'ROOT/home/data', container = '/m' }]";
    assert!(World::new(twice).said().contains("two mounts at `/m`"));
}

#[test]
fn rules_below_a_mount_become_additional_mounts() {
    let world = World::new("filesystem = { ro = ['src'], exclude = ['key', 'hidden'] }");
    fs::write(world.path("home/project/key"), "secret").unwrap();
    fs::create_dir(world.path("home/project/hidden")).unwrap();
    let made = world.plan().unwrap();
    let source = |target: &str| at(&made, target).map(|bind| (bind.source.clone(), bind.access));
    let src = Source::Host(world.path("home/project/src"));
    assert_eq!(source("/workspace/src"), Some((src, Access::Ro)));
    assert_eq!(source("/workspace/key"), Some((Source::Session("empty/file".into()), Access::Ro)));
    assert_eq!(
        source("/workspace/hidden"),
        Some((Source::Session("empty/dir".into()), Access::Ro))
    );
    let targets: Vec<_> = made.mounts.iter().map(|bind| &bind.target).collect();
    assert!(targets.is_sorted(), "parents first");
}

#[test]
fn commands_with_rules_come_first_on_the_search_path() {
    let made = World::new("commands.curl = false").plan().unwrap();
    let links: Vec<_> = made.links.iter().map(|link| link.path.to_str().unwrap()).collect();
    assert_eq!(links, ["runtime/links/curl", "runtime/links/git"]);
    assert!(made.env["PATH"].starts_with("/run/agent-sandbox/links:"));
}

#[test]
fn a_secret_is_refused_in_a_variable_that_configures_pid_1() {
    let custom = "mode = 'proxy'\nprovider = 'custom'\nupstream_url = 'https://x'";
    for name in
        ["AGENT_COMMAND", "agent_user", "SESSION_TOKEN", "CONTROL_PLANE_URL", "WORKSPACE_PATH"]
    {
        for keys in [
            format!("env_var = '{name}'"),
            format!("env_var = 'K'\nbase_url_var = '{name}'\n{custom}"),
        ] {
            let refused = World::new(&format!("[secrets.k]\n{keys}")).plan().unwrap_err();
            assert!(matches!(refused, ContainerError::Variable { .. }), "{keys}: {refused}");
        }
    }
    for name in ["MY_AGENT_KEY", "SESSION_KEY", "K"] {
        World::new(&format!("[secrets.k]\nenv_var = '{name}'")).plan().unwrap();
    }
}

#[test]
fn reserved_variables_are_removed_from_the_image_and_refused_elsewhere() {
    let image = Image {
        id: "sha256:2".into(),
        env: [
            "PATH=/opt/bin:/bin",
            "LANG=C",
            "AGENT_COMMAND=evil",
            "session_id=1",
            "LD_PRELOAD=/x",
            "HTTPS_PROXY=evil",
        ]
        .map(str::to_owned)
        .to_vec(),
        volumes: vec!["/var/lib/x".into(), "/workspace".into(), "/".into()],
    };
    let world = World::new("env = { A = 'x', GIVEN = true }");
    let made = world.plan_with(&EngineFacts::default(), &image).unwrap();
    assert_eq!(made.unset, ["AGENT_COMMAND", "session_id", "LD_PRELOAD", "HTTPS_PROXY"]);
    assert_eq!((made.env["A"].as_str(), made.env["GIVEN"].as_str()), ("x", "callers"));
    assert!(made.env["PATH"].ends_with("/opt/bin:/bin:/run/agent-sandbox"));
    assert!(made.tmpfs.contains_key(Path::new("/var/lib/x")));
    assert!(
        !made.tmpfs.contains_key(Path::new("/workspace"))
            && !made.tmpfs.contains_key(Path::new("/"))
    );
    for text in ["env.AGENT_USER = 'root'", "env.SESSION_ID = 'x'", "env_file = 'vars'"] {
        let world = World::new(text);
        fs::write(world.path("vars"), "workspace_path=/x\n").unwrap();
        assert!(world.said().contains("is reserved"), "{text}");
    }
}

#[test]
fn env_file_is_relative_to_the_configuration_and_env_takes_precedence() {
    let world = World::new("env_file = 'vars'\nenv.B = 'set'");
    fs::write(world.path("vars"), "# note\nA=1 2\nexport B=x\nC=\"q\"\n\n").unwrap();
    let made = world.plan().unwrap();
    assert_eq!(["A", "B", "C"].map(|name| made.env[name].as_str()), ["1 2", "set", "q"]);
    fs::write(world.path("vars"), "no line\n").unwrap();
    assert!(world.said().contains("cannot read variables"));
}

#[test]
fn agent_is_never_root() {
    for (user, expected) in [
        ("agent", Some("4242:4343")),
        ("1001", Some("1001:1001")),
        ("1001:5", Some("1001:5")),
        ("node", Some("node")),
        ("root", None),
        ("0", None),
        ("0:5", None),
        ("--privileged", None),
        ("a:b", None),
        ("", None),
    ] {
        let world = World::new(&format!("agent.user = '{user}'"));
        let plan = world.load().ok().map(|_| world.plan().unwrap());
        assert_eq!(plan.map(|made| made.agent.user).as_deref(), expected, "{user}");
    }
    let mut world = World::new("image = 'x'");
    world.host.uid = 0;
    assert_ne!(world.plan().unwrap().agent.ids.unwrap().0, 0);
}

#[test]
fn policy_hash_differs_between_policies() {
    let hash = |text: &str| World::new(text).plan().unwrap().policy_hash();
    let world = World::new("network = 'none'");
    assert_eq!(world.plan().unwrap().policy_hash(), world.plan().unwrap().policy_hash());
    assert_ne!(hash("network = 'none'"), hash("network = 'bridge'"));
}

#[test]
fn runtime_is_used_when_the_engine_has_it() {
    let world = World::new("runtime = 'runsc'");
    assert!(world.said().contains("no runtime `runsc`"));
    let engine =
        EngineFacts { runtimes: vec!["runc".into(), "runsc".into()], ..EngineFacts::default() };
    let made = world.plan_with(&engine, &Image::default()).unwrap();
    assert_eq!(made.runtime.as_deref(), Some("runsc"));
}

#[test]
fn services_make_the_container_privileged_and_list_the_exception() {
    let made = World::new("services.dockerd = 'required'").plan().unwrap();
    assert!(made.privileged && made.exceptions.iter().any(|e| e.what == "privileged"));
    assert_eq!(made.env["AGENT_DOCKERD"], "required");
}

/// Settings for host commands over SSH, with a pinned host key.
const BY_SSH: &str = "host_commands.enabled = true\nhost_commands.transport = 'ssh'\nhost_commands.user = 'runner'\nhost_commands.allowed = ['deploy']\nhost_commands.host_key = 'ssh-ed25519 AAAAC3Nz x'";

#[test]
fn ssh_key_belongs_to_the_relay_when_pid_1_supervises() {
    let made = World::new(&format!("network = 'bridge'\n{BY_SSH}")).plan().unwrap();
    assert_eq!(
        (made.agent.start, made.hosts[0].as_str()),
        (Start::Supervise, "host.docker.internal:host-gateway")
    );
    let relay = &made.env["AGENT_RELAY"];
    assert!(relay.contains("runner") && relay.contains("host.docker.internal"), "{relay}");
    assert!(made.capabilities.iter().any(|name| name == "CHOWN"));
    let inside = format!("{PRIVATE_DIR}/keys");
    assert!(at(&made, &inside).is_some() && at(&made, "/run/secrets/ssh_key").is_none());
    let passwd = made.files.iter().find(|file| file.path == Path::new("etc/passwd")).unwrap();
    assert!(passwd.text.contains("relay:x:65530:"), "{}", passwd.text);
    let known = made.files.iter().find(|file| file.path.ends_with("known_hosts")).unwrap();
    assert_eq!(known.text, "host.docker.internal ssh-ed25519 AAAAC3Nz\n");
    let exec = "agent = { command = 'x', init = 'exec' }\nnetwork = 'host'";
    let made = World::new(&format!("{exec}\n{BY_SSH}\nhost_commands.port = 2222")).plan().unwrap();
    assert_eq!(
        (made.agent.start, made.hosts[0].as_str()),
        (Start::Exec, "host.docker.internal:127.0.0.1")
    );
    assert!(at(&made, "/run/secrets/ssh_key").is_some() && made.capabilities.is_empty());
    assert!(
        made.notes.iter().any(|note| note.contains("can read the SSH key")),
        "{:?}",
        made.notes
    );
}

#[test]
fn credentials_of_a_proxied_provider_are_hidden_or_listed_in_a_note() {
    const SECRET: &str = "[secrets.a]\nmode = 'proxy'\nenv_var = 'OPENAI_API_KEY'\n";
    const DIR: &str =
        "[[mounts]]\nhost = '~/.codex'\ncontainer = '/home/agent/.codex'\nmode = 'rw'\n";
    const FILE: &str =
        "[[mounts]]\nhost = '~/.codex/auth.json'\ncontainer = '/creds'\nmode = 'ro'\n";
    const ENV: &str = "[env]\nCODEX_API_KEY = 'x'\n";
    let image = Image {
        env: ["CODEX_API_KEY=x", "OPENAI_API_KEY=x", "GEMINI_API_KEY=x"]
            .map(str::to_owned)
            .to_vec(),
        ..Image::default()
    };
    let plan = |text: &str| {
        let world = World::new(text);
        fs::create_dir_all(world.path("home/.codex")).unwrap();
        fs::write(world.path("home/.codex/auth.json"), "login").unwrap();
        world.plan_with(&EngineFacts::default(), &image).unwrap()
    };
    let named = |made: &Container| {
        made.notes.iter().any(|note| note.contains("can read credentials without the proxy"))
    };
    let hidden = plan(&format!("{SECRET}{DIR}"));
    let login = at(&hidden, "/home/agent/.codex/auth.json").map(|bind| bind.source.clone());
    assert_eq!(login, Some(Source::Session("empty/file".into())));
    assert_eq!(
        (hidden.unset.as_slice(), named(&hidden)),
        (&["CODEX_API_KEY".to_owned()][..], false)
    );
    for text in [format!("{SECRET}{FILE}"), format!("{SECRET}{ENV}")] {
        assert!(named(&plan(&text)), "{text}");
    }
    let bare = plan(DIR);
    assert!(at(&bare, "/home/agent/.codex/auth.json").is_none() && bare.unset.is_empty());
    assert!(!named(&plan(&format!("{FILE}{ENV}"))));
}

#[test]
fn ssh_maps_a_host_name_to_the_host_but_not_an_address() {
    let hosts = |more: &str| {
        World::new(&format!("network = 'my-net'\n{BY_SSH}\n{more}")).plan().unwrap().hosts
    };
    assert_eq!(hosts("host_commands.host = 'my-host'"), ["my-host:host-gateway"]);
    assert!(hosts("host_commands.host = '192.0.2.1'").is_empty());
    let said = |more: &str| World::new(&format!("{BY_SSH}\n{more}")).said();
    assert!(said("network = 'none'").contains("needs a network"));
    assert!(
        said("network = 'host'\nhost_commands.host = 'a b'").contains("invalid SSH host `a b`")
    );
    assert!(said("network = 'host'\nagent.user = 'node'").contains("a separate user"));
}
