//! The local sandbox alone: a build without features.

use testkit::World;

#[test]
fn key_is_refused_when_its_feature_is_left_out() {
    let secrets = "[secrets.k]\nmode = 'inject'\nenv_var = 'KEY'\nfrom_env = 'HOME'\n";
    for (config, key, feature) in [
        ("cow = true\n", "cow", "layers"),
        ("[network]\nallowed_hosts = ['a.example.com']\n", "network.allowed_hosts", "proxy"),
        (secrets, "secrets", "proxy"),
    ] {
        let world = World::new().file("project/sandbox.toml", config);
        let run = world.run(["--trust", "true"]).code(125).stdout("");
        run.stderr_contains(&format!("`{key}` needs the feature `{feature}`"));
        world.run(["--trust", "--dry-run", "true"]).succeeds();
    }
    // The control: a key that needs no feature.
    World::new().file("project/sandbox.toml", "network = false\n").run(["true"]).succeeds();
}

#[test]
fn command_is_absent_when_its_feature_is_left_out() {
    let world = World::new();
    let help = world.run(["--help"]).succeeds().output();
    for word in ["fs", "secret", "up", "image", "host-command"] {
        assert!(!help.lines().any(|line| line.split_whitespace().next() == Some(word)), "{word}");
        let refused = world.run([word, "x"]).code(2).stdout("");
        refused.stderr_contains(&format!("this build has no `{word}`"));
        world.run(["exec", word]).code(127).stderr_contains("command not found");
    }
    assert!(help.contains("\n  why "), "{help}");
}
