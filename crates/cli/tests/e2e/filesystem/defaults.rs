//! Defaults without configuration: the project is writable, home is readable, secrets are hidden.

use std::fs;

use testkit::{User, World, need, user};

use crate::probe::{assert_views, is_plain, sh};

#[test]
fn project_is_writable_and_everything_else_is_read_only() {
    let world = World::new()
        .file("project/src/main.rs", "x")
        .file("home/notes", "x")
        .file("home/work/other/file", "x")
        .file("outside/file", "x");
    assert_views(
        &world,
        &[],
        &[
            ("project", "rw"),
            ("project/src", "rw"),
            ("project/src/main.rs", "rw"),
            ("home", "ro"),
            ("home/notes", "ro"),
            ("home/work/other", "ro"),
            ("outside", "ro"),
            ("outside/file", "ro"),
        ],
    );
    world.run(sh("echo new > made && rm src/main.rs && mkdir -p a/b && mv a c")).succeeds();
    assert_eq!(world.read("project/made"), "new\n");
    assert!(world.has("project/c/b") && !world.has("project/src/main.rs"));
}

#[test]
fn system_is_read_only() {
    let world = World::new();
    let tried = "for d in / /usr /usr/bin /etc /var /opt; do touch $d/.probe 2>/dev/null && echo $d; done; true";
    world.run(sh(tried)).succeeds().stdout("");
    world.run(["cat", "/etc/passwd"]).succeeds().stdout_contains("root:");
}

#[test]
fn secrets_of_home_are_hidden_and_their_neighbours_are_not() {
    let hidden = [
        ".ssh/id_ed25519",
        ".gnupg/secring.gpg",
        ".aws/credentials",
        ".config/gcloud/application_default_credentials.json",
        ".azure/accessTokens.json",
        ".kube/config",
        ".docker/config.json",
        ".config/containers/auth.json",
        ".config/gh/hosts.yml",
        ".config/glab-cli/config.yml",
        ".git-credentials",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".cargo/credentials.toml",
        ".gem/credentials",
        ".m2/settings.xml",
        ".terraform.d/credentials.tfrc.json",
        ".vault-token",
        ".config/rclone/rclone.conf",
        ".password-store/mail.gpg",
        ".local/share/keyrings/login.keyring",
        ".mozilla/firefox/profiles.ini",
        ".config/google-chrome/Default/Cookies",
        ".config/Bitwarden CLI/data.json",
        ".bash_history",
        ".zsh_history",
        ".local/share/fish/fish_history",
        ".pgpass",
        ".cache/huggingface/token",
        ".Xauthority",
    ];
    let mut world = World::new();
    for path in hidden {
        world = world.file(format!("home/{path}"), "secret");
    }
    let beside =
        [".config/app/settings", ".docker/daemon.json", ".m2/repository/jar", ".gitconfig"];
    for path in beside {
        world = world.file(format!("home/{path}"), "open");
    }
    let homed = |path: &str| format!("home/{path}");
    let paths: Vec<String> = hidden.into_iter().chain(beside).map(homed).collect();
    let views = ["hidden"].repeat(hidden.len()).into_iter().chain(["ro"].repeat(beside.len()));
    let expected: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(views).collect();
    assert_views(&world, &[], &expected);
    world.run(sh("grep -r secret ~ 2>/dev/null")).stdout("");
}

#[test]
fn hidden_directory_cannot_be_filled_or_removed() {
    let world = World::new().file("home/.ssh/id_ed25519", "key");
    let tried = "touch ~/.ssh/authorized_keys || rm -rf ~/.ssh || mv ~/.ssh ~/x || mkdir ~/.ssh/x";
    world.run(sh(tried)).fails();
    assert_eq!(world.read("home/.ssh/id_ed25519"), "key");
    assert!(!world.has("home/.ssh/authorized_keys"));
}

#[test]
fn secret_that_appears_during_a_run_is_hidden_in_a_readable_home() {
    let world = World::new().file("home/plain", "x");
    let mut run = world.spawn(sh("echo ready; read go; cat ~/.netrc ~/later"));
    run.wait_for("ready");
    world.write("home/.netrc", "password");
    world.write("home/later", "visible");
    run.send("\n");
    let run = run.wait().stdout_contains("visible");
    // Only the overlay on home can hide paths that do not exist yet.
    if !is_plain(&world) {
        run.stdout_lacks("password");
    }
}

#[test]
fn systems_own_secrets_are_out_of_reach_for_everybody() {
    let world = World::new();
    world.run(["cat", "/etc/shadow"]).stdout("");
    if user() == User::Root {
        world.host(["cat", "/etc/shadow"]).succeeds().stdout_contains("root:");
    }
    world
        .run(sh("grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status"))
        .succeeds()
        .stdout("CapEff:\t0000000000000000\nNoNewPrivs:\t1\n");
}

#[test]
fn caches_are_writable_but_programs_in_them_are_not() {
    let world = World::new()
        .file("home/.cargo/registry/index", "x")
        .file("home/.cargo/bin/tool", "x")
        .file("home/.cargo/env", "x")
        .file("home/.cargo/config.toml", "x")
        .file("home/.npm/_cacache/x", "x")
        .file("home/go/pkg/mod/x", "x")
        .file("home/go/bin/gopls", "x")
        .file("home/.bun/bin/bun", "x")
        .file("home/.bun/install/cache/x", "x")
        .file("home/.cache/pip/x", "x")
        .file("home/.claude/settings.json", "x")
        .file("home/.codex/auth.json", "x");
    assert_views(
        &world,
        &[],
        &[
            ("home/.cargo", "rw"),
            ("home/.cargo/registry/index", "rw"),
            ("home/.cargo/bin", "ro"),
            ("home/.cargo/bin/tool", "ro"),
            ("home/.cargo/env", "ro"),
            ("home/.cargo/config.toml", "ro"),
            ("home/.npm/_cacache", "rw"),
            ("home/go/pkg/mod", "rw"),
            ("home/go/bin/gopls", "ro"),
            ("home/.bun/bin", "ro"),
            ("home/.bun/install/cache", "rw"),
            ("home/.cache/pip", "rw"),
            ("home/.claude/settings.json", "rw"),
            ("home/.codex", "rw"),
        ],
    );
    world.run(["mv", &world.path("home/.cargo/bin").display().to_string(), "stolen"]).fails();
    world.run(sh("mv ~/.cargo ~/.cargo-old")).fails();
}

#[test]
fn directory_of_path_is_read_only_when_it_lies_in_a_cache() {
    let world =
        World::new().file("home/.cache/tools/bin/tool", "x").file("home/.cache/tools/data", "x");
    let path = format!("{}:/usr/bin:/bin", world.path("home/.cache/tools/bin").display());
    let with_path = world.clone().env("PATH", path);
    let inside = |view| [("home/.cache/tools/bin", view), ("home/.cache/tools/data", "rw")];
    assert_views(&with_path, &[], &inside("ro"));
    assert_views(&world, &[], &inside("rw"));
}

#[test]
fn lint_settings_are_read_only_until_their_preset_is_taken_back() {
    let world = World::new()
        .file("project/tsconfig.json", "x")
        .file("project/pyproject.toml", "x")
        .file("project/.golangci.yml", "x")
        .file("free.toml", "filesystem.presets = ['!@lint/ts']\n");
    let views = |ts| {
        [
            ("project/tsconfig.json", ts),
            ("project/pyproject.toml", "ro"),
            ("project/.golangci.yml", "ro"),
        ]
    };
    assert_views(&world, &[], &views("ro"));
    let free = world.path("free.toml").display().to_string();
    assert_views(&world, &["-c", &free], &views("rw"));
}

#[test]
fn run_leaves_nothing_behind_in_the_tree() {
    need("git");
    let world = World::new()
        .file("project/a/keep", "x")
        .file("project/a/hide", "x")
        .file(
            "project/sandbox.toml",
            "[filesystem]\nro = ['a/keep', 'not/there']\nexclude = ['a/hide', 'nor/this']\n",
        )
        .git_init("project");
    let before = listing(&world);
    for rules in [&[][..], &["--ro", "x/y", "--exclude", "z", "--rw", "w/v", "--rw", "~/later"]] {
        world.run(rules.iter().copied().chain(["true"])).succeeds();
        world.run(rules.iter().copied().chain(["sh", "-c", "exit 3"])).code(3);
    }
    world.host(["git", "status", "--porcelain", "--ignored"]).succeeds().stdout("");
    assert_eq!(listing(&world), before);
}

/// Returns every path of the project and of home, apart from the run records.
fn listing(world: &World) -> Vec<String> {
    let find = ["find", "project", "home", "-path", "home/.local", "-prune", "-o", "-print"];
    let found = world.clone().cwd("").host(find).succeeds().output();
    let mut lines: Vec<String> = found.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn run_leaves_no_mount_on_the_host() {
    let world = World::new().file("project/a", "x");
    world.run(["--ro", "a", "true"]).succeeds();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&world.path("").display().to_string()), "{mounts}");
}

#[test]
fn records_are_out_of_reach_on_the_very_first_run() {
    let look = "ls ~/.local/state/agent-sandbox; echo mine > ~/.local/state/agent-sandbox/runs/x; touch ~/seen";
    let fresh = || World::new().dir("home");
    for cwd in ["home", "project"] {
        let world = fresh().cwd(cwd);
        let run = world.run(["--ro", "!~", "--rw", "~", "sh", "-c", look]);
        assert!(!run.messages().contains("moved aside"), "{run}");
        assert!(world.has("home/seen"), "home is writable, and still\n{run}");
        assert!(!world.has("home/.local/state/agent-sandbox/runs/x"), "{run}");
        world.run(["true"]).succeeds();
    }
}
