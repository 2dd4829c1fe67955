//! Other credentials of a provider whose key the proxy holds: they are hidden, or named at the start.

use std::ffi::OsString;

use testkit::{Run, World};

use super::provider::KEY;

/// Prefix of every value that the command must not see.
const HUSH: &str = "hush-";

/// Prints the environment and every file of the home directory.
const LOOK: &str = "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/1/environ; \
                    find ~ -type f -exec cat {} + 2>/dev/null; true";

/// Provider, with its variable, others that hold its keys, and the files of its logins.
type Row = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const PROVIDERS: &[Row] = &[
    (
        "anthropic",
        "ANTHROPIC_API_KEY",
        &["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"],
        &[".claude/.credentials.json", ".local/share/opencode/auth.json"],
    ),
    (
        "openai",
        "OPENAI_API_KEY",
        &["CODEX_API_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_ADMIN_KEY"],
        &[".codex/auth.json", ".local/share/opencode/auth.json", ".pi/agent/auth.json"],
    ),
    (
        "gemini",
        "GEMINI_API_KEY",
        &["GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        &[".gemini/oauth_creds.json", ".gemini/.env", ".local/share/opencode/auth.json"],
    ),
];

/// Creates a world with a key in the store, and with all other credentials of a provider in its home directory.
fn world((provider, variable, variables, files): &Row, more: &str) -> World {
    let config = format!(
        "{more}\n[secrets.{provider}]\nmode = 'proxy'\nenv_var = '{variable}'\nupstream_url = 'http://127.0.0.1:9'\n"
    );
    let mut world =
        World::new().file("home/policy.toml", config).env(*variable, format!("{HUSH}{variable}"));
    for name in *variables {
        world = world.env(*name, format!("{HUSH}{name}"));
    }
    for file in *files {
        world = world.file(format!("home/{file}"), format!("{HUSH}{file}\n"));
    }
    world.run_with_input(KEY, ["secret", "set", provider]).succeeds();
    world
}

fn run(world: &World, flags: &[&str], script: &str) -> Run {
    let policy = [OsString::from("-c"), world.path("home/policy.toml").into()];
    let rest = flags.iter().copied().chain(["sh", "-c", script]).map(OsString::from);
    world.run(policy.into_iter().chain(rest))
}

#[cfg(feature = "setup")]
#[test]
fn every_variable_and_login_of_a_provider_is_hidden_when_its_key_goes_by_the_proxy() {
    for row in PROVIDERS {
        let (_, variable, variables, files) = row;
        for (more, flags) in [
            ("", &[][..]),
            ("network = false", &[]),
            ("filesystem.presets = ['!@secrets']", &[]),
            ("", &["--cow"]),
            ("", &["--cow=agentfs"]),
            ("", &["--cow=all"]),
        ] {
            let world = world(row, more);
            let told = run(&world, flags, LOOK).succeeds();
            told.stdout_contains(&format!("{variable}=session-"))
                .stdout_lacks(HUSH)
                .stdout_lacks(KEY)
                .stderr_lacks("credentials");
        }
        // Without the secret, the command has all of them.
        let bare = world(row, "").run(["sh", "-c", LOOK]).succeeds().output();
        for name in files.iter().chain(variables.iter()) {
            assert!(bare.contains(&format!("{HUSH}{name}")), "{name}: {bare}");
        }
    }
}

#[test]
fn logins_stay_hidden_in_a_session_that_is_up() {
    for row in PROVIDERS {
        let world = world(row, "");
        let policy = world.path("home/policy.toml").display().to_string();
        world.run(["-c", &policy, "up"]).succeeds();
        let told = world.run(["exec", "-s", "project", "sh", "-c", LOOK]);
        world.run(["down", "--all"]).succeeds();
        told.succeeds().stdout_contains(&format!("{}=session-", row.1)).stdout_lacks(HUSH);
    }
}

#[test]
fn logins_are_hidden_where_variables_move_them() {
    for (number, variable, dir, file) in [
        (0, "CLAUDE_CONFIG_DIR", "home/other", ".credentials.json"),
        (0, "XDG_DATA_HOME", "home/other", "opencode/auth.json"),
        (1, "CODEX_HOME", "home/other dir [1]", "auth.json"),
        (2, "GEMINI_CLI_HOME", "home/other", ".gemini/oauth_creds.json"),
    ] {
        let world = world(&PROVIDERS[number], "");
        world.write(format!("{dir}/{file}"), format!("{HUSH}moved\n"));
        let place = world.path(dir).display().to_string();
        let set = format!("{variable}={place}");
        let bare = world.run(["--env", &set, "sh", "-c", LOOK]).succeeds();
        bare.stdout_contains(&format!("{HUSH}moved"));
        run(&world, &["--env", &set], LOOK).succeeds().stdout_lacks(HUSH);
        let world = world.env(variable, &place);
        world.run_with_input(KEY, ["secret", "set", PROVIDERS[number].0]).succeeds();
        run(&world, &[], LOOK).succeeds().stdout_lacks(HUSH);
    }
}

#[test]
fn credentials_that_a_rule_opens_are_named_at_the_start() {
    let world = world(&PROVIDERS[0], "");
    let login = "~/.claude/.credentials.json";
    let path = world.path("home/.claude/.credentials.json").display().to_string();
    let taken_back = format!("!{login}");
    for (flags, shown, named) in [
        (
            &["--env", "ANTHROPIC_AUTH_TOKEN"][..],
            "hush-ANTHROPIC_AUTH_TOKEN",
            "`ANTHROPIC_AUTH_TOKEN` (flag --env",
        ),
        (
            &["--env", "ANTHROPIC_AUTH_TOKEN=hush-set"],
            "hush-set",
            "`ANTHROPIC_AUTH_TOKEN` (flag --env",
        ),
        (&["--rw", login], "hush-.claude/.credentials.json", "(flag --rw"),
        (&["--ro", &path], "hush-.claude/.credentials.json", "(flag --ro"),
        (&["--exclude", &taken_back], "hush-.claude/.credentials.json", "(flag --exclude"),
    ] {
        let told = run(&world, flags, LOOK).succeeds();
        let told = told.stdout_contains(shown).stderr_contains(named);
        let lines = told.messages();
        let notes = lines.lines().filter(|line| line.contains("the command can read credentials"));
        assert_eq!(notes.count(), 1, "{lines}");
    }
    // A rule for the directory does not affect the login, and the variable is always replaced.
    for flags in
        [&["--rw", "~/.claude"][..], &["--env", "ANTHROPIC_API_KEY"], &["--env", "CLAUDE_API_KEY"]]
    {
        run(&world, flags, LOOK).succeeds().stdout_lacks(HUSH).stderr_lacks("credentials");
    }
}

#[test]
fn credentials_that_cannot_be_hidden_are_named_at_the_start() {
    let (claude, injected) = (
        "[[mounts]]\nhost = '~/.claude'\ncontainer = '/run/claude'\nmode = 'ro'",
        "[secrets.other]\nenv_var = 'ANTHROPIC_AUTH_TOKEN'\nfrom_file = 'policy.toml'",
    );
    let row: Row = ("anthropic", "ANTHROPIC_API_KEY", &[], &[".claude/.credentials.json"]);
    for (more, named) in
        [(claude, ".claude/.credentials.json` ("), (injected, "`ANTHROPIC_AUTH_TOKEN` (")]
    {
        let told = run(&world(&row, more), &[], "true").succeeds();
        told.stderr_contains("can read credentials").stderr_contains(named);
    }
    let settings = |text: &str| {
        let world = world(&row, "").file("home/.claude.json", text);
        run(&world, &[], "true").succeeds()
    };
    settings(r#"{"primaryApiKey": "sk-x"}"#).stderr_contains(".claude.json` (`primaryApiKey`)");
    settings(r#"{"numStartups": 1}"#).stderr_lacks("credentials");
}

#[test]
fn the_file_that_the_proxy_reads_a_key_from_is_hidden() {
    let row: Row = ("anthropic", "ANTHROPIC_API_KEY", &[], &["key"]);
    let world = world(&row, "").file(
        "home/policy.toml",
        "[secrets.a]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nfrom_file = 'key'\n",
    );
    run(&world, &[], LOOK).succeeds().stdout_lacks("hush-key").stderr_lacks("credentials");
    world.run(["sh", "-c", LOOK]).succeeds().stdout_contains("hush-key");
    let lines = format!("ANTHROPIC_API_KEY={KEY}\n");
    let world = world.file("project/.env", lines).file(
        "home/policy.toml",
        "[secrets.a]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nfrom_env_file = '../project/.env'\n",
    );
    run(&world, &[], "true").succeeds().stderr_contains("project/.env` (");
    run(&world, &["--exclude", ".env"], "cat .env")
        .stdout_lacks(KEY)
        .stderr_lacks("credentials without the proxy");
}

#[test]
fn variables_of_a_provider_are_hidden_in_every_spelling() {
    for (number, names) in [
        (0, &["anthropic_api_key", "ANTHROPIC_API_KEY_2", "ANTHROPIC_API_KEYS"][..]),
        (1, &["OPENAI_API_KEY_2", "OPENAI_API_KEY2", "OPENAI_API_KEYS_1", "Openai_Api_Key"]),
        (2, &["GEMINI_API_KEYS", "google_api_key", "GOOGLE_API_KEY_3"]),
    ] {
        let hush = |world: World| {
            names.iter().fold(world, |world, name| world.env(*name, format!("{HUSH}{name}")))
        };
        let world = hush(world(&PROVIDERS[number], ""));
        run(&world, &[], LOOK).succeeds().stdout_lacks(HUSH);
        // Without the secret, they are not changed.
        let bare = hush(World::new()).run(["--env", names[0], "env"]).succeeds();
        bare.stdout_contains(&format!("{HUSH}{}", names[0]));
    }
    // A variable that holds no credential is kept.
    let world = world(&PROVIDERS[1], "").env("OPENAI_MODELS", "m");
    run(&world, &[], "echo $OPENAI_MODELS").succeeds().stdout("m\n");
}

#[test]
fn only_credentials_that_the_command_can_read_are_named_at_the_start() {
    let policy = |file: &str| {
        format!(
            "[secrets.a]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nfrom_env_file = '{file}'\n"
        )
    };
    let lines = format!("ANTHROPIC_API_KEY={KEY}\n");
    let hidden = World::unseen();
    let of_tmp = hidden.path("keys.env").display().to_string();
    hidden.write("keys.env", &lines);
    for (file, flags, named) in [
        ("../project/keys/a.env", &[][..], true),
        ("../project/keys/a.env", &["--exclude", "keys"], false),
        ("../project/keys/a.env", &["--exclude", "keys/*.env"], false),
        (".aws/credentials", &[], false),
        (&of_tmp, &[], !of_tmp.starts_with("/tmp")),
    ] {
        let world = World::new()
            .file("project/keys/a.env", &lines)
            .file("home/.aws/credentials", &lines)
            .file("home/policy.toml", policy(file));
        let told = run(&world, flags, "true").succeeds().messages();
        assert_eq!(told.contains("can read credentials"), named, "{file} {flags:?}: {told}");
    }
    // Settings with a key, in a directory that a rule hides.
    let row: Row = ("anthropic", "ANTHROPIC_API_KEY", &[], &[]);
    let world =
        world(&row, "").file("home/.claude/settings.json", r#"{"env":{"ANTHROPIC_API_KEY":"x"}}"#);
    run(&world, &[], "true").succeeds().stderr_contains("settings.json` (");
    run(&world, &["--exclude", "~/.claude"], "true")
        .succeeds()
        .stderr_lacks("credentials without the proxy");
}
