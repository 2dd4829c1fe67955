//! Patterns, and names that look like patterns.

use testkit::World;

use crate::probe::{assert_views, sh};

fn world() -> World {
    World::new()
        .file("project/a.log", "x")
        .file("project/b.log", "x")
        .file("project/c1.txt", "x")
        .file("project/cx.txt", "x")
        .file("project/deep/a.log", "x")
        .file("project/deep/er/b.log", "x")
        .file("project/.env", "x")
        .file("project/app/.env.local", "x")
}

#[test]
fn globs_match_within_a_segment_and_two_stars_across() {
    const ALL: [&str; 8] = [
        "a.log",
        "b.log",
        "c1.txt",
        "cx.txt",
        "deep/a.log",
        "deep/er/b.log",
        ".env",
        "app/.env.local",
    ];
    for (glob, hidden) in [
        ("*.log", &["a.log", "b.log"][..]),
        ("?.log", &["a.log", "b.log"]),
        ("c[0-9].txt", &["c1.txt"]),
        ("c[!0-9].txt", &["cx.txt"]),
        ("[ab].log", &["a.log", "b.log"]),
        ("*/a.log", &["deep/a.log"]),
        ("**/*.log", &["a.log", "b.log", "deep/a.log", "deep/er/b.log"]),
        ("deep/**/b.log", &["deep/er/b.log"]),
        ("**/.env*", &[".env", "app/.env.local"]),
        ("deep/**", &["deep/a.log", "deep/er/b.log"]),
        ("nothing*", &[]),
    ] {
        let view = |path: &str| if hidden.contains(&path) { "hidden" } else { "rw" };
        let paths: Vec<String> = ALL.iter().map(|path| format!("project/{path}")).collect();
        let expected: Vec<(&str, &str)> =
            paths.iter().map(String::as_str).zip(ALL.map(view)).collect();
        assert_views(&world(), &["--exclude", glob], &expected);
    }
}

#[test]
fn glob_in_home_hides_what_it_matches() {
    let world = world().file("home/keys/one.pem", "x").file("home/keys/one.pub", "x");
    let views = [("home/keys/one.pem", "hidden"), ("home/keys/one.pub", "ro")];
    assert_views(&world, &["--exclude", "~/**/*.pem"], &views);
}

#[test]
fn name_with_brackets_is_taken_literally_when_it_exists() {
    let world = world()
        .file("project/pages/[id]/page.tsx", "x")
        .file("project/pages/i/page.tsx", "x")
        .file("project/[a].log", "x")
        .file("project/what?.md", "x");
    let flags = ["--exclude", "pages/[id]", "--ro", "[a].log", "--exclude", "what?.md"];
    assert_views(
        &world,
        &flags,
        &[
            ("project/pages/[id]/page.tsx", "hidden"),
            ("project/pages/i/page.tsx", "rw"),
            ("project/[a].log", "ro"),
            ("project/a.log", "rw"),
            ("project/what?.md", "hidden"),
        ],
    );
}

#[test]
fn working_directory_may_have_brackets_in_its_name() {
    let world = World::new().file("work/[slug] a*b/file", "x").file("work/s a*b/file", "x");
    let world = world.cwd("work/[slug] a*b");
    let views = [("work/[slug] a*b", "rw"), ("work/[slug] a*b/file", "ro"), ("work/s a*b", "ro")];
    assert_views(&world, &["--ro", "file"], &views);
    assert_views(&world, &["--ro", "f*"], &views);
    world.run(sh("pwd")).succeeds().stdout_contains("[slug] a*b\n");
}

#[test]
fn bad_glob_is_refused_with_its_place() {
    let world = world().file("project/sandbox.toml", "[filesystem]\nexclude = ['a[']\n");
    let text = world.run(["true"]).code(125).messages();
    assert!(text.contains("a[") && text.contains("sandbox.toml:2"), "{text}");
    world.write("project/sandbox.toml", "[filesystem]\nexclude = ['a[b]']\n");
    world.run(["true"]).succeeds();
}
