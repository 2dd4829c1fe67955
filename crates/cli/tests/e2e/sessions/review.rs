//! Review over HTTP: the changes of a session, shown, applied, reverted and discarded.

use testkit::World;

use super::Up;
use super::api::Api;

const JSON: [&str; 2] = ["-H", "content-type: application/json"];

/// Starts a copy-on-write session `web`.
fn create(api: &Api<'_>, world: &World) {
    let project = world.path("project").display().to_string();
    let (status, body) = api.create(&format!(r#"{{"name":"web","cwd":"{project}","cow":true}}"#));
    assert_eq!(status, "201", "{body}");
}

/// Runs a script in the session.
#[track_caller]
fn sh(world: &World, script: &str) {
    world.run(["exec", "-s", "web", "sh", "-c", script]).succeeds();
}

/// Returns the status and body of a call about the session.
#[track_caller]
fn post(api: &Api<'_>, call: &str, body: &str) -> (String, String) {
    let body = if body.is_empty() { vec![] } else { [&JSON[..], &["-d", body]].concat() };
    api.call("POST", &format!("/v1/sessions/web/{call}"), &body)
}

#[track_caller]
fn is((status, body): &(String, String), expected: &str, parts: &[&str]) {
    assert_eq!(status, expected, "{body}");
    for part in parts {
        assert!(body.contains(part), "no {part} in {body}");
    }
}

#[test]
fn changes_are_shown_applied_and_reverted_over_http() {
    let world = World::new().file("project/a", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    create(&api, &world);
    sh(&world, "echo two > a; echo new > b");
    let diff = api.call("GET", "/v1/sessions/web/diff", &[]);
    is(&diff, "200", &[r#""session":"web""#, r#""path":"a""#, r#""status":"modified""#]);
    is(&diff, "200", &[r#""path":"b""#, r#""status":"added""#, r#""added":1"#]);
    let only = api.call("GET", "/v1/sessions/web/diff?path=b", &[]);
    is(&only, "200", &[r#""path":"b""#]);
    assert!(!only.1.contains(r#""path":"a""#), "{}", only.1);
    let patch = api.call("GET", "/v1/sessions/web/diff?format=patch", &[]);
    is(&patch, "200", &["--- a/a", "-one\n+two", "+new"]);
    // A session that is up could change during the apply.
    is(&post(&api, "apply", ""), "409", &[r#""code":"in_use""#, "/down"]);
    is(&post(&api, "discard", ""), "409", &[r#""code":"in_use""#]);
    assert_eq!(world.read("project/a"), "one\n");
    is(&post(&api, "down", ""), "200", &[]);
    // A plan changes nothing.
    is(&post(&api, "apply", r#"{"dry_run":true}"#), "200", &[r#""applied":0"#, r#""path":"b""#]);
    assert_eq!(world.read("project/a"), "one\n");
    is(&post(&api, "apply", ""), "200", &[r#""applied":2"#, r#""resumed":false"#]);
    assert_eq!(
        (world.read("project/a"), world.read("project/b")),
        ("two\n".into(), "new\n".into())
    );
    is(&post(&api, "apply", ""), "200", &[r#""applied":0"#]);
    is(&post(&api, "undo", ""), "200", &[r#""reverted":2"#, r#""left":[]"#]);
    assert_eq!(world.read("project/a"), "one\n");
    assert!(!world.path("project/b").is_file());
    is(&post(&api, "undo", ""), "409", &[r#""code":"no_apply""#]);
}

#[test]
fn a_file_that_runs_code_later_is_applied_over_http_only_when_it_is_named() {
    let world = World::new().file("project/a", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    create(&api, &world);
    sh(&world, "echo two > a; echo 'touch x' > .envrc");
    is(&post(&api, "down", ""), "200", &[]);
    let refused = post(&api, "apply", "");
    is(&refused, "409", &[r#""code":"held""#, r#""held":[{"#, r#""path":".envrc""#, "partial"]);
    assert_eq!(world.read("project/a"), "one\n", "nothing was applied");
    // The rest, if the caller agrees.
    is(&post(&api, "apply", r#"{"partial":true}"#), "200", &[r#""applied":1"#, ".envrc"]);
    assert_eq!(world.read("project/a"), "two\n");
    assert!(!world.path("project/.envrc").is_file());
    is(&post(&api, "apply", r#"{"paths":[".envrc"]}"#), "200", &[r#""applied":1"#]);
    assert_eq!(world.read("project/.envrc"), "touch x\n");
}

#[test]
fn a_conflict_with_the_host_is_answered_with_the_list() {
    let world = World::new().file("project/a", "one\n").file("project/b", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    create(&api, &world);
    sh(&world, "echo two > a; echo two > b");
    is(&post(&api, "down", ""), "200", &[]);
    world.write("project/a", "mine\n");
    let refused = post(&api, "apply", "");
    is(&refused, "409", &[r#""code":"conflict""#, r#""conflicts":[{"#, r#""path":"a""#]);
    assert_eq!(world.read("project/b"), "one\n", "nothing was applied");
    is(&post(&api, "apply", r#"{"partial":true}"#), "200", &[r#""applied":1"#]);
    assert_eq!(
        (world.read("project/a"), world.read("project/b")),
        ("mine\n".into(), "two\n".into())
    );
    world.write("project/b", "later\n");
    is(&post(&api, "undo", ""), "409", &[r#""code":"changed""#, r#""path":"b""#]);
    assert_eq!(world.read("project/b"), "later\n");
    let rest = post(&api, "undo", r#"{"partial":true}"#);
    is(&rest, "200", &[r#""reverted":0"#, r#""path":"b""#]);
}

#[test]
fn discard_over_http_removes_what_is_named_and_then_the_rest() {
    // Only overlays can discard single paths, and bubblewrap cannot mount them.
    let world = World::new().file("project/a", "one\n").without_env("AGENT_SANDBOX_MOUNTS");
    let (_guard, api) = (Up(&world), Api::start(&world));
    create(&api, &world);
    sh(&world, "echo two > a; echo new > b");
    is(&post(&api, "down", ""), "200", &[]);
    is(&post(&api, "discard", r#"{"paths":["a"]}"#), "200", &[r#""discarded":1"#]);
    let left = api.call("GET", "/v1/sessions/web/diff", &[]);
    is(&left, "200", &[r#""path":"b""#]);
    assert!(!left.1.contains(r#""path":"a""#), "{}", left.1);
    is(&post(&api, "discard", ""), "200", &[r#""discarded":1"#]);
    is(&api.call("GET", "/v1/sessions/web/diff", &[]), "200", &[r#""changes":[]"#]);
    is(&post(&api, "discard", ""), "200", &[r#""discarded":0"#]);
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn a_review_that_cannot_be_made_is_answered_with_the_reason() {
    let world = World::new().file("project/a", "one\n").file("plain/x", "");
    let (_guard, api) = (Up(&world), Api::start(&world));
    create(&api, &world);
    let plain = world.path("plain").display().to_string();
    assert_eq!(api.create(&format!(r#"{{"name":"plain","cwd":"{plain}"}}"#)).0, "201");
    for (session, status, code) in [("none", "404", "not_found"), ("plain", "409", "no_layer")] {
        for (method, call) in
            [("GET", "diff"), ("POST", "apply"), ("POST", "undo"), ("POST", "discard")]
        {
            let answer = api.call(method, &format!("/v1/sessions/{session}/{call}"), &[]);
            is(&answer, status, &[&format!(r#""code":"{code}""#)]);
        }
    }
    is(&post(&api, "down", ""), "200", &[]);
    for (call, body, status) in [
        ("apply", r#"{"paths":["/usr"]}"#, "400"),
        ("apply", r#"{"paths":["../plain"]}"#, "400"),
        ("apply", r#"{"paths":["a\u0000"]}"#, "400"),
        ("apply", r#"{"paths":[""]}"#, "400"),
        ("apply", r#"{"live":true}"#, "422"),
        ("discard", r#"{"paths":["/usr"]}"#, "400"),
        ("undo", r#"{"paths":[]}"#, "422"),
    ] {
        is(&post(&api, call, body), status, &[r#""code":"invalid""#, r#""message":""#]);
    }
    for query in ["format=xml", "path=", "path=/usr"] {
        let answer = api.call("GET", &format!("/v1/sessions/web/diff?{query}"), &[]);
        is(&answer, "400", &[r#""code":"invalid""#]);
    }
    // The control: the same calls with valid arguments.
    is(&post(&api, "apply", r#"{"paths":["a"]}"#), "200", &[r#""applied":0"#]);
    is(&api.call("GET", "/v1/sessions/web/diff?path=a", &[]), "200", &[r#""changes":[]"#]);
}
