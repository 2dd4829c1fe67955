//! Precedence of rules and layers.

use testkit::World;

use crate::probe::{assert_views, sh};

fn world() -> World {
    World::new()
        .file("project/src/lib.rs", "x")
        .file("project/src/gen/out.rs", "x")
        .file("project/.env", "x")
        .file("project/docs/a.txt", "x")
        .file("home/diary", "x")
        .file("home/work/notes", "x")
        .file("outside/data/file", "x")
}

#[test]
fn flags_make_paths_read_only_writable_or_hidden() {
    let outside = "../outside/data";
    assert_views(
        &world(),
        &[
            "--ro",
            "src",
            "--exclude",
            ".env",
            "--rw",
            "~/work",
            "--rw",
            outside,
            "--exclude",
            "~/diary",
        ],
        &[
            ("project/src", "ro"),
            ("project/src/gen/out.rs", "ro"),
            ("project/docs", "rw"),
            ("project/.env", "hidden"),
            ("home/work/notes", "rw"),
            ("home/diary", "hidden"),
            ("outside/data/file", "rw"),
        ],
    );
}

#[test]
fn configuration_rules_paths_in_every_syntax() {
    for (file, text) in [
        ("project/.agent-sandbox.json", r#"{"filesystem": {"ro": ["src"], "exclude": [".env"]}}"#),
        (
            "project/.agent-sandbox.jsonc",
            "{ // why\n \"filesystem\": { \"ro\": [\"src\",], /* keys */ \"exclude\": [\".env\"] } }",
        ),
        ("project/sandbox.toml", "[filesystem]\nro = ['src']\nexclude = ['.env']\n"),
        (
            "home/.config/agent-sandbox/config.toml",
            "filesystem = { ro = ['src'], exclude = ['.env'] }\n",
        ),
        (
            "home/.config/agent-sandbox/config.json",
            r#"{"filesystem": {"ro": ["src"], "exclude": [".env"]}}"#,
        ),
    ] {
        let world = world().file(file, text);
        let views = [
            ("project/src/lib.rs", "ro"),
            ("project/.env", "hidden"),
            ("project/docs/a.txt", "rw"),
        ];
        assert_views(&world, &[], &views);
    }
}

#[test]
fn longer_path_beats_shorter_one_whatever_it_says() {
    for (flags, src, r#gen, out) in [
        (["--ro", "src", "--rw", "src/gen"], "ro", "rw", "rw"),
        (["--exclude", "src", "--rw", "src/gen"], "hidden", "rw", "rw"),
        (["--ro", "src/gen", "--exclude", "src/gen/out.rs"], "rw", "ro", "hidden"),
        (["--exclude", "src/gen", "--ro", "src"], "ro", "hidden", "hidden"),
    ] {
        let views = [
            ("project/src/lib.rs", src),
            ("project/src/gen", r#gen),
            ("project/src/gen/out.rs", out),
        ];
        assert_views(&world(), &flags, &views);
    }
}

#[test]
fn exact_path_beats_glob_and_the_stricter_view_the_other() {
    for (flags, view) in [
        (["--exclude", "sr?/lib.rs", "--rw", "src/lib.rs"], "rw"),
        (["--exclude", "**/*.rs", "--ro", "src/lib.rs"], "ro"),
        (["--ro", "src/lib.rs", "--rw", "src/lib.rs"], "ro"),
        (["--exclude", "src/lib.rs", "--ro", "src/lib.rs"], "hidden"),
        (["--rw", "src/*.rs", "--ro", "src/l*"], "ro"),
    ] {
        assert_views(&world(), &flags, &[("project/src/lib.rs", view)]);
    }
}

#[test]
fn stricter_rule_of_an_earlier_layer_beats_a_looser_later_one() {
    let world = world().file("home/.config/agent-sandbox/config.toml", "filesystem.ro = ['src']\n");
    assert_views(&world, &["--rw", "src"], &[("project/src", "ro")]);
    assert_views(&world, &["--exclude", "src"], &[("project/src", "hidden")]);
}

#[test]
fn flag_that_loses_says_which_flag_takes_the_rule_back() {
    let world = world().file("project/sandbox.toml", "filesystem.ro = ['src']\n");
    let run = world.run(["--rw", "src", "touch", "src/x"]).fails();
    run.stderr_contains("note: ").stderr_contains("remove that rule with `--ro '!src'`");
    world.run(["--rw", "src", "--ro", "!src", "touch", "src/x"]).succeeds().stderr_lacks("note");
    world.run(["--ro", "!src", "touch", "src/x"]).succeeds().stderr("");
}

#[test]
fn flag_takes_back_the_line_of_a_preset() {
    let world = world().file("home/.netrc", "x").file("home/.ssh/config", "x");
    world.run(["--ro", "~/.netrc", "true"]).succeeds().stderr_contains("--exclude '!~/.netrc'");
    assert_views(
        &world,
        &["--exclude", "!~/.netrc"],
        &[("home/.netrc", "ro"), ("home/.ssh", "hidden")],
    );
    assert_views(&world, &["--exclude", "!~/.ssh", "--rw", "~/.ssh"], &[("home/.ssh", "rw")]);
}

#[test]
fn later_layer_takes_back_a_rule_of_an_earlier_one() {
    let world = world()
        .file("home/.config/agent-sandbox/config.toml", "filesystem.exclude = ['docs', '.env']\n")
        .file("project/sandbox.toml", "filesystem.exclude = ['!docs']\n");
    let views = |docs| [("project/docs", docs), ("project/.env", "hidden")];
    assert_views(&world, &["--trust"], &views("rw"));
    let without = world.path("empty.toml").display().to_string();
    world.write("empty.toml", "network = true\n");
    assert_views(&world, &["-c", &without], &views("hidden"));
}

#[test]
fn presets_are_taken_back_by_name() {
    let world = world().file("home/.netrc", "x").file("home/.cargo/registry/x", "x");
    for (presets, netrc, cargo, project) in [
        ("'!@secrets'", "ro", "rw", "rw"),
        ("'!@caches'", "hidden", "ro", "rw"),
        ("'!@all'", "ro", "ro", "ro"),
        ("'!@all', '@base'", "ro", "ro", "rw"),
    ] {
        let config = world.path("presets.toml").display().to_string();
        world.write("presets.toml", format!("filesystem.presets = [{presets}]\n"));
        let views = [("home/.netrc", netrc), ("home/.cargo/registry", cargo), ("project", project)];
        assert_views(&world, &["--config", &config], &views);
    }
}

#[test]
fn two_spellings_of_one_path_are_one_path() {
    let here = world();
    let absolute = here.path("project/src").display().to_string();
    for spelling in ["src/", "./src", "docs/../src", "src//", &absolute, "../project/src/."] {
        assert_views(&here, &["--ro", spelling, "--rw", "src"], &[("project/src/lib.rs", "ro")]);
    }
}

#[test]
fn hidden_directory_shows_its_writable_child_and_nothing_else() {
    let world = world().file("project/data/secret", "x").file("project/data/pub/file", "x");
    let flags = ["--exclude", "data", "--rw", "data/pub"];
    let run = |script| world.run(flags.into_iter().chain(sh(script)));
    run("ls data && echo kept > data/pub/new").succeeds().stdout("pub\n");
    run("touch data/other").fails();
    assert_eq!(world.read("project/data/pub/new"), "kept\n");
    world.host(["ls", "data"]).succeeds().stdout("pub\nsecret\n");
}

#[test]
fn several_paths_fit_in_one_file_and_flags_repeat() {
    let flags = ["--ro", "src", "--ro", "docs", "--exclude", ".env", "--exclude", "~/diary"];
    let views = [
        ("project/src", "ro"),
        ("project/docs", "ro"),
        ("project/.env", "hidden"),
        ("home/diary", "hidden"),
    ];
    assert_views(&world(), &flags, &views);
}
