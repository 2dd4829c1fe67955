use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use sandbox_protocol::Hint;
use tempfile::TempDir;

use super::*;
use crate::config::command_rule::Builtin;

/// A home directory with a project, and the facts about its user.
pub(super) struct World {
    _dir: TempDir,
    pub(super) root: PathBuf,
    pub(super) host: Host,
}

impl World {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let (home, project) = (root.join("home"), root.join("home/project"));
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        let host = Host {
            cwd: Some(project),
            home: Some(home),
            env: BTreeMap::new(),
            exe: "/usr/bin/agent-sandbox".into(),
            uid: sandbox_linux::process::uid(),
            gid: sandbox_linux::process::gid(),
            inside: false,
        };
        Self { _dir: dir, root, host }
    }

    pub(super) fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(super) fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.root.join(path)).unwrap();
        self
    }

    pub(super) fn global(self, toml: &str) -> Self {
        self.file("home/.config/agent-sandbox/config.toml", toml)
    }

    pub(super) fn project(self, toml: &str) -> Self {
        self.file("home/project/sandbox.toml", toml)
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.root.join("home/project")
    }

    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        load(&self.host, &Request::default())
    }

    fn with(&self, request: &Request) -> Result<Config, ConfigError> {
        load(&self.host, request)
    }

    /// Returns an error as printed, without the temporary path.
    fn complaint(&self, request: &Request) -> String {
        let error = self.with(request).unwrap_err();
        let source = std::error::Error::source(&error)
            .map_or_else(String::new, |source| format!(": {source}"));
        let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        let text = format!("[{}] {error}{source}{hint}", error.exit_code());
        text.replace(&self.root.display().to_string(), "")
    }
}

fn patterns(config: &Config) -> Vec<String> {
    let shown =
        |rule: &Sourced<PathRule>| format!("{} {}", rule.value.access.word(), rule.value.pattern);
    config.paths.iter().map(shown).collect()
}

#[test]
fn load_gives_the_defaults_when_nothing_is_written() {
    let world = World::new();
    let config = world.load().unwrap();
    assert_eq!(config.cwd, world.cwd());
    assert_eq!(config.commands["git"].value, CommandRule::Builtin(Builtin::Git));
    assert_eq!(config.network.value, Network::On);
    assert!(!config.docker.value);
    assert_eq!(config.tmp.value, Tmp::Private);
    assert_eq!(config.launcher.value, Launcher::Binary);
    assert_eq!(config.presets[0], Sourced::new("@all".to_owned(), Origin::Default));
    assert!(config.loaded.is_empty() && config.skipped.is_empty());
}

#[test]
fn load_lets_the_later_layer_win_when_values_differ() {
    let world = World::new()
        .global("network = true\ndocker = true\ncommands.npm = false\ncommands.rm = false\nfilesystem.ro = ['a']")
        .project("network = false\ncommands.rm = false\nfilesystem.ro = ['b']\nfilesystem.exclude = ['c']");
    let request = Request {
        docker: Some(false),
        paths: vec![(Access::Rw, "d".into()), (Access::Ro, "e".into())],
        commands: vec![("npm".into(), CommandRule::Raw)],
        env: vec![("A".into(), Some("secret".into()))],
        ..Request::default()
    };
    let config = world.with(&request).unwrap();
    assert_eq!(config.network.value, Network::Off);
    assert!(config.network.origin.to_string().ends_with("home/project/sandbox.toml:1"));
    assert!(!config.docker.value);
    assert_eq!(config.docker.origin.to_string(), "flag --docker=false");
    assert_eq!(
        config.commands["npm"],
        Sourced::new(CommandRule::Raw, Origin::Flag("--cmd npm=true".into()))
    );
    assert_eq!(config.commands["rm"].origin.layer(), Layer::Project);
    assert_eq!(config.commands["git"].origin, Origin::Default);
    assert_eq!(patterns(&config), ["ro a", "ro b", "exclude c", "rw d", "ro e"]);
    assert_eq!(config.paths[4].origin.to_string(), "flag --ro e");
    // A value may be a credential, and an origin is printed.
    assert_eq!(config.env["A"].origin.to_string(), "flag --env A");
}

#[test]
fn load_takes_a_rule_back_when_a_later_layer_says_so() {
    for (why, taken, left) in [
        ("same spelling", "!src", vec!["exclude ~/project/src"]),
        ("trailing slash", "!src/", vec!["exclude ~/project/src"]),
        ("from the home", "!~/project/src", vec!["exclude ~/project/src"]),
        ("dots", "!./x/../src", vec!["exclude ~/project/src"]),
        ("another path", "!sr", vec!["ro src", "exclude ~/project/src"]),
    ] {
        let world =
            World::new().global("filesystem = { ro = ['src'], exclude = ['~/project/src'] }");
        let request = Request {
            paths: vec![(Access::Ro, taken.into()), (Access::Rw, "w".into())],
            ..Request::default()
        };
        let config = world.with(&request).unwrap();
        assert_eq!(patterns(&config), [left, vec!["rw w"]].concat(), "{why}");
        // Presets are expanded later, so every removal is kept for them.
        assert_eq!(config.unruled.len(), 1, "{why}");
        assert_eq!(config.unruled[0].value.access, Access::Ro, "{why}");
        assert_eq!(format!("!{}", config.unruled[0].value.pattern), taken, "{why}");
    }
}

#[test]
fn load_keeps_a_rule_when_its_own_layer_takes_it_back() {
    let world = World::new().global("filesystem.ro = ['src', '!src']\nsockets = ['/a']");
    let config = world.load().unwrap();
    assert_eq!(patterns(&config), ["ro src"]);
    assert_eq!(config.sockets.len(), 1);
    let world = world.project("sockets = ['!/a/']");
    assert!(world.load().unwrap().sockets.is_empty());
}

#[test]
fn load_makes_paths_absolute_when_they_name_one_file() {
    let world = World::new().global(
        "commands = { a = 'tools/a', b = '~/b', c = '/c' }\nmounts = [{ host = '~/m', container = '/m' }]\n\
         shared_dirs.out = { host = './out', guest = '/out' }",
    );
    let config = world.load().unwrap();
    let (home, cwd) = (world.root.join("home"), world.cwd());
    let script = |name: &str| config.commands[name].value.clone();
    assert_eq!(script("a"), CommandRule::Script(cwd.join("tools/a")));
    assert_eq!(script("b"), CommandRule::Script(home.join("b")));
    assert_eq!(script("c"), CommandRule::Script("/c".into()));
    let mounts: Vec<_> = config.mounts.iter().map(|mount| mount.value.clone()).collect();
    let out = home.join(".config/agent-sandbox/out");
    assert_eq!(
        mounts,
        [
            BindMount { host: home.join("m"), target: "/m".into(), access: Access::Ro },
            BindMount { host: out, target: "/out".into(), access: Access::Rw },
        ]
    );
}

/// Returns worlds and requests that cannot be loaded.
fn faults() -> Vec<(World, Request)> {
    let flags = |paths: &[(Access, &str)]| Request {
        paths: paths.iter().map(|(access, path)| (*access, (*path).to_owned())).collect(),
        ..Request::default()
    };
    let command =
        |name: &str, rule| Request { commands: vec![(name.into(), rule)], ..Request::default() };
    let cwd = |path: &str| Request { cwd: Some(path.into()), ..Request::default() };
    let git = CommandRule::Builtin(Builtin::Git);
    let plain = Request::default();
    let config = Request { config: Some("missing.toml".into()), ..Request::default() };
    let env = Request { env: vec![("A=B".into(), None)], ..Request::default() };
    vec![
        (World::new(), flags(&[(Access::Ro, "")])),
        (World::new(), flags(&[(Access::Rw, "!@base")])),
        (World::new(), command("npm", git)),
        (World::new(), command("a/b", CommandRule::Block)),
        (World::new(), env),
        (World::new(), cwd("nowhere")),
        (World::new().file("home/project/f", ""), cwd("f")),
        (World::new(), config),
        (World::new().project("").file("home/project/.agent-sandbox.json", "{}"), plain.clone()),
        (
            World::new().global("").file("home/.config/agent-sandbox/config.json", "{}"),
            plain.clone(),
        ),
        (World::new().link("home/project/sandbox.toml", "nowhere"), plain.clone()),
        (World::new().link("home/project/sandbox.toml", "/dev/zero"), plain.clone()),
        (World::new().project("commands.npm = '@git'"), plain.clone()),
        (World::new().project("proxy = { addr = 'here' }"), plain.clone()),
        (World::new().global("mounts = [{ host = 'a', container = '/b' }]"), plain.clone()),
        (World::new().global("mounts = [{ host = '/a', container = '/b/../c' }]"), plain.clone()),
        (World::new().project("docker = true\ncommands.git = true"), plain),
    ]
}

#[test]
fn load_names_the_fault_when_it_fails() {
    let text: Vec<_> = faults().iter().map(|(world, request)| world.complaint(request)).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
[2] `--ro `: the path is empty
[2] `--rw !@base`: `!@base` is a preset, not a path
hint: put it into `filesystem.presets`, or write `./@base` for a file with this name
[2] `--cmd npm=@git`: the preset `@git` wraps git, not `npm`
[2] `--cmd a/b=false`: invalid command name `a/b`
hint: write the name of the command without a path
[2] `--env A=B`: invalid variable name `A=B`
[125] cannot use `nowhere` as the working directory: No such file or directory (os error 2)
[125] cannot use `f` as the working directory: not a directory
[125] cannot read the configuration `/home/project/missing.toml`: No such file or directory (os error 2)
[125] found more than one configuration file: `/home/project/.agent-sandbox.json`, `/home/project/sandbox.toml`
hint: keep one of them
[125] found more than one configuration file: `/home/.config/agent-sandbox/config.json`, `/home/.config/agent-sandbox/config.toml`
hint: keep one of them
[125] cannot read the configuration `/home/project/sandbox.toml`: No such file or directory (os error 2)
[125] the configuration `/home/project/sandbox.toml` is not a regular file
[125] /home/project/sandbox.toml:1:16: `commands.npm`: the preset `@git` wraps git, not `npm`
[125] /home/project/sandbox.toml:1:18: `proxy.addr`: invalid listen address `here`
hint: write `":8090"` for a port on loopback, or an address with a port
[125] /home/.config/agent-sandbox/config.toml:1:20: `mounts[0].host`: the host path `a` is not absolute
hint: start it with `/` or `~/`, or use `shared_dirs`, which accepts relative paths
[125] /home/.config/agent-sandbox/config.toml:1:38: `mounts[0].container`: the container path `/b/../c` is not absolute or contains `..`
[125] the project's `/home/project/sandbox.toml` is not trusted, and widens the sandbox:
  `docker` shares the daemon's socket (/home/project/sandbox.toml:1)
  `commands.git` replaces `@git` by `true` (/home/project/sandbox.toml:2)
hint: read it, then allow it with `agent-sandbox trust`; for one run with `--trust` or `AGENT_SANDBOX_TRUST=1`
"#);
}

#[test]
fn load_needs_no_home_unless_a_path_does() {
    let mut world = World::new().project("commands.a = 'x'");
    world.host.home = None;
    assert!(world.load().is_ok());
    let request = Request {
        commands: vec![("a".into(), CommandRule::Script("~/x".into()))],
        ..Request::default()
    };
    let error = world.with(&request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`--cmd a=~/x`: `~/x` needs a home directory, and `HOME` is not set"
    );
}

#[test]
fn load_says_so_when_the_callers_directory_is_gone() {
    let mut world = World::new();
    let project = world.host.cwd.take();
    assert!(matches!(world.load(), Err(ConfigError::CwdGone)));
    let relative = Request { cwd: Some("x".into()), ..Request::default() };
    assert!(matches!(world.with(&relative), Err(ConfigError::CwdGone)));
    assert!(world.with(&Request { cwd: project, ..Request::default() }).is_ok());
}

#[test]
fn load_resolves_the_working_directory_when_it_is_a_link() {
    let world = World::new().link("home/link", "project").project("network = false");
    let request = Request { cwd: Some("../link".into()), ..Request::default() };
    let config = world.with(&request).unwrap();
    assert_eq!(config.cwd, world.cwd());
    assert_eq!(config.network.value, Network::Off);
}

#[test]
fn load_ignores_a_directory_when_it_has_a_configurations_name() {
    let world = World::new()
        .file("home/project/sandbox.toml/x", "")
        .file("home/project/.agent-sandbox.jsonc", "{}");
    let config = world.load().unwrap();
    assert_eq!(config.loaded, [(Layer::Project, world.cwd().join(".agent-sandbox.jsonc"))]);
}

#[test]
fn load_reads_the_named_file_in_the_projects_place() {
    let world = World::new()
        .project("network = false")
        .file("home/project/sub/my.conf", "{ \"docker\": true }")
        .file("home/project/sub/.agent-sandbox.json", "{ broken");
    // The file is relative to `--cwd`, and trusted because it is named.
    let request =
        Request { cwd: Some("sub".into()), config: Some("my.conf".into()), ..Request::default() };
    let config = world.with(&request).unwrap();
    assert!(config.docker.value);
    assert_eq!(config.network.value, Network::On);
    assert_eq!(config.loaded, [(Layer::Project, world.cwd().join("sub/my.conf"))]);
    let located = locate(&world.host, &request).unwrap();
    assert!(located.files[0].named);
}

#[test]
fn load_guards_every_name_that_decides_about_the_next_run() {
    let world = World::new().file("other/real.toml", "network = false").global("docker = false");
    let world = world.link("home/project/sandbox.toml", "../../other/real.toml");
    let files = world.load().unwrap().files;
    for path in [
        "other/real.toml",
        "home/project/sandbox.toml",
        "home/project/.agent-sandbox.json",
        "home/project/.agent-sandbox.jsonc",
        "home/.config/agent-sandbox/config.toml",
        "home/.config/agent-sandbox",
        "home/.local/state/agent-sandbox",
    ] {
        assert!(files.contains(&world.root.join(path)), "{path} in {files:?}");
    }
}

fn rules() -> impl Strategy<Value = Vec<(Access, String)>> {
    let access = prop_oneof![Just(Access::Rw), Just(Access::Ro), Just(Access::Exclude)];
    prop::collection::vec((access, "!?(\\./)?[ab](/[ab])?/?"), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A pattern applies if no later layer removes it.
    #[test]
    fn merge_keeps_exactly_what_no_later_layer_takes_back(layers in prop::collection::vec(rules(), 1..4)) {
        let dirs = BaseDirs { cwd: "/p".into(), home: None };
        let mut config = merge::builtin(&dirs);
        for layer in &layers {
            let rules = layer.iter().map(|(access, pattern)| {
                Sourced::new(PathRule::new(*access, pattern.clone()), Origin::Default)
            });
            merge::apply(&mut config, Values { paths: rules.collect(), ..Values::default() }, &dirs);
        }
        let mut expected = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            for (access, pattern) in layer.iter().filter(|(_, pattern)| !pattern.starts_with('!')) {
                let taken = layers[index + 1..].iter().flatten().any(|(other, removal)| {
                    let removal = removal.strip_prefix('!').map(|removal| dirs.spelling(removal));
                    other == access && removal == Some(dirs.spelling(pattern))
                });
                if !taken {
                    expected.push(format!("{} {pattern}", access.word()));
                }
            }
        }
        prop_assert_eq!(patterns(&config), expected);
    }
}

#[test]
fn session_tables_merge_by_key_and_single_values_by_layer() {
    use crate::config::{BackendKind, ContainerNetwork};
    let world = World::new()
        .global("image = 'a'\nagent = { user = 'dev', args = ['x'] }\nresources.pids = 5\nnetwork = 'bridge'")
        .project("backend = 'bwrap'\nagent = { command = 'run', args = ['y'] }\nresources.memory = '1m'\nenv_file = 'vars'");
    let request = Request { trust: true, ..Request::default() };
    let session = load(&world.host, &request).unwrap().session;
    let agent = session.agent.as_ref().unwrap().value.clone();
    assert_eq!(agent.command.as_ref().map(file::ProgramText::as_str), Some("run"));
    assert_eq!(agent.user, Some(file::AgentUser::Named("dev".into())));
    assert_eq!(agent.args, Some(vec![ArgumentText::new("y").unwrap()]));
    let resources = session.resources.as_ref().unwrap().value;
    assert_eq!(
        (resources.pids.map(u32::from), resources.memory.map(|memory| memory.0)),
        (Some(5), Some(1 << 20))
    );
    assert_eq!(session.image.as_ref().unwrap().value.as_str(), "a");
    assert_eq!(session.backend(&[]), BackendKind::Bwrap);
    assert_eq!(session.env_file.as_ref().unwrap().value, world.cwd().join("vars"));
    assert_eq!(session.network.as_ref().unwrap().value, ContainerNetwork::Bridge);
    let flag =
        Request { network: Some(crate::config::Network::Off), trust: true, ..Request::default() };
    let session = load(&world.host, &flag).unwrap().session;
    assert_eq!(session.network.unwrap().value, ContainerNetwork::None);
}

#[test]
fn backend_follows_from_the_keys_when_it_is_not_given() {
    use crate::config::BackendKind::{Bwrap, Docker};
    for (text, expected) in [
        ("", Bwrap),
        ("network = false", Bwrap),
        ("backend = 'docker'", Docker),
        ("image = 'x'", Docker),
        ("agent.command = 'x'", Docker),
        ("sandbox.network = 'none'", Docker),
        ("mounts = [{ host = '/tmp', container = '/x' }]", Docker),
        ("shared_dirs = { w = { host = '.', guest = '/w' } }", Docker),
        ("backend = 'bwrap'\nagent.command = 'x'", Bwrap),
    ] {
        let world = if text.is_empty() { World::new() } else { World::new().project(text) };
        let config = load(&world.host, &Request { trust: true, ..Request::default() }).unwrap();
        assert_eq!(config.session.backend(&config.mounts), expected, "{text}");
    }
}

#[test]
fn load_refuses_a_secret_in_a_variable_that_decides_something() {
    for name in [
        "PATH",
        "HOME",
        "SHELL",
        "IFS",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "VIMINIT",
        "DOTNET_STARTUP_HOOKS",
        "GDK_PIXBUF_MODULE_FILE",
        "AGENT_SANDBOX_TRUST",
        "HTTPS_PROXY",
        "https_proxy",
        "No_Proxy",
        "DOCKER_HOST",
        "SSH_AUTH_SOCK",
        "A B",
        "1A",
        "A-B",
        "A.B",
        "Ä",
        "ANTHROPIC_BASE_URL",
    ] {
        let text = format!("network = true\n\n[secrets.k]\nenv_var = '{name}'\n");
        let said = World::new().global(&text).complaint(&Request::default());
        assert!(said.contains("config.toml:3") && said.contains(name), "{name}: {said}");
        assert!(said.starts_with("[125]"), "{name}: {said}");
        if name != "ANTHROPIC_BASE_URL" {
            let text = format!(
                "[secrets.k]\nmode = 'proxy'\nprovider = 'custom'\nenv_var = 'K'\nbase_url_var = '{name}'\n"
            );
            let said = World::new().global(&text).complaint(&Request::default());
            assert!(said.contains("config.toml:1") && said.contains(name), "{name}: {said}");
        }
    }
    for name in [
        "ANTHROPIC_API_KEY",
        "GIT_TOKEN",
        "PIP_INDEX_URL",
        "CARGO_REGISTRY_TOKEN",
        "PATHS",
        "MY_HOME",
        "XKEY",
        "key",
        "_K2",
    ] {
        World::new().global(&format!("[secrets.k]\nenv_var = '{name}'\n")).load().unwrap();
    }
}

#[test]
fn load_refuses_two_secrets_in_one_variable() {
    let world = World::new().global("[secrets.a]\nenv_var = 'A'\n\n[secrets.b]\nenv_var = 'A'\n");
    insta::assert_snapshot!(world.complaint(&Request::default()), @"
    [125] `secrets.a` (/home/.config/agent-sandbox/config.toml:1) and `secrets.b` (/home/.config/agent-sandbox/config.toml:4) both use the variable `A`
    hint: keep one of them
    ");
    World::new()
        .global("[secrets.a]\nenv_var = 'A'\n\n[secrets.b]\nenv_var = 'B'\n")
        .load()
        .unwrap();
}
