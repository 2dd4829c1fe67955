//! S1, S2, S3, S8, R-A*: files that are written now and run later, and policy from untrusted files.

use testkit::World;

use super::{inside, outside};

#[test]
fn s1_r_a1_r_a2_files_that_run_code_later_are_named_at_the_end() {
    let files = [
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".envrc",
        ".mcp.json",
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        "AGENTS.md",
        "Makefile",
        "conftest.py",
        "build.rs",
        ".github/workflows/ci.yml",
        ".devcontainer/devcontainer.json",
        ".pre-commit-config.yaml",
        ".husky/pre-commit",
        "deep/down/.vscode/tasks.json",
        "lib/evil.pth",
    ];
    let world = World::new();
    let plant =
        format!("for f in {}; do mkdir -p \"$(dirname $f)\"; echo x > $f; done", files.join(" "));
    let run = inside(&world, &plant).succeeds();
    for file in files {
        assert!(run.messages().contains(file), "{file} is not named\n{run}");
    }
    inside(&world, "echo x > notes.txt").succeeds().stderr("");
}

#[test]
fn s1_agents_find_no_planted_settings_in_protected_places() {
    let world = World::new().file("project/.claude/settings.json", "{}");
    let plant = "echo evil > .claude/settings.json";
    world.run(["--ro", ".claude", "sh", "-c", plant]).fails();
    world
        .run([
            "--ro",
            ".claude",
            "sh",
            "-c",
            "mv .claude x && mkdir .claude && echo evil > .claude/settings.json",
        ])
        .fails();
    assert_eq!(world.read("project/.claude/settings.json"), "{}");
    inside(&world, plant).succeeds();
    assert_eq!(world.read("project/.claude/settings.json"), "evil\n");
}

#[test]
fn s2_r_a7_a_project_that_opens_something_is_refused_until_it_is_trusted() {
    for config in [
        r#"{ "filesystem": { "rw": ["~"] } }"#,
        r#"{ "filesystem": { "presets": ["!@secrets"] } }"#,
        r#"{ "filesystem": { "presets": ["!@all"] } }"#,
        r#"{ "commands": { "git": true } }"#,
        r#"{ "docker": true }"#,
        r#"{ "sockets": ["~/s"] }"#,
        r#"{ "tmp": "host" }"#,
        r#"{ "env": { "GH_TOKEN": "x" } }"#,
        r#"{ "mounts": [{ "host": "/etc", "container": "/tmp/x" }] }"#,
    ] {
        let world = World::new().file("project/.agent-sandbox.json", config);
        world.run(["true"]).code(125).stderr_contains("trust");
    }
    let world = World::new()
        .dir("home/docs")
        .file("project/.agent-sandbox.json", r#"{ "filesystem": { "rw": ["~/docs"] } }"#);
    world.run(["sh", "-c", "echo x > ~/docs/notes"]).code(125);
    world.run(["--trust", "sh", "-c", "echo x > ~/docs/notes"]).succeeds();
    let world = World::new()
        .file("project/.agent-sandbox.json", r#"{ "filesystem": { "exclude": ["x"] } }"#);
    world.run(["true"]).succeeds();
}

#[test]
fn s2_trust_ends_when_the_file_changes() {
    let world =
        World::new().file("project/.agent-sandbox.json", r#"{ "filesystem": { "rw": ["~/a"] } }"#);
    world.run(["trust"]).succeeds();
    world.run(["true"]).succeeds();
    world.write("project/.agent-sandbox.json", r#"{ "filesystem": { "rw": ["~/a", "~"] } }"#);
    world.run(["true"]).code(125);
}

#[test]
fn s2_a_sandbox_can_neither_plant_change_nor_trust_its_own_policy() {
    let wide = r#"{ "filesystem": { "rw": ["~"] } }"#;
    let world = World::new();
    let plant = format!("echo '{wide}' > .agent-sandbox.json");
    inside(&world, &plant).succeeds().stderr_contains("moved aside");
    assert!(!world.has("project/.agent-sandbox.json"));
    let world = World::new().file("project/.agent-sandbox.json", "{}");
    for attack in [
        plant.as_str(),
        "rm .agent-sandbox.json",
        "mv .agent-sandbox.json x",
        "mkdir -p ~/.config/agent-sandbox && echo '{}' > ~/.config/agent-sandbox/config.json",
        "echo x > ~/.local/state/agent-sandbox/x",
        "ls ~/.local/state/agent-sandbox | grep .",
    ] {
        inside(&world, attack).fails();
        assert_eq!(world.read("project/.agent-sandbox.json"), "{}", "{attack}");
        assert!(!world.has("home/.config/agent-sandbox/config.json"), "{attack}");
    }
    let binary = world.binary().display().to_string();
    inside(&world, &format!("{binary} trust")).stderr_lacks("panicked");
    outside(&world, &plant).succeeds();
    world.run(["true"]).code(125).stderr_contains("trust");
}

#[test]
fn s2_a_configuration_of_the_user_cannot_be_planted_where_there_was_none() {
    let wide = r#"{ "filesystem": { "rw": ["~/notes"] } }"#;
    let plant = format!(
        "mkdir -p ~/.config/agent-sandbox && echo '{wide}' > ~/.config/agent-sandbox/config.json"
    );
    let world = World::new().dir("home/.config").file("home/notes", "mine");
    world.run(["--rw", "~/.config", "sh", "-c", &plant]).succeeds().stderr_contains("moved aside");
    world
        .clone()
        .cwd("home/.config")
        .run(["sh", "-c", &plant])
        .succeeds()
        .stderr_contains("moved aside");
    inside(&world, "echo theirs > ~/notes").fails();
    outside(&world, &plant).succeeds();
    inside(&world, "echo theirs > ~/notes").succeeds();
}

#[test]
fn s3_configuration_above_the_working_directory_is_not_read() {
    let world = World::new()
        .file(".agent-sandbox.json", r#"{ "filesystem": { "exclude": ["project/sub/f"] } }"#)
        .file("project/.agent-sandbox.json", r#"{ "docker": true }"#)
        .file("project/sub/f", "text");
    world.clone().cwd("project/sub").run(["cat", "f"]).succeeds().stdout("text");
    world.run(["true"]).code(125);
}

#[test]
fn s8_a_misspelt_key_is_an_error() {
    let world = World::new()
        .file("project/.agent-sandbox.json", r#"{ "filesystem": { "exclud": ["~/x"] } }"#);
    world.run(["true"]).fails().stderr_contains("exclude");
    world.write("project/.agent-sandbox.json", r#"{ "filesystem": { "exclude": ["~/x"] } }"#);
    world.run(["true"]).succeeds();
}

#[test]
fn r_a8_the_root_comes_from_the_user() {
    let world = World::new().dir("project/sub").file("home/notes", "mine");
    let binary = world.binary().display().to_string();
    let attack = format!("cd sub && {binary} -C / --rw / sh -c 'echo theirs > ~/notes'");
    inside(&world, &attack).fails();
    assert_eq!(world.read("home/notes"), "mine");
}

#[test]
fn r_a9_variables_set_inside_do_not_reach_the_host() {
    let world = World::new();
    inside(
        &world,
        "export PATH=/evil LD_PRELOAD=/evil.so; echo x > ~/.bashrc; echo x > ~/.profile",
    )
    .fails();
    assert!(!world.has("home/.bashrc") && !world.has("home/.profile"));
    outside(&world, "echo x > ~/.bashrc").succeeds();
}

#[test]
fn s1_shell_and_login_files_cannot_be_written() {
    let world = World::new().file("home/.bashrc", "mine");
    for file in [
        ".bashrc",
        ".profile",
        ".zshrc",
        ".config/autostart/x",
        ".config/systemd/user/x",
        ".local/bin/git",
        ".gitconfig",
    ] {
        inside(&world, &format!("mkdir -p \"$(dirname ~/{file})\"; echo evil > ~/{file}")).fails();
        assert!(
            !world.has(format!("home/{file}")) || world.read(format!("home/{file}")) == "mine",
            "{file}"
        );
    }
    outside(&world, "echo evil > ~/.bashrc").succeeds();
}
