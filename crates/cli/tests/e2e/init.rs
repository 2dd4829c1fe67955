//! `init`: inspection of the project, the written file, and files that it leaves alone.

use testkit::World;

const FILE: &str = "project/.agent-sandbox.jsonc";

fn project() -> World {
    World::new()
        .file("project/package.json", "{}")
        .file("project/tsconfig.json", "{}")
        .file("project/Cargo.toml", "")
        .file("project/.env", "KEY=secret")
        .file("project/.env.example", "KEY=")
        .file("project/deploy/prod.tfvars", "key = \"secret\"")
        .file("project/deploy/main.tf", "")
        .file("project/docker-compose.yml", "")
        .file("project/node_modules/x/.env", "")
        .git_init("project")
}

#[test]
fn init_writes_a_file_that_needs_no_trust_and_hides_secrets() {
    let world = project();
    world.run(["cat", ".env"]).succeeds().stdout("KEY=secret");
    world.run(["init"]).succeeds().stdout("").stderr_contains("wrote").stderr_contains("next:");
    let text = world.read(FILE);
    for (expected, there) in [
        ("\".env\",", true),
        ("\"deploy/prod.tfvars\",", true),
        (".env.example", false),
        ("node_modules/x", false),
        ("a git repository", true),
        ("Node, Rust", true),
        ("Terraform", true),
        ("tsconfig.json", true),
        ("Found docker-compose.yml", true),
        ("// \"docker\": true", true),
    ] {
        assert_eq!(text.contains(expected), there, "{expected}\n{text}");
    }
    world.run(["cat", ".env", "deploy/prod.tfvars"]).succeeds().stdout("");
    world.run(["cat", ".env.example"]).succeeds().stdout("KEY=");
}

#[test]
fn init_never_overwrites() {
    for name in [".agent-sandbox.json", ".agent-sandbox.jsonc", "sandbox.toml"] {
        let world = World::new().file(format!("project/{name}"), "");
        world.run(["init"]).code(125).stderr_contains(name).stderr_contains("already exists");
        assert_eq!(world.read(format!("project/{name}")), "");
    }
    let world = World::new().symlink(FILE, "../outside");
    world.run(["init"]).code(125).stderr_contains("already exists");
    assert!(!world.has("outside"), "a link is not followed");
}

#[test]
fn init_works_in_an_empty_directory_and_in_another_one() {
    let world = World::new().dir("project/sub");
    world.run(["-C", "sub", "init"]).succeeds();
    assert!(world.has("project/sub/.agent-sandbox.jsonc") && !world.has(FILE));
    world.run(["-C", "sub", "true"]).succeeds();
}

#[test]
fn init_prints_what_it_found_as_json() {
    let world = project();
    let run = world.run(["init", "--json"]).succeeds().stderr("");
    let json: serde_json::Value = serde_json::from_str(&run.output()).unwrap();
    assert_eq!(json["found"]["git"], "repository");
    assert_eq!(json["found"]["secrets"], serde_json::json!([".env", "deploy/prod.tfvars"]));
    assert_eq!(json["written"], true);
    assert!(world.has(FILE));
}

#[test]
fn init_prints_the_file_when_it_is_a_dry_run() {
    let world = project();
    world.run(["--dry-run", "init"]).succeeds().stdout_contains("\"exclude\": [");
    assert!(!world.has(FILE));
}

#[test]
fn init_is_refused_inside_a_sandbox() {
    let world = World::new();
    world
        .run(["/run/agent-sandbox/agent-sandbox", "init"])
        .code(125)
        .stderr_contains("moved aside");
    assert!(!world.has(FILE));
}
