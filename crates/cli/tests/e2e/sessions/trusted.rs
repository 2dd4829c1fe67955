//! `--trust` of a session covers the content that it accepted, and no later content.

use testkit::World;

use super::api::Api;
use super::{DATA, Up, inside, supervisor};

const NOTES: &str = "filesystem.rw = ['~/notes']\n";
const MORE: &str = "filesystem.rw = ['~/notes', '~/diary']\n";
const WRITE: &str = "echo x > ~/diary/x";

fn world() -> World {
    World::new().dir("home/notes").dir("home/diary").file("project/sandbox.toml", NOTES)
}

#[test]
fn restart_keeps_the_trust_of_up_for_that_content_alone() {
    let world = world();
    let _guard = Up(&world);
    world.run(["--trust", "up"]).succeeds();
    // The control: the accepted content.
    world.run(["restart"]).succeeds();
    world.run(inside("echo x > ~/notes/x")).succeeds();
    let first = supervisor(&world);
    world.write("project/sandbox.toml", MORE);
    let refused = world.run(["restart"]).code(125);
    refused.stderr_contains("not trusted").stderr_contains("~/diary").stderr_contains("hint");
    assert_eq!(supervisor(&world), first, "nothing was taken down");
    world.run(inside(WRITE)).fails();
    // A file that does not widen the policy needs no trust.
    world.write("project/sandbox.toml", "network = false\n");
    world.run(["restart"]).succeeds();
    world.run(inside("echo x > ~/notes/x")).fails();
    // Content that was accepted before the last start no longer counts.
    world.write("project/sandbox.toml", NOTES);
    world.run(["restart"]).code(125).stderr_contains("not trusted");
    world.write("project/sandbox.toml", MORE);
    world.run(["--trust", "restart"]).succeeds();
    world.run(inside(WRITE)).succeeds();
    world.run(["restart"]).succeeds();
}

#[test]
fn restart_refuses_another_file_in_the_place_of_the_accepted_one() {
    let world = world();
    let _guard = Up(&world);
    world.run(["--trust", "up"]).succeeds();
    for (name, text) in [
        (".agent-sandbox.json", r#"{"filesystem": {"rw": ["~/diary"]}}"#),
        (".agent-sandbox.jsonc", r#"{"filesystem": {"rw": ["~/diary"]}}"#),
    ] {
        world.host(["rm", "-f", "sandbox.toml", ".agent-sandbox.json"]).succeeds();
        world.write(format!("project/{name}"), text);
        world.run(["restart"]).code(125).stderr_contains("not trusted").stderr_contains(name);
    }
    // A link to another file is other content.
    world.host(["rm", ".agent-sandbox.jsonc"]).succeeds();
    world.write("wide.toml", MORE);
    world.host(["ln", "-s", "../wide.toml", "sandbox.toml"]).succeeds();
    world.run(["restart"]).code(125).stderr_contains("not trusted");
    // The control.
    world.write("wide.toml", NOTES);
    world.run(["restart"]).succeeds();
}

#[test]
fn restart_refuses_a_named_file_that_opens_more_than_it_did() {
    let world = world().file("named.toml", NOTES);
    let _guard = Up(&world);
    let file = world.path("named.toml").display().to_string();
    world.run(["-c", &file, "up"]).succeeds();
    world.run(["restart"]).succeeds();
    world.write("named.toml", MORE);
    world.run(["restart"]).code(125).stderr_contains("named.toml").stderr_contains("not trusted");
    world.run(inside(WRITE)).fails();
    world.run(["trust", &file]).succeeds();
    world.run(["restart"]).succeeds();
    world.run(inside(WRITE)).succeeds();
}

#[test]
fn restart_refuses_variables_that_were_not_accepted() {
    let world = world().file("project/vars", "TOKEN=first\n").file("home/keys", "TOKEN=secret\n");
    let _guard = Up(&world);
    world.write("project/sandbox.toml", "backend = 'bwrap'\nenv_file = 'vars'\n");
    world.run(["--trust", "up"]).succeeds();
    world.run(["restart"]).succeeds();
    world.run(inside("echo $TOKEN")).succeeds().stdout("first\n");
    world.write("project/vars", "TOKEN=second\n");
    let refused = world.run(["restart"]).code(125);
    refused.stderr_contains("changed after it was accepted").stderr_contains("--trust");
    // The project may replace it with a link to anywhere.
    world.host(["ln", "-sf", "../home/keys", "vars"]).succeeds();
    world.run(["restart"]).code(125).stderr_contains("changed after it was accepted");
    world.run(inside("echo $TOKEN")).succeeds().stdout("first\n");
    world.host(["rm", "vars"]).succeeds();
    world.write("project/vars", "TOKEN=second\n");
    world.run(["--trust", "restart"]).succeeds();
    world.run(inside("echo $TOKEN")).succeeds().stdout("second\n");
}

#[test]
fn restart_over_http_keeps_the_trust_of_create_for_that_content_alone() {
    let world = world();
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let (status, made) = api.create(&format!(r#"{{"cwd":"{project}","trust":true}}"#));
    assert_eq!(status, "201", "{made}");
    let restart = || api.call("POST", "/v1/sessions/project/restart", &[]);
    assert_eq!(restart().0, "200");
    world.write("project/sandbox.toml", MORE);
    let (status, body) = restart();
    assert!(status == "422" && body.contains("not trusted"), "{status} {body}");
    world.run(inside(WRITE)).fails();
    // The command line repeats no more than that.
    world.run(["restart"]).code(125).stderr_contains("not trusted");
    world.run(["trust"]).succeeds();
    assert_eq!(restart().0, "200");
    world.run(inside(WRITE)).succeeds();
}

/// Records of earlier versions contain `trust` without a digest.
#[test]
fn restart_refuses_trust_on_record_that_names_no_content() {
    let world = world();
    let _guard = Up(&world);
    world.run(["--trust", "up"]).succeeds();
    let sqlite = testkit::need("sqlite3").display().to_string();
    let record = world.path(DATA).join("sessions.db").display().to_string();
    let older = "UPDATE session SET request = json_remove(json_set(request, '$.trust', json('true')), '$.accepted')";
    world.host([&sqlite, &record, older]).succeeds();
    world.run(["restart"]).code(125).stderr_contains("not trusted");
    world.run(["--trust", "restart"]).succeeds();
}

#[test]
fn a_session_in_a_sub_directory_has_the_policy_of_the_directories_above() {
    let world = World::new()
        .file("home/app/sandbox.toml", "filesystem.exclude = ['.env']\n")
        .file("home/app/.env", "TOKEN=abc")
        .dir("home/app/sub")
        .dir("home/diary")
        .cwd("home/app/sub");
    let _guard = Up(&world);
    world.run(["up"]).succeeds();
    let name = "sub";
    let inside = |script: &str| world.run(["exec", "-s", name, "sh", "-c", script]);
    inside("cat ../.env").succeeds().stdout("");
    // The control: without the file above.
    world.host(["mv", "../sandbox.toml", "../off"]).succeeds();
    world.run(["restart", name]).succeeds();
    inside("cat ../.env").succeeds().stdout("TOKEN=abc");
    // A file above that widens needs trust, and `restart` keeps it for that content.
    world.write("home/app/sandbox.toml", "filesystem.rw = ['~/diary']\n");
    world.run(["restart", name]).code(125).stderr_contains("agent-sandbox trust");
    world.run(["--trust", "restart", name]).succeeds();
    inside("echo x > ~/diary/x").succeeds();
    world.write("home/app/sandbox.toml", "filesystem.rw = ['~/diary', '~/app/other']\n");
    world.run(["restart", name]).code(125).stderr_contains("~/app/other");
}

#[cfg(feature = "setup")]
#[test]
fn a_session_over_http_has_the_policy_of_the_directories_above() {
    let world = World::new()
        .file("home/app/sandbox.toml", "filesystem.exclude = ['.env']\n")
        .file("home/app/.env", "TOKEN=abc")
        .dir("home/app/sub");
    let _guard = Up(&world);
    let api = Api::start(&world);
    let created = |name: &str, dir: &str| {
        let dir = world.path(dir).display().to_string();
        assert_eq!(api.create(&format!(r#"{{"name":"{name}","cwd":"{dir}"}}"#)).0, "201");
        let env = world.path("home/app/.env").display().to_string();
        world.run(["exec", "-s", name, "cat", &env]).succeeds()
    };
    created("web", "home/app/sub").stdout("");
    created("elsewhere", "project").stdout("TOKEN=abc");
}
