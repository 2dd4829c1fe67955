//! Sources of the allow list, who may change it, and how commands describe it.

use super::internet::Internet;
use testkit::World;

#[test]
fn configuration_flags_and_removals_make_one_list() {
    let internet = Internet::new();
    let curl = |flags: &[&str], host: &str| {
        let url = format!("https://{host}/hello");
        let words = flags.iter().copied().chain(["curl", "-sS", "-o", "/dev/null"]);
        let words: Vec<String> = words.map(str::to_owned).chain([url]).collect();
        internet.world.run(words).status().success()
    };
    let text = "network = { allowed_hosts = ['*.example.com', '@npm'], denied_hosts = ['no.example.com'] }\n";
    internet.world.write("project/sandbox.toml", text);
    assert!(curl(&[], "api.example.com"));
    assert!(!curl(&[], "no.example.com"));
    assert!(!curl(&[], "other.example.net"));
    assert!(curl(&["--trust", "--allow-host", "other.example.net"], "other.example.net"));
    assert!(!curl(&["--trust", "--allow-host", "!*.example.com"], "api.example.com"));
    assert!(curl(&["--network"], "other.example.net"));
}

#[test]
fn private_hosts_may_lead_to_this_machine() {
    let internet = Internet::new();
    let get =
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://loop.example.com:8080/"];
    for (text, code) in [
        ("network = { allowed_hosts = ['loop.example.com'] }\n", "403"),
        ("network = { private_hosts = ['loop.example.com'] }\n", "404"),
        ("network = { allowed_hosts = ['loop.example.com', '127.0.0.1:8080'] }\n", "404"),
        (
            "network = { private_hosts = ['loop.example.com'], denied_hosts = ['127.0.0.1'] }\n",
            "403",
        ),
    ] {
        internet.world.write("project/sandbox.toml", text);
        internet.world.run(get).stdout(code);
    }
}

#[test]
fn a_project_may_narrow_the_list_but_not_widen_it() {
    let world = World::new()
        .file("home/.config/agent-sandbox/config.toml", "network = { allowed_hosts = ['a.io'] }\n");
    for (text, code) in [
        ("network = { allowed_hosts = ['b.io'] }\n", 125),
        ("network = { private_hosts = ['a.io'] }\n", 125),
        ("network = true\n", 125),
        ("network = false\n", 0),
        ("network = { allowed_hosts = ['a.io:443'], denied_hosts = ['a.io'] }\n", 0),
    ] {
        world.write("project/sandbox.toml", text);
        world.run(["config", "show"]).code(code);
    }
    // Hosts named on the command line are expected to be allowed.
    let world =
        World::new().file("project/sandbox.toml", "network = { allowed_hosts = ['b.io'] }\n");
    world.run(["config", "show"]).succeeds().stdout_contains("b.io");
    world
        .run(["--allow-host", "a.io", "config", "show"])
        .code(125)
        .stderr_contains("allows `b.io`");
}

#[test]
fn n13_patterns_that_are_too_wide_are_refused() {
    let world = World::new();
    for host in
        ["*", "*.com", "*.co.uk", "*.github.io", "a*.com", "https://a.io", "a.io.", "@nothing"]
    {
        world.run(["--allow-host", host, "true"]).code(2).stderr_contains("hint: ");
    }
    world.run(["--network=false", "--allow-host", "a.io", "true"]).code(2);
    world.run(["--network", "--allow-host", "a.io", "true"]).code(2);
}

#[test]
fn why_explains_a_host_outside_and_inside() {
    let internet = Internet::new();
    let flags = ["--allow-host", "*.example.com:443"];
    let why = |host: &str| internet.world.run(flags.into_iter().chain(["why", "--host", host]));
    why("api.example.com")
        .succeeds()
        .stdout_contains(": reachable")
        .stdout_contains("allowed `*.example.com:443`");
    let run = why("other.example.net").succeeds();
    run.stdout_contains("not reachable").stdout_contains("--allow-host other.example.net");
    why("api.example.com:80").succeeds().stdout_contains("not reachable");
    why("a b").code(2);
    let inside = ["/run/agent-sandbox/agent-sandbox", "why", "--host", "other.example.net"];
    let run = internet.world.run(flags.into_iter().chain(inside)).succeeds();
    run.stdout_contains("not reachable").stdout_contains(", outside this sandbox:");
    let inside = ["/run/agent-sandbox/agent-sandbox", "why", "--variable", "HTTPS_PROXY"];
    let run = internet.world.run(flags.into_iter().chain(inside)).succeeds();
    run.stdout_contains("set by the sandbox").stdout_contains("--allow-host");
}

#[test]
fn dry_run_and_config_show_tell_the_list() {
    let world = World::new();
    let line = world.run(["--allow-host", "@npm", "--dry-run", "true"]).succeeds();
    line.stdout_contains("--unshare-net")
        .stdout_contains("HTTPS_PROXY=http://127.0.0.1:3128")
        .stdout_contains("to the allowed hosts only");
    let run = world.run(["--allow-host", "@npm", "config", "show"]).succeeds();
    run.stdout_contains("registry.npmjs.org:443")
        .stdout_contains("allowed, @npm")
        .stdout_contains("flag --allow-host @npm");
    world
        .run(["--allow-host", "@npm", "config", "show", "--json"])
        .succeeds()
        .stdout_contains("\"pattern\": \"registry.npmjs.org:443\"");
    assert!(
        !world.has("home/.local/state/agent-sandbox/proxy/lock"),
        "nothing was started for that"
    );
}
