//! Start, end, and restart.

use sandbox_proxy::client::Client;
use sandbox_proxy::dirs::ProxyDirs;
use serde_json::{Value, json};
use testkit::{Signal, World};

use crate::server::Server;
use crate::stage::{KEY, Stage, until};

#[test]
fn sessions_survive_a_restart_and_their_keys_do_not_lie_on_the_disk() {
    let (mut stage, server) = (Stage::new(), Server::echo());
    let terms = json!({ "provider": "openai", "api_key": KEY, "upstream_url": server.url(), "limits": { "token_budget": 10_000 } });
    let token = stage.register(terms.clone());
    assert_eq!(stage.get(&token, "/v1/models").status, 200);
    for signal in [Signal::TERM, Signal::KILL] {
        until("what was used is written down", || {
            let text = std::fs::read_to_string(stage.file("sessions.json")).unwrap();
            let stored: Value = serde_json::from_str(&text).unwrap();
            (stored["sessions"][0]["usage"]["requests"].as_u64() > Some(0)).then_some(())
        });
        stage.stop(signal);
        let text = std::fs::read_to_string(stage.file("sessions.json")).unwrap();
        assert!(!text.contains(KEY) && !text.contains(&token[8..]), "{text}");
        stage.start();
        let listed = stage.admin("GET", "/v1/sessions", None).json();
        assert_eq!(
            (&listed[0]["key_missing"], &listed[0]["token_budget"]),
            (&json!(true), &json!(10_000))
        );
        assert!(listed[0]["usage"]["requests"].as_u64() > Some(0));
        assert_eq!(stage.get(&token, "/v1/models").code(), "secret_missing");
        assert_eq!(stage.try_register(&token, terms.clone()).status, 201);
        assert_eq!(stage.get(&token, "/v1/models").status, 200);
    }
}

#[test]
fn there_is_one_proxy_for_each_user() {
    let stage = Stage::new();
    stage.world.run(["proxy"]).code(1).stderr_contains("another proxy is already running");
    stage.world.run(["proxy", "--detach"]).succeeds();
    assert_eq!(stage.admin("GET", "/v1/health", None).status, 200);
}

#[test]
fn a_proxy_on_demand_ends_with_its_last_session() {
    let world = World::unseen();
    let (runtime, state) = (world.path("run"), world.path("state"));
    let world = world.dir("run").env("XDG_RUNTIME_DIR", &runtime).env("XDG_STATE_HOME", &state);
    let client = Client::new(&ProxyDirs::at(&runtime.join("agent-sandbox/proxy")));
    assert!(client.health().is_err());
    world.run(["proxy", "--detach"]).succeeds().stdout("").stderr("");
    let pid = client.health().unwrap()["pid"].clone();
    let token = crate::stage::new_token();
    let session = json!({ "token": token, "provider": "openai", "api_key": KEY });
    client.register(&serde_json::from_value(session).unwrap()).unwrap();
    assert_eq!(client.sessions().unwrap().as_array().unwrap().len(), 1);
    client.revoke(&token).unwrap();
    until("it ends", || (!is_alive(&pid)).then_some(()));
    assert!(client.health().is_err());
}

fn is_alive(pid: &Value) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn the_configuration_says_where_it_listens_when_no_flag_does() {
    let addr = "proxy = { addr = ':0' }\n";
    let world = World::unseen().dir("run").file("home/.config/agent-sandbox/config.toml", addr);
    let (runtime, state) = (world.path("run"), world.path("state"));
    let world = world.env("XDG_RUNTIME_DIR", &runtime).env("XDG_STATE_HOME", &state);
    let binary = world.binary().display().to_string();
    let said = |words: &[&str]| {
        let process = world.start([binary.as_str(), "proxy"].iter().chain(words));
        process.wait_for_message("admin socket at");
        process.signal(Signal::TERM);
        process.wait()
    };
    said(&[]).stderr_contains("listening on http://127.0.0.1:");
    let other = said(&["--listen", "[::1]:0"]);
    other.stderr_contains("listening on http://[::1]:").stderr_lacks("127.0.0.1");
    // The configuration of an untrusted project opens no port.
    world.write("project/sandbox.toml", addr);
    world.run(["proxy"]).fails().stderr_contains("`proxy` reaches beyond the sandbox");
}
