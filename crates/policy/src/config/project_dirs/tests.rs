use std::path::PathBuf;

use sandbox_protocol::Hint;

use crate::config::command_rule::CommandRule;
use crate::config::tests::World;
use crate::config::{
    Access, Config, ConfigError, Layer, Network, PathRule, Request, load, load_bound, locate, trust,
};

fn within(path: &str) -> Request {
    Request { cwd: Some(path.into()), ..Request::default() }
}

/// Returns the searched directories, relative to the world.
fn dirs(world: &World, cwd: &str) -> Vec<String> {
    let located = locate(&world.host, &within(&world.root.join(cwd).display().to_string()));
    let below = |dir: PathBuf| match dir.strip_prefix(&world.root) {
        Ok(below) => below.display().to_string(),
        Err(_) => "above".to_owned(),
    };
    located.unwrap().dirs.into_iter().map(below).collect()
}

fn rules(config: &Config) -> Vec<String> {
    let shown = |rule: &PathRule| format!("{} {}", rule.access.word(), rule.spelled());
    config.paths.iter().map(|rule| shown(&rule.value)).collect()
}

fn keys(outcome: Result<Config, ConfigError>) -> Vec<String> {
    match outcome {
        Err(ConfigError::Untrusted { widenings, .. }) => {
            widenings.into_iter().map(|one| one.key).collect()
        }
        other => panic!("must ask: {other:?}"),
    }
}

#[test]
fn project_dirs_end_below_home_or_at_the_outermost_repository() {
    let world = World::new()
        .file("home/project/a/b/.git/HEAD", "")
        .file("repo/.git/HEAD", "")
        .file("repo/sub/nested/.git/HEAD", "")
        .file("repo/sub/nested/x/y", "")
        .file("plain/sub/x", "")
        .file("pointer/.git", "gitdir: elsewhere")
        .file("pointer/sub/x", "");
    let world = world.link("home/link", "project/a");
    for (cwd, expected) in [
        ("home", &["home"][..]),
        ("home/project", &["home/project"]),
        ("home/project/a/b", &["home/project", "home/project/a", "home/project/a/b"]),
        ("home/link/b", &["home/project", "home/project/a", "home/project/a/b"]),
        ("repo/sub/nested/x", &["repo", "repo/sub", "repo/sub/nested", "repo/sub/nested/x"]),
        ("repo", &["repo"]),
        ("plain/sub", &["plain/sub"]),
        ("pointer/sub", &["pointer", "pointer/sub"]),
    ] {
        assert_eq!(dirs(&world, cwd), expected, "{cwd}");
    }
}

#[test]
fn home_is_compared_by_its_real_path() {
    let mut world = World::new().file("home/project/sub/x", "").link("alias", "home");
    world.host.home = Some(world.root.join("alias"));
    assert_eq!(dirs(&world, "home/project/sub"), ["home/project", "home/project/sub"]);
    assert_eq!(dirs(&world, "alias"), ["home"]);
    // A home that is a repository does not count either.
    let world = world.file("home/.git/HEAD", "").file("home/sandbox.toml", "network = false");
    let config = load(&world.host, &within("sub")).unwrap();
    assert_eq!((config.network.value, config.loaded.len()), (Network::On, 0));
    assert_eq!(load(&world.host, &within("..")).unwrap().network.value, Network::Off);
}

#[test]
fn load_applies_every_file_up_to_home_the_outermost_first() {
    let world = World::new()
        .global("commands.wget = false")
        .file("home/sandbox.toml", "commands.rm = false")
        .project("network = false\ncommands.curl = false\ntmp = 'private'\nfilesystem = { exclude = ['.env', '~/x', '/etc/y'], ro = ['*.lock'] }")
        .file("home/project/sub/deep/.agent-sandbox.jsonc", "{ \"filesystem\": { \"exclude\": [\".env\"] } }");
    let config = load(&world.host, &within("sub/deep")).unwrap();
    let project = world.cwd();
    assert_eq!(config.network.value, Network::Off);
    assert_eq!(
        config.loaded,
        [
            (Layer::Global, world.root.join("home/.config/agent-sandbox/config.toml")),
            (Layer::Project, project.join("sandbox.toml")),
            (Layer::Project, project.join("sub/deep/.agent-sandbox.jsonc")),
        ]
    );
    let outer = |text: &str| text.replace("/P", &project.display().to_string());
    assert_eq!(
        rules(&config),
        ["ro /P/*.lock", "exclude /P/.env", "exclude ~/x", "exclude /etc/y", "exclude .env"]
            .map(outer)
    );
    let commands: Vec<_> = config.commands.keys().map(String::as_str).collect();
    assert_eq!(commands, ["curl", "git", "wget"]);
    for name in ["sandbox.toml", "sub/sandbox.toml", "sub/deep/sandbox.toml"] {
        assert!(config.files.contains(&project.join(name)), "{name}");
    }
}

#[test]
fn relative_scripts_sockets_and_rules_belong_to_their_file() {
    let world = World::new().file("home/project/sub/x", "").project(
        "commands.npm = 'tools/npm'\nsockets = ['s.sock', '/run/x', '~/y']\nfilesystem.rw = ['out', '!gone']",
    );
    let request = Request { trust: true, ..within("sub") };
    let config = load(&world.host, &request).unwrap();
    let project = world.cwd();
    assert_eq!(config.commands["npm"].value, CommandRule::Script(project.join("tools/npm")));
    let sockets: Vec<_> = config.sockets.iter().map(|socket| socket.value.clone()).collect();
    assert_eq!(
        sockets,
        [project.join("s.sock").display().to_string(), "/run/x".into(), "~/y".into()]
    );
    assert_eq!(rules(&config), [format!("rw {}", project.join("out").display())]);
    assert_eq!(config.unruled[0].value.spelled(), project.join("gone").display().to_string());
    assert_eq!(config.unruled[0].value.access, Access::Rw);
}

#[test]
fn a_flag_removes_a_rule_of_an_outer_file_by_its_path() {
    let world =
        World::new().file("home/project/sub/x", "").project("filesystem.exclude = ['.env']");
    for pattern in ["!../.env", "!~/project/.env"] {
        let paths = vec![(Access::Exclude, pattern.to_owned())];
        let config = load(&world.host, &Request { paths, ..within("sub") }).unwrap();
        assert!(config.paths.is_empty(), "{pattern}");
    }
    let paths = vec![(Access::Exclude, "!.env".to_owned())];
    let config = load(&world.host, &Request { paths, ..within("sub") }).unwrap();
    assert_eq!(config.paths.len(), 1, "another file");
}

/// A file, a nearer one that loosens it, and a nearer one that restricts it as the control.
const NEARER: &[(&str, &str, &str, &str)] = &[
    ("network = false", "network = true", "network = false", "network"),
    (
        "network.allowed_hosts = ['a.io']",
        "network.allowed_hosts = ['b.io']",
        "network.allowed_hosts = ['!a.io']",
        "network.allowed_hosts",
    ),
    (
        "network.denied_hosts = ['a.io']",
        "network.denied_hosts = ['!a.io']",
        "network.denied_hosts = ['b.io']",
        "network.denied_hosts",
    ),
    ("commands.curl = false", "commands.curl = true", "commands.wget = false", "commands.curl"),
    ("commands.npm = 'w'", "commands.npm = 'v'", "commands.npm = false", "commands.npm"),
    (
        "filesystem.exclude = ['sub/.env']",
        "filesystem.exclude = ['!.env']",
        "filesystem.exclude = ['.env']",
        "filesystem.exclude",
    ),
    (
        "filesystem.exclude = ['sub/keys']",
        "filesystem.ro = ['keys/a']",
        "filesystem.exclude = ['keys/a']",
        "filesystem.ro",
    ),
    (
        "filesystem.exclude = ['**/*.key']",
        "filesystem.rw = ['a.key']",
        "filesystem.exclude = ['a.key']",
        "filesystem.rw",
    ),
    (
        "filesystem.ro = ['sub']",
        "filesystem.rw = ['gen']",
        "filesystem.ro = ['gen']",
        "filesystem.rw",
    ),
    (
        "filesystem.presets = ['@git-strict']",
        "filesystem.presets = ['!@git-strict']",
        "filesystem.presets = ['@git-strict']",
        "filesystem.presets",
    ),
    (
        "filesystem.presets = ['@lint/ts']",
        "filesystem.presets = ['!@lint/all']",
        "filesystem.presets = ['!@lint/go']",
        "filesystem.presets",
    ),
    (
        "filesystem.presets = ['!@caches']",
        "filesystem.presets = ['@all']",
        "filesystem.presets = ['!@agents']",
        "filesystem.presets",
    ),
    ("cow = true", "cow = false", "cow = 'overlay'", "cow"),
    ("backend = 'docker'", "backend = 'bwrap'", "backend = 'docker'", "backend"),
    (
        "network = { upload_limit = '1k', allowed_hosts = ['a.io'] }",
        "network = { upload_limit = '2k', allowed_hosts = [] }",
        "network = { upload_limit = '1k', allowed_hosts = [] }",
        "network.upload_limit",
    ),
];

#[test]
fn a_nearer_file_restricts_freely_and_loosens_only_with_trust() {
    for (outer, loosens, restricts, key) in NEARER {
        let request = within("sub");
        let allowed = Request { trust: true, ..request.clone() };
        let world = World::new().project(outer).file("home/project/sub/sandbox.toml", loosens);
        // The outer file is trusted, so only the nearer one is in question.
        trust::record(&world.host, &world.cwd().join("sandbox.toml"), outer.as_bytes()).unwrap();
        assert_eq!(keys(load(&world.host, &request)), [*key], "{loosens}");
        assert!(load(&world.host, &allowed).is_ok(), "{loosens}");
        let world = world.file("home/project/sub/sandbox.toml", restricts);
        if let Err(error) = load(&world.host, &request) {
            panic!("{restricts}: {error}");
        }
    }
}

#[test]
fn hosts_of_an_outer_file_stay_off_when_a_nearer_one_turned_the_network_off() {
    let world = World::new()
        .project("network.allowed_hosts = ['a.io']")
        .file("home/project/sub/sandbox.toml", "network = false")
        .file("home/project/sub/deep/sandbox.toml", "network = 'allow'");
    trust::record(
        &world.host,
        &world.cwd().join("sandbox.toml"),
        b"network.allowed_hosts = ['a.io']",
    )
    .unwrap();
    assert_eq!(keys(load(&world.host, &within("sub/deep"))), ["network"]);
    assert_eq!(load(&world.host, &within("sub")).unwrap().network.value, Network::Off);
}

#[test]
fn the_project_of_trust_is_the_working_directory() {
    let text = "filesystem = { rw = ['build', 'sub/out'] }";
    let world = World::new().project(text).file("home/project/sub/x", "");
    assert!(world.load().is_ok(), "both are in the project");
    assert_eq!(keys(load(&world.host, &within("sub"))), ["filesystem.rw"]);
    trust::record(&world.host, &world.cwd().join("sandbox.toml"), text.as_bytes()).unwrap();
    assert_eq!(rules(&load(&world.host, &within("sub")).unwrap()).len(), 2);
}

/// The working directory, the rule of a file two directories above it, and the reason for asking.
const READ_ONLY: &[(&str, &str, Option<&str>)] = &[
    ("home/project/sub/x", "ci", None),
    ("home/project/sub/x", "**/*.lock", None),
    ("home/project/sub/x", "../other", Some("outside the project")),
    ("home/project/sub/x", "~/notes", Some("outside the project")),
    ("home/project/sub/x", "link/notes", Some("outside the project")),
    ("home/project/sub/x", "*/notes", Some("outside the project")),
    ("home/.config/sub/x", "gh/hosts.yml", Some("outside the project")),
];

#[test]
fn a_file_above_makes_paths_read_only_without_trust_if_they_are_readable_anyway() {
    for (cwd, pattern, why) in READ_ONLY {
        let top = PathBuf::from(cwd).parent().unwrap().parent().unwrap().to_path_buf();
        let file = top.join("sandbox.toml").display().to_string();
        let world = World::new()
            .file(&format!("{cwd}/file"), "")
            .file("home/notes", "")
            .file(&file, &format!("filesystem.ro = ['{pattern}']"))
            .link("home/project/link", "..");
        let request = within(&world.root.join(cwd).display().to_string());
        match (load(&world.host, &request), why) {
            (Ok(_), None) => {}
            (Err(ConfigError::Untrusted { widenings, .. }), Some(why)) => {
                assert!(widenings[0].detail.contains(why), "{pattern}: {}", widenings[0].detail);
            }
            (outcome, _) => panic!("{pattern}: {outcome:?}"),
        }
    }
    // The user hides something below the path.
    let world = World::new().file("home/project/sub/x", "").project("filesystem.ro = ['ci']");
    let world = world.global("filesystem.exclude = ['~/project/ci/keys*']");
    assert_eq!(keys(load(&world.host, &within("sub"))), ["filesystem.ro"]);
}

#[test]
fn hint_names_the_file_unless_it_is_the_only_one() {
    let world = World::new()
        .project("docker = true")
        .file("home/project/sub/sandbox.toml", "docker = true");
    let hint = |request: &Request| load(&world.host, request).unwrap_err().hint().unwrap();
    assert!(hint(&within(".")).contains("`agent-sandbox trust`"));
    let outer = world.cwd().join("sandbox.toml");
    assert!(hint(&within("sub")).contains(&format!("`agent-sandbox trust {}`", outer.display())));
    trust::record(&world.host, &outer, b"docker = true").unwrap();
    let nearer = world.cwd().join("sub/sandbox.toml");
    // It repeats what is on already.
    assert!(load(&world.host, &within("sub")).is_ok());
    let world = world.file("home/project/sub/sandbox.toml", "tmp = 'host'");
    let hint = load(&world.host, &within("sub")).unwrap_err().hint().unwrap();
    assert!(hint.contains(&format!("`agent-sandbox trust {}`", nearer.display())), "{hint}");
}

#[test]
fn a_named_file_replaces_all_files_and_is_based_on_the_working_directory() {
    let world = World::new()
        .project("network = false\nfilesystem.exclude = ['a']")
        .file("home/project/sub/sandbox.toml", "{ broken")
        .file("home/project/conf/my.toml", "filesystem.exclude = ['b']");
    let request = Request { config: Some("../conf/my.toml".into()), ..within("sub") };
    let config = load(&world.host, &request).unwrap();
    assert_eq!((config.network.value, rules(&config)), (Network::On, vec!["exclude b".to_owned()]));
}

#[test]
fn a_file_of_another_user_above_is_refused_and_one_in_the_working_directory_is_not() {
    let mut world = World::new().project("network = false").file("home/project/sub/x", "");
    world.host.uid += 1;
    assert_eq!(world.load().unwrap().network.value, Network::Off);
    let error = load(&world.host, &within("sub")).unwrap_err();
    assert!(matches!(error, ConfigError::Foreign { .. }), "{error}");
    assert_eq!(error.exit_code(), sandbox_protocol::ExitCode::Setup);
    let named = world.cwd().join("sandbox.toml");
    assert!(error.hint().unwrap().contains(&format!("`--config {}`", named.display())));
    let request = Request { config: Some(named), ..within("sub") };
    assert_eq!(load(&world.host, &request).unwrap().network.value, Network::Off);
}

#[test]
fn two_files_in_a_directory_above_are_an_error() {
    let world = World::new()
        .project("")
        .file("home/project/.agent-sandbox.json", "{}")
        .file("home/project/sub/x", "");
    assert!(matches!(load(&world.host, &within("sub")), Err(ConfigError::Several { .. })));
}

#[test]
fn a_recorded_request_binds_every_file() {
    let nearer = "home/project/sub/sandbox.toml";
    let world = World::new().project("docker = true").file(nearer, "tmp = 'host'");
    let mut request = Request { trust: true, ..within("sub") };
    load_bound(&world.host, &mut request).unwrap();
    assert_eq!(request.accepted.as_ref().map(Vec::len), Some(2));
    assert!(load(&world.host, &request).is_ok());
    let world = world.project("docker = true # later");
    assert_eq!(keys(load(&world.host, &request)), ["docker"]);
    let world = world.project("docker = true").file(nearer, "tmp = 'host' # later");
    assert_eq!(keys(load(&world.host, &request)), ["tmp"]);
}
