//! `why`, outside and inside, and the truth of its answers.

mod truth;

use serde_json::Value;
use testkit::{User, World, user};

fn world() -> World {
    World::new()
        .dir("project")
        .file("home/.npmrc", "token")
        .file("home/.ssh/id", "key")
        .file("home/docs/a", "text")
        .file("project/src/a", "text")
        .file("project/.eslintrc.json", "{}")
        .symlink("project/link", "../home/.npmrc")
}

#[track_caller]
fn json(world: &World, args: &[&str]) -> Value {
    let run = world.run(args).succeeds();
    serde_json::from_str(&run.output()).unwrap_or_else(|error| panic!("{error}\n{run}"))
}

/// Asks outside and inside.
#[track_caller]
fn both(world: &World, question: &[&str]) -> [Value; 2] {
    let mut outside = vec!["--json", "why"];
    outside.extend(question);
    let mut inside = vec!["--", "agent-sandbox", "--json", "why"];
    inside.extend(question);
    [json(world, &outside), json(world, &inside)]
}

#[test]
fn why_tells_the_same_outside_and_inside() {
    let world = world();
    for (path, verdict, origin) in [
        ("~/.npmrc", "hidden", "preset @secrets"),
        ("~/.ssh/id", "hidden", "preset @base"),
        ("~/docs/a", "read-only", "preset @base"),
        ("src/a", "writable", "preset @base"),
        (".eslintrc.json", "read-only", "preset @lint/ts"),
        ("link", "hidden", "preset @secrets"),
    ] {
        for answer in both(&world, &[path]) {
            assert_eq!(answer["verdict"], verdict, "{path}: {answer:#}");
            assert_eq!(answer["rule"]["origin"], origin, "{path}: {answer:#}");
        }
    }
    for (path, by) in [("/tmp/x", "ground"), ("/proc/1", "ground"), ("/etc/hosts", "root")] {
        for answer in both(&world, &[path]) {
            assert_eq!(answer["by"]["kind"], by, "{path}: {answer:#}");
        }
    }
    let [outside, inside] = both(&world, &["~/.npmrc"]);
    assert_eq!((&outside["inside"], &inside["inside"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(outside["changes"], inside["changes"], "what to type is the same");
}

/// Every suggested change is applied and must do what it promises.
#[test]
fn why_offers_only_what_works() {
    let world = world().git_init("project").file("project/sub/b", "text");
    for path in ["~/.npmrc", "~/.ssh/id", "~/docs/a", "src/a", ".eslintrc.json", "sub/b"] {
        let answer = json(&world, &["--json", "why", path]);
        let changes = answer["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 2, "{path}: {answer:#}");
        for change in changes {
            let flags = change["flags"].as_array().unwrap();
            let mut line: Vec<&str> = flags.iter().map(|flag| flag.as_str().unwrap()).collect();
            let file = change["config"].to_string();
            world.write("config.json", &file);
            let by_file = ["-c", "../config.json"];
            for mut line in [std::mem::take(&mut line), by_file.to_vec()] {
                let shown = format!(
                    "f={path}; f=$(eval echo $f); if (: >> $f) 2>/dev/null; then echo writable; elif [ -s $f ]; then echo read-only; else echo hidden; fi"
                );
                line.extend(["sh", "-c", &shown]);
                let expected = format!("{}\n", change["to"].as_str().unwrap());
                world.run(&line).succeeds().stdout(&expected);
            }
        }
    }
}

#[test]
fn why_says_who_is_beaten_and_what_lies_behind_links() {
    world()
        .run(["why", "link"])
        .succeeds()
        .stdout_contains("/project/link: hidden")
        .stdout_contains(
            "decided by  exclude `~/.npmrc` (preset @secrets)\n  beats       ro `~` (preset @base)",
        );
    world()
        .file("project/.agent-sandbox.json", "{\n \"filesystem\": {\"exclude\": [\"src/a\"]}\n}")
        .run(["--rw", "src/a", "why", "src/a"])
        .succeeds()
        .stdout_contains(".agent-sandbox.json:2)")
        .stdout_contains("beats       rw `src/a` (flag --rw src/a)")
        .stdout_contains("--exclude '!src/a'");
}

#[test]
fn why_says_so_when_nothing_helps() {
    let world = world().file("project/.agent-sandbox.json", "{}");
    let answer = json(&world, &["--json", "why", ".agent-sandbox.json"]);
    assert_eq!(answer["verdict"], "read-only");
    let to: Vec<_> = answer["changes"].as_array().unwrap().iter().map(|c| &c["to"]).collect();
    assert_eq!(to, ["hidden"], "it can be hidden, but never be made writable");
    world.run(["why", "/proc/1"]).succeeds().stdout_contains("no rule or flag can change this");
}

#[test]
fn why_explains_paths_that_do_not_exist() {
    let world = world();
    world
        .run(["why", "new"])
        .succeeds()
        .stdout_contains("does not exist")
        .stdout_contains("the command can create it");
    world
        .run(["why", "~/.netrc"])
        .succeeds()
        .stdout_contains("plain bubblewrap cannot hide paths that do not exist yet")
        .stdout_contains("--exclude '!~/.netrc' --rw ~/.netrc")
        .stdout_contains("first create it outside the sandbox");
}

#[test]
fn why_knows_commands() {
    let world = world().git_init("project");
    for answer in both(&world, &["--command", "git"]) {
        assert_eq!(answer["verdict"], "@git");
        assert_eq!(answer["changes"][0]["flags"], serde_json::json!(["--cmd", "git=true"]));
    }
    let answer = json(&world, &["--json", "--cmd", "ls=false", "why", "--command", "ls"]);
    assert_eq!(
        (&answer["verdict"], &answer["origin"]),
        (&"blocked".into(), &"flag --cmd ls=false".into())
    );
    let inside = ["--json", "--cmd", "ls=false", "agent-sandbox", "why", "--command", "ls"];
    world.run(inside).succeeds().stdout_contains("ls: blocked");
    let answer = json(&world, &["--json", "why", "--command", "no-such-command"]);
    assert_eq!((&answer["verdict"], &answer["installed"]), (&"raw".into(), &false.into()));
    let git = json(&world, &["--json", "why", "/usr/bin/git"]);
    assert_eq!(git["by"]["kind"], "launcher", "{git:#}");
    assert_eq!(git["changes"][0]["to"], "uncovered");
}

#[test]
fn why_knows_the_network_and_variables() {
    let world = world().env("GITHUB_TOKEN", "hush-hush");
    for answer in both(&world, &["--host", "example.com"]) {
        assert_eq!(answer["network"], "on");
        assert_eq!(answer["changes"][0]["flags"], serde_json::json!(["--network=false"]));
    }
    world
        .run(["--network=false", "agent-sandbox", "why", "--host", "example.com"])
        .succeeds()
        .stdout_contains("in this sandbox")
        .stdout_contains("the network is off")
        .stdout_contains("flag --network=false");
    for answer in both(&world, &["--variable", "GITHUB_TOKEN"]) {
        assert_eq!((&answer["verdict"], &answer["fate"]), (&"hidden".into(), &"credential".into()));
        assert_eq!(answer["changes"][0]["flags"], serde_json::json!(["--env", "GITHUB_TOKEN"]));
        assert!(!answer.to_string().contains("hush-hush"));
    }
    world
        .run(["--env", "GITHUB_TOKEN", "why", "--variable", "GITHUB_TOKEN"])
        .succeeds()
        .stdout_contains("passed through");
    for answer in both(&world, &["--variable", "TERM"]) {
        assert_eq!(answer["verdict"], "passed");
    }
}

#[test]
fn why_refuses_questions_without_sense() {
    let world = world();
    for args in [
        &["why"][..],
        &["why", ""],
        &["why", "--host", "a b"],
        &["why", "--host", ""],
        &["why", "--host", "a\u{1}"],
        &["why", "--command", "a/b"],
        &["why", "--variable", "A=B"],
        &["why", "a", "--command", "b"],
    ] {
        world.run(args).code(2).stdout("");
    }
}

#[test]
fn the_description_inside_can_be_read_but_neither_listed_nor_changed() {
    let world = world().env("GITHUB_TOKEN", "hush-hush").file("home/.ssh/secret-name", "");
    let policy = "/run/agent-sandbox/policy";
    world
        .run(["--exclude", "~/.ssh/*", "cat", policy])
        .succeeds()
        .stdout_contains("GITHUB_TOKEN")
        .stdout_lacks("hush-hush")
        .stdout_lacks("secret-name");
    world.run(["sh", "-c", &format!("echo x > {policy}")]).fails();
    world.run(["sh", "-c", &format!("rm -f {policy}")]).fails();
    world.run(["ls", "/run/agent-sandbox"]).fails();
}

#[test]
fn the_strictest_sandbox_decides_when_they_are_nested() {
    if user() == User::Root && testkit_is_plain() {
        // bubblewrap alone cannot nest as root, so there is no second sandbox to ask.
        return;
    }
    let world = world();
    let nested = [
        "--exclude",
        "~/docs",
        "agent-sandbox",
        "--exclude",
        "src",
        "agent-sandbox",
        "--json",
        "why",
    ];
    for (path, decided_by, verdict) in
        [("~/docs/a", 2, "hidden"), ("src/a", 1, "hidden"), (".eslintrc.json", 1, "read-only")]
    {
        let mut args = nested.to_vec();
        args.push(path);
        let answer = json(&world, &args);
        assert_eq!(answer["sandboxes"], 2);
        assert_eq!(
            (&answer["decided_by"], &answer["verdict"]),
            (&decided_by.into(), &verdict.into())
        );
    }
}

fn testkit_is_plain() -> bool {
    #[allow(clippy::disallowed_methods, reason = "a test has no `Host`")]
    std::env::var_os("AGENT_SANDBOX_MOUNTS").is_some_and(|value| value == "bwrap")
}
