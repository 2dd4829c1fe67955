use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::tests::World;
use crate::config::{ConfigError, Request, file, load};

/// Returns the keys that need trust.
fn asked(world: &World) -> Vec<String> {
    match world.load() {
        Ok(_) => Vec::new(),
        Err(ConfigError::Untrusted { widenings, .. }) => {
            widenings.into_iter().map(|one| one.key).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

/// The user's file, a project file that widens it, and a project file that restricts it as the control.
const CASES: &[(&str, &str, &str)] = &[
    ("", "docker = true", "docker = false"),
    ("network = false", "network = true", "network = false"),
    ("network = false", "network = 'host'", "network = 'none'"),
    (
        "network = false",
        "network = { allowed_hosts = ['a.io'] }",
        "network = { allowed_hosts = [] }",
    ),
    ("network.allowed_hosts = ['@npm']", "network = true", "network = false"),
    (
        "network.allowed_hosts = ['a.io']",
        "network.allowed_hosts = ['b.io']",
        "network.allowed_hosts = ['a.io:443']",
    ),
    (
        "network.allowed_hosts = ['*.a.io']",
        "network.allowed_hosts = ['a.io']",
        "network.allowed_hosts = ['!*.a.io', 'b.a.io']",
    ),
    (
        "network.allowed_hosts = ['a.io']",
        "network.private_hosts = ['a.io']",
        "network.denied_hosts = ['a.io']",
    ),
    (
        "network.denied_hosts = ['a.io']",
        "network.denied_hosts = ['!a.io']",
        "network.denied_hosts = ['b.io']",
    ),
    ("", "tmp = 'host'", "tmp = 'private'"),
    ("", "sockets = ['/run/x']", "sockets = ['!/run/x']"),
    ("", "env.A = '1'", "env = {}"),
    ("", "env.A = true", "env = {}"),
    ("env.A = '1'", "env.A = '2'", "env.A = '1'"),
    ("", "mounts = [{ host = '/a', container = '/a' }]", "mounts = []"),
    ("", "shared_dirs.a = { host = 'a', guest = '/a' }", "shared_dirs = {}"),
    ("", "filesystem.presets = ['!@base']", "filesystem.presets = ['!@caches']"),
    ("", "filesystem.presets = ['!@secrets']", "filesystem.presets = ['!@agents']"),
    ("", "filesystem.presets = ['!@git']", "filesystem.presets = ['@git-strict']"),
    ("", "filesystem.presets = ['!@all']", "filesystem.presets = ['!@lint/all', '@lint/go']"),
    ("", "filesystem.presets = ['!@all', '@git']", "filesystem.presets = ['!@all', '@all']"),
    (
        "filesystem.presets = ['@git-strict']",
        "filesystem.presets = ['!@git-strict']",
        "filesystem.presets = ['!@lint/ts']",
    ),
    ("", "filesystem.presets = ['!@git', '!@git-strict']", "filesystem.presets = ['!@git-strict']"),
    (
        "filesystem.presets = ['!@caches']",
        "filesystem.presets = ['@caches']",
        "filesystem.presets = ['@secrets']",
    ),
    (
        "filesystem.presets = ['!@agents']",
        "filesystem.presets = ['@all']",
        "filesystem.presets = ['!@agents']",
    ),
    (
        "filesystem.presets = ['!@base']",
        "filesystem.presets = ['@base']",
        "filesystem.presets = ['!@base']",
    ),
    ("", "commands.git = true", "commands.git = false"),
    ("", "commands.git = 'script'", "commands.git = '@git'"),
    ("commands.npm = false", "commands.npm = 'script'", "commands.npm = false"),
    ("commands.npm = false", "commands.npm = true", "commands.yarn = true"),
    ("commands.npm = 'a'", "commands.npm = 'b'", "commands.npm = 'a'"),
    ("commands.git = true", "commands.npm = '~/x'", "commands.git = '@git'"),
    ("", "commands.npm = '/etc/passwd'", "commands.npm = 'script'"),
    ("", "filesystem.rw = ['../sibling']", "filesystem.rw = ['build']"),
    ("", "filesystem.rw = ['x/../../sibling']", "filesystem.rw = ['x/../build']"),
    ("", "filesystem.rw = ['~']", "filesystem.exclude = ['~']"),
    ("", "filesystem.rw = ['/etc']", "filesystem.exclude = ['/etc']"),
    ("", "filesystem.ro = ['~/.ssh/id_rsa']", "filesystem.ro = ['src']"),
    ("", "filesystem.ro = ['~/project/../x']", "filesystem.ro = ['~/project/x']"),
    ("", "filesystem.ro = ['/**/id_rsa']", "filesystem.ro = ['**/id_rsa']"),
    ("", "filesystem.rw = ['*/../../x']", "filesystem.rw = ['*/x']"),
    ("", "filesystem.rw = ['.']\nfilesystem.ro = ['..']", "filesystem.rw = ['.']"),
    ("", "filesystem.exclude = ['!~/.ssh']", "filesystem.rw = ['!~/.cache']"),
    ("", "filesystem.ro = ['!.git/hooks']", "filesystem.exclude = ['.git/hooks']"),
    ("", "filesystem.rw = ['.git/hooks/post-checkout']", "filesystem.ro = ['.git/hooks']"),
    (
        "filesystem.exclude = ['keys']",
        "filesystem.ro = ['keys/a']",
        "filesystem.exclude = ['keys/a']",
    ),
    ("filesystem.ro = ['ci']", "filesystem.rw = ['ci/a']", "filesystem.rw = ['src/a']"),
    (
        "filesystem.exclude = ['**/*.key']",
        "filesystem.rw = ['a.key']",
        "filesystem.exclude = ['a.key']",
    ),
    ("filesystem.exclude = ['a/*.key']", "filesystem.rw = ['**']", "filesystem.rw = ['b/*.key']"),
];

#[test]
fn a_project_needs_trust_when_it_widens_and_none_when_it_restricts() {
    for (global, widens, restricts) in CASES {
        let world = |project: &str| {
            World::new()
                .global(&format!("# global\n{global}"))
                .project(&format!("# project\n{project}"))
        };
        assert!(!asked(&world(widens)).is_empty(), "must ask: {global:?} then {widens:?}");
        assert_eq!(
            asked(&world(restricts)),
            [""; 0],
            "must not ask: {global:?} then {restricts:?}"
        );
        // In the user's own file, the same text needs no trust.
        let world = World::new().global(&format!("# global\n{widens}"));
        assert!(world.load().is_ok(), "{widens:?}");
    }
}

#[test]
fn a_project_needs_trust_when_its_links_lead_outside() {
    for (target, rule, asks) in [
        ("/etc", "rw = ['link']", true),
        ("..", "rw = ['link/x']", true),
        ("src", "rw = ['link']", false),
        ("/etc", "rw = ['li*']", true),
        ("/etc", "rw = ['*/passwd']", true),
        ("/etc", "rw = ['**']", true),
        ("/etc", "ro = ['**/tsconfig.json']", false),
        ("/etc", "ro = ['*.json']", false),
        ("/etc", "exclude = ['link']", false),
        ("nowhere", "rw = ['link']", true),
        ("src", "rw = ['li*']", false),
    ] {
        let world = World::new()
            .file("home/project/src/x", "")
            .link("home/project/link", target)
            .project(&format!("filesystem.{rule}"));
        assert_eq!(!asked(&world).is_empty(), asks, "{rule} with a link to {target}");
    }
}

#[test]
fn a_project_needs_trust_when_a_glob_climbs_from_a_link() {
    // `link/..` is the parent of the link's target, not the directory that contains the link.
    let world = World::new().file("home/project/a/b/x", "").link("home/project/a/b/link", "../..");
    let world = world.project("filesystem.rw = ['a/b/*/../x']");
    assert_eq!(asked(&world), ["filesystem.rw"]);
    assert_eq!(asked(&world.project("filesystem.rw = ['a/b/*/x']")), [""; 0]);
}

#[test]
fn a_project_needs_trust_when_a_link_hides_the_repository() {
    let world = World::new()
        .file("home/project/.git/hooks/x", "")
        .link("home/project/innocent", ".git")
        .project("filesystem.rw = ['innocent/hooks/x']");
    assert_eq!(asked(&world), ["filesystem.rw"]);
    let elsewhere = World::new()
        .file("home/project/.git", "gitdir: repo")
        .file("home/project/repo/HEAD", "")
        .file("home/project/repo/objects/x", "")
        .file("home/project/repo/refs/x", "")
        .project("filesystem.rw = ['repo/hooks']");
    assert_eq!(asked(&elsewhere), ["filesystem.rw"]);
}

#[test]
fn a_project_needs_trust_when_it_is_the_home() {
    let mut world = World::new().file("home/sandbox.toml", "filesystem.ro = ['.ssh/id_rsa']");
    world.host.cwd = world.host.home.clone();
    assert_eq!(asked(&world), ["filesystem.ro"]);
    let mut world = World::new().file("home/sandbox.toml", "filesystem.exclude = ['.ssh']");
    world.host.cwd = world.host.home.clone();
    assert_eq!(asked(&world), [""; 0]);
}

#[test]
fn session_keys_ask_for_trust_as_soon_as_they_are_enforced() {
    let world = World::new();
    let dirs = BaseDirs { cwd: world.cwd(), home: world.host.home.clone() };
    let found = crate::config::Found {
        layer: crate::config::Layer::Project,
        path: world.cwd().join("sandbox.toml"),
        base: world.cwd(),
        named: false,
    };
    let text = "image = 'x'\ncow = true\nservices.dockerd = 'auto'\n[secrets.a]\nenv_var = 'A'\n[host_commands]\nenabled = true";
    let file = file::parse(text, file::Syntax::Toml, &found.path).unwrap();
    let values = Values::of_file(&file, &found, &dirs).unwrap();
    let below = crate::config::merge::builtin(&dirs);
    let keys: Vec<_> = widenings(&below, &values, &dirs).into_iter().map(|one| one.key).collect();
    assert_eq!(keys, ["image", "services", "secrets.a", "host_commands"]);
    // Keys without effect on the local sandbox are listed as skipped.
    let mut config = below;
    crate::config::merge::apply(&mut config, values, &dirs);
    let skipped: Vec<_> = config.skipped.iter().map(|key| key.value.as_str()).collect();
    assert_eq!(skipped, ["image", "services", "host_commands"]);
}

#[test]
fn widenings_name_the_key_the_thing_and_the_line() {
    let world = World::new().project(
        "docker = true\nfilesystem = { presets = ['!@all'], rw = [\"../\\u001b[2Jx\"] }\n\
         commands = { git = true, 'a`\\n' = '/etc/passwd' }",
    );
    let text = world.load().unwrap_err().to_string();
    insta::assert_snapshot!(text.replace(&world.root.display().to_string(), ""), @r#"
the project's `/home/project/sandbox.toml` is not trusted, and widens the sandbox:
  `docker` shares the daemon's socket (/home/project/sandbox.toml:1)
  `filesystem.presets` turns `@base`, `@secrets`, `@git` off (/home/project/sandbox.toml:2)
  `filesystem.rw` opens `../\u{1b}[2Jx`, outside the project (/home/project/sandbox.toml:2)
  `commands.a`\\n` shows `/etc/passwd`, outside the project (/home/project/sandbox.toml:3)
  `commands.git` replaces `@git` by `true` (/home/project/sandbox.toml:3)
"#);
}

#[test]
fn trust_holds_for_one_content_of_one_file() {
    let world = World::new().project("docker = true");
    let path = world.cwd().join("sandbox.toml");
    let Err(ConfigError::Untrusted { file, digest, .. }) = world.load() else { panic!("must ask") };
    assert_eq!(file, path);

    let once = Request { trust: true, ..Request::default() };
    assert!(load(&world.host, &once).is_ok());
    assert!(world.load().is_err(), "`--trust` is for one run");

    record_digest(&world.host, &file, &digest).unwrap();
    assert!(world.load().is_ok());
    assert!(is_trusted(&world.host, &path, b"docker = true"));
    assert_eq!(list(&world.host).unwrap(), [TrustRecord { path: path.clone(), digest }]);

    let world = world.project("docker = true # changed");
    assert!(world.load().is_err(), "another content is asked for again");
    record(&world.host, &path, b"docker = true # changed").unwrap();
    assert!(world.load().is_ok());

    assert_eq!(revoke(&world.host, &path).unwrap(), 2);
    assert!(world.load().is_err());
    assert_eq!(list(&world.host).unwrap(), []);
}

#[test]
fn trust_is_not_borrowed_when_a_link_leads_to_a_trusted_file() {
    let world = World::new().file("other/sandbox.toml", "docker = true");
    let world = world.link("home/project/sandbox.toml", "../../other/sandbox.toml");
    record(&world.host, &world.root.join("other/sandbox.toml"), b"docker = true").unwrap();
    assert_eq!(asked(&world), ["docker"]);
    record(&world.host, &world.cwd().join("sandbox.toml"), b"docker = true").unwrap();
    assert_eq!(asked(&world), [""; 0]);
}

#[test]
fn records_are_private_and_distrusted_when_others_can_write_them() {
    let world = World::new().project("docker = true");
    let path = world.cwd().join("sandbox.toml");
    record(&world.host, &path, b"docker = true").unwrap();
    let dir = world.host.state_dir().unwrap().join("trust");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.iter().map(|file| mode(file)).collect::<Vec<_>>(), [0o600]);
    assert!(world.load().is_ok());
    fs::write(&files[0], "/another/sandbox.toml").unwrap();
    assert!(world.load().is_err(), "a record that names another file is none");
    assert_eq!(list(&world.host).unwrap(), []);
    record(&world.host, &path, b"docker = true").unwrap();
    assert!(world.load().is_ok());

    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(world.load().is_err());
    assert!(matches!(record(&world.host, &path, b""), Err(TrustError::Shared { .. })));
}

#[test]
fn records_need_a_home_and_a_file() {
    let mut world = World::new();
    let missing = world.root.join("nowhere/sandbox.toml");
    assert!(matches!(record(&world.host, &missing, b""), Err(TrustError::File { .. })));
    assert_eq!(revoke(&world.host, &missing).unwrap(), 0);
    world.host.home = None;
    let path = world.cwd().join("sandbox.toml");
    assert!(matches!(record(&world.host, &path, b""), Err(TrustError::NoState)));
    assert!(!is_trusted(&world.host, &path, b""));
}

#[test]
fn a_project_needs_trust_when_it_gives_a_container_the_hosts_network() {
    for (text, keys) in [
        ("agent.command = 'x'\nnetwork = 'host'", &["network"][..]),
        ("backend = 'docker'\nnetwork = true", &["network"]),
        ("backend = 'docker'\nnetwork = 'none'", &[]),
        ("backend = 'bwrap'\nagent.command = 'x'\nnetwork = 'host'", &[]),
        ("network = 'host'", &[]),
        ("backend = 'docker'\nnetwork = 'bridge'", &["network"]),
    ] {
        assert_eq!(asked(&World::new().project(text)), keys, "{text}");
    }
}
