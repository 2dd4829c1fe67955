//! P10: clients that want the proxy to wait, to buffer, or to crash.

use serde_json::json;

use crate::server::{Server, reply};
use crate::stage::{KEY, Stage};
use crate::wire::Connection;

/// Thousands of connections that send nothing, or half a line: others are served, and memory use stays small.
#[test]
fn p10_idle_and_half_open_connections_cost_little_and_disturb_no_other_client() {
    let count = testkit::rounds(1000, 10_000);
    assert!(
        descriptors() > count + 200,
        "this test needs more descriptors: ulimit -Hn {}",
        2 * count
    );
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    stage.get(&token, "/warm");
    let before = stage.memory();
    let sides = stage.sides.iter().cycle();
    let silent: Vec<_> = sides.take(count).map(|side| Connection::to(*side)).collect();
    let half: Vec<_> = (0..50)
        .map(|_| {
            let mut connection = stage.connect();
            connection.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api");
            connection
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(stage.get(&token, "/x").status, 200);
    }
    let open = silent.iter().filter(|connection| connection.is_open()).count();
    assert_eq!(open, count, "no connection is closed");
    let each = stage.memory().saturating_sub(before) / (count as u64 + 50);
    assert!(each < EACH, "{count}: {each} bytes each");
    drop((silent, half));
    assert_eq!(stage.get(&token, "/x").status, 200);
}

/// Memory that an idle connection may cost.
const EACH: u64 = 8 << 10;

/// Connections beyond a listener's limit are closed at once, and no others are.
#[test]
fn p10_one_connection_too_many_is_closed_and_the_others_stay() {
    /// Limit of the proxy.
    const MOST: usize = 4096;
    assert!(
        descriptors() > MOST + 200,
        "this test needs more descriptors: ulimit -Hn {}",
        2 * MOST
    );
    let (stage, server) = (Stage::new(), Server::echo());
    let token = stage.open_session(&server);
    let side = stage.sides[0];
    let silent: Vec<_> = (0..MOST).map(|_| Connection::to(side)).collect();
    let mut late = Connection::to(side);
    assert!(!late.more(), "it is closed");
    assert!(silent.iter().all(Connection::is_open));
    assert_eq!(stage.get(&token, "/x").status, 200);
}

/// Limit of open files of this process.
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap())
}

/// An endless body occupies one request of one session, and no other.
#[test]
fn p10_one_session_does_not_use_up_the_others() {
    let server = Server::new(|_, wire| reply(wire, "200 OK", "", b"ok"));
    let stage = Stage::new();
    let terms = |parallel: u32| json!({ "provider": "custom", "api_key": KEY, "upstream_url": server.url(), "limits": { "max_parallel": parallel } });
    let (greedy, other) = (stage.register(terms(3)), stage.register(terms(3)));
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut connection = stage.connect();
        connection.write(format!("POST /x HTTP/1.1\r\nhost: x\r\nx-api-key: {greedy}\r\ncontent-length: 100\r\n\r\nsome").as_bytes());
        held.push(connection);
    }
    crate::stage::until("all three are under way", || {
        (stage.metric("active_requests") > 2.5).then_some(())
    });
    assert_eq!(stage.get(&greedy, "/x").code(), "too_many_parallel");
    assert_eq!(stage.get(&other, "/x").status, 200);
}

#[test]
fn metadata_and_private_addresses_are_refused_unless_named() {
    let stage = Stage::with_env(&[]);
    // The user may choose a name that resolves to this machine. The provider's own name must not.
    let named = Server::echo();
    let url = format!("http://localhost:{}", named.address.port());
    let token =
        stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": url }));
    assert_eq!(stage.get(&token, "/x").status, 200);
    let mapped = format!("http://[::ffff:169.254.169.254]:{}", named.address.port());
    assert_eq!(
        stage
            .try_register(
                &crate::stage::new_token(),
                json!({ "provider": "custom", "api_key": KEY, "upstream_url": mapped })
            )
            .status,
        201
    );
}
