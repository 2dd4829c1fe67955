//! Networks, and access to the proxy without one.

use super::stage::{KEY, NAME, Provider, Stage};

#[test]
fn without_a_network_there_is_none_and_hosts_are_reached_by_name() {
    let provider = Provider::new();
    let address = &provider.address;
    let port = address.rsplit(':').next().unwrap();
    let stage = Stage::up("");
    stage.sh("ls /sys/class/net").succeeds().stdout("lo\n");
    stage.sh(&format!("wget -q -O - http://{address}/")).fails();
    // The control: the same command, with the host on the list.
    stage.configure(&format!("network = {{ private_hosts = ['localhost:{port}'] }}"));
    stage.bring_up().succeeds();
    stage.sh("ls /sys/class/net").succeeds().stdout("lo\n");
    let ask = |host: &str| format!("wget -q -O - http://{host}:{port}/");
    stage.sh(&ask("localhost")).succeeds().stdout("answer\n");
    stage.sh(&ask("example.com")).fails();
    assert_eq!(stage.inspect("{{.HostConfig.NetworkMode}}"), "none");
}

#[test]
fn a_proxied_key_outlives_the_container_and_the_proxy() {
    let provider = Provider::new();
    let address = &provider.address;
    let config = format!(
        "[secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = 'http://{address}'\nfrom_file = '../key'\n"
    );
    let stage = Stage::new(&config);
    stage.world.write("key", KEY);
    stage.bring_up().succeeds();
    stage.asks_with_the_real_key(&provider);
    stage.docker.run(["restart", "--time", "1", &stage.container()]).succeeds();
    stage.asks_with_the_real_key(&provider);
    kill_proxy(&stage);
    stage.asks_with_the_real_key(&provider);
    // The token of another sandbox is invalid, and a token ends with its session.
    stage.sh("ANTHROPIC_API_KEY=session-0000; wget -q -O - --header 'x-api-key: session-0000' $ANTHROPIC_BASE_URL/v1/models").fails();
    stage.down().succeeds();
    let doors = stage.world.read("home/.local/state/agent-sandbox/proxy/doors.json");
    assert!(!doors.contains("attach.sock") && !doors.contains(KEY), "{doors}");
}

/// On every kind of network, and for two sessions at once on one loopback.
#[test]
fn a_proxied_key_works_on_every_network() {
    let provider = Provider::new();
    let secret = format!(
        "[secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = 'http://{}'\nfrom_file = '../key'\n",
        provider.address
    );
    let ask = |key: &str| {
        format!("wget -q -O - --header \"x-api-key: {key}\" $ANTHROPIC_BASE_URL/v1/models")
    };
    let up = |network: &str| {
        let stage = Stage::new(&format!("network = '{network}'\n{secret}"));
        stage.world.write("key", KEY);
        stage.bring_up().succeeds();
        let before = provider.shown().len();
        stage.sh(&ask("$ANTHROPIC_API_KEY")).succeeds().stdout("answer\n");
        assert_eq!(provider.shown()[before..], [KEY]);
        stage.sh("env").succeeds().stdout_lacks(KEY);
        stage
    };
    let named = Stage::new("").docker.network().0;
    drop(up(named));
    let (one, two) = (up("host"), up("host"));
    let address = |stage: &Stage| stage.sh("echo $ANTHROPIC_BASE_URL").output();
    assert_ne!(address(&one), address(&two));
    // There, too, a token is valid only on the address that it was made for.
    let token = two.sh("echo $ANTHROPIC_API_KEY").output();
    one.sh(&ask(token.trim())).fails();
    one.sh(&ask("none")).fails();
    assert_eq!(provider.shown().iter().filter(|key| *key != KEY).count(), 0);
}

/// C11: names with another meaning for the engine, and a network that only a trusted file may select.
#[test]
fn c11_networks_of_others_are_refused_and_the_hosts_needs_trust() {
    for name in ["container:x", "--privileged", "ns:/proc/1/ns/net", "default"] {
        let stage = Stage::new(&format!("network = '{name}'"));
        stage.bring_up().code(125).stderr_contains("network");
        assert!(stage.id().is_none());
    }
    let stage = Stage::new("network = 'no-such-network'");
    stage
        .bring_up()
        .code(125)
        .stderr_contains("no-such-network")
        .stderr_contains("docker network ls");
    assert!(stage.containers().is_empty());
    let stage = Stage::new("network = 'host'");
    stage
        .world
        .run(["up", "--name", NAME])
        .code(125)
        .stderr_contains("not trusted")
        .stderr_contains("host's network");
    stage.bring_up().succeeds().stderr_contains("granted: network host");
    assert_eq!(stage.inspect("{{.HostConfig.NetworkMode}}"), "host");
    // The control: the host's loopback is reachable.
    stage
        .sh(&format!("wget -q -O - http://{}/", Provider::new().address))
        .succeeds()
        .stdout("answer\n");
}

/// N14, N15: sessions are isolated from each other, and a listener inside is not reachable from outside.
#[test]
fn n14_n15_sessions_cannot_reach_each_other_or_be_reached() {
    let (one, two) = (Stage::up(""), Stage::up(""));
    let listen =
        "nc -l -p 5999 -e echo heard >/dev/null 2>&1 & sleep 0.2; nc 127.0.0.1 5999 < /dev/null";
    one.sh(listen).succeeds().stdout("heard\n");
    one.sh("setsid sh -c 'while true; do nc -l -p 5998 -e echo heard; done' >/dev/null 2>&1 &")
        .succeeds();
    one.sh("for i in 1 2 3 4 5 6 7 8 9; do nc 127.0.0.1 5998 < /dev/null && exit; sleep 0.3; done; exit 1").succeeds().stdout("heard\n");
    two.sh("nc -w 2 127.0.0.1 5998 < /dev/null").fails();
    assert!(std::net::TcpStream::connect("127.0.0.1:5998").is_err());
    assert_eq!(one.inspect("{{.NetworkSettings.Ports}}"), "map[]");
}

/// Kills it as a crash would, so it cannot save anything.
fn kill_proxy(stage: &Stage) {
    let socket = stage.world.path("home/.local/state/agent-sandbox/proxy/admin");
    let socket = socket.display().to_string();
    let asked = ["curl", "-s", "--unix-socket", &socket, "http://proxy/v1/health"];
    let health = stage.world.host(asked).succeeds().output();
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    stage.world.host(["kill", "-KILL", &health["pid"].to_string()]).succeeds();
}
