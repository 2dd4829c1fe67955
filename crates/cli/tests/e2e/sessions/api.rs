//! Sessions over HTTP, by curl and by a WebSocket of a few lines.

use testkit::{Process, Signal, World, need};

use super::{DATA, Up, eventually, inside};

/// A server, and the words of a call to it.
pub(super) struct Api<'w> {
    world: &'w World,
    server: Option<Process>,
    pub(super) socket: String,
}

impl<'w> Api<'w> {
    pub(super) fn start(world: &'w World) -> Self {
        Self::with(world, &[])
    }

    pub(super) fn with(world: &'w World, flags: &[&str]) -> Self {
        let server = world.spawn(["serve"].iter().chain(flags));
        server.wait_for_message("serving at");
        let socket = world.path(DATA).join("api.sock").display().to_string();
        Self { world, server: Some(server), socket }
    }

    /// Status and body of a call.
    #[track_caller]
    pub(super) fn call(&self, method: &str, path: &str, more: &[&str]) -> (String, String) {
        let curl = need("curl").display().to_string();
        let url = format!("http://localhost{path}");
        let words =
            [curl.as_str(), "-s", "--max-time", "60", "--unix-socket", &self.socket, "-X", method];
        let line = [&words[..], &["-w", "\n%{http_code}", &url], more].concat();
        let text = self.world.host(line).succeeds().output();
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        (status.to_owned(), body.to_owned())
    }

    #[track_caller]
    pub(super) fn create(&self, json: &str) -> (String, String) {
        self.call("POST", "/v1/sessions", &["-H", "content-type: application/json", "-d", json])
    }
}

impl Drop for Api<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal(Signal::TERM);
            server.wait().succeeds();
        }
    }
}

#[test]
fn sessions_are_made_listed_used_and_removed_over_http() {
    let world = World::new().file("project/a", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let wanted = format!(r#"{{"name":"web","cwd":"{project}","network":"none"}}"#);
    let (status, made) = api.create(&wanted);
    assert_eq!(status, "201", "{made}");
    assert!(made.contains(r#""state":"running""#) && made.contains(r#""name":"web""#), "{made}");
    // The same again is the same session, and the command line sees it.
    let (status, again) = api.create(&wanted);
    let id = |text: &str| text.split(r#""id":""#).nth(1).map(|rest| rest[..12].to_owned());
    assert_eq!((status.as_str(), id(&again)), ("200", id(&made)), "{again}");
    world.run(["exec", "-s", "web", "cat", "a"]).succeeds().stdout("one\n");
    assert!(api.call("GET", "/v1/sessions", &[]).1.contains(r#""sessions":[{"id""#));
    assert_eq!(api.call("GET", "/v1/sessions/web", &[]).0, "200");
    // Files, by the session's own rights.
    assert_eq!(
        api.call("GET", "/v1/sessions/web/files?path=a", &[]),
        ("200".into(), "one\n".into())
    );
    let put = ["--data-binary", "two"];
    assert_eq!(api.call("PUT", "/v1/sessions/web/files?path=b", &put).0, "204");
    assert_eq!(world.read("project/b"), "two");
    assert_eq!(api.call("PUT", "/v1/sessions/web/files?path=/usr/x", &put).0, "404");
    assert!(!std::path::Path::new("/usr/x").is_file());
    assert_eq!(api.call("GET", "/v1/sessions/web/files?path=missing", &[]).0, "404");
    let (status, usage) = api.call("GET", "/v1/sessions/web/usage", &[]);
    assert!(
        status == "200" && usage.contains(r#""processes":"#) && !usage.contains(r#""processes":0"#),
        "{usage}"
    );
    assert_eq!(api.call("POST", "/v1/sessions/web/restart", &[]).0, "200");
    let (status, down) = api.call("POST", "/v1/sessions/web/down", &[]);
    assert!(status == "200" && down.contains(r#""state":"stopped""#), "{down}");
    assert_eq!(api.call("GET", "/v1/sessions/web/files?path=a", &[]).0, "409");
    assert_eq!(api.call("DELETE", "/v1/sessions/web", &[]).0, "204");
    assert_eq!(api.call("GET", "/v1/sessions/web", &[]).0, "404");
    assert!(
        api.call("GET", "/metrics", &[])
            .1
            .contains("agent_sandbox_requests_total{status=\"201\"} 1")
    );
}

#[test]
fn problems_are_json_with_a_code_a_message_and_a_hint() {
    let world = World::new().file("project/sandbox.toml", "filesystem.rw = ['~/x']\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    for (why, (status, body), expected, code) in [
        ("no JSON", api.create("{"), "400", "invalid"),
        ("an unknown key", api.create(r#"{"cwd":"/","netwrk":"none"}"#), "422", "invalid"),
        ("a relative directory", api.create(r#"{"cwd":"x"}"#), "400", "invalid"),
        ("no directory", api.create(r#"{"cwd":"/nowhere"}"#), "400", "invalid"),
        (
            "a bad name",
            api.create(&format!(r#"{{"cwd":"{project}","name":"../x"}}"#)),
            "400",
            "invalid_name",
        ),
        (
            "an untrusted project",
            api.create(&format!(r#"{{"cwd":"{project}"}}"#)),
            "422",
            "refused",
        ),
        ("an unknown session", api.call("GET", "/v1/sessions/none", &[]), "404", "not_found"),
        ("an unknown call", api.call("GET", "/v2/x", &[]), "404", "not_found"),
        ("a wrong method", api.call("PATCH", "/v1/sessions", &[]), "405", "method_not_allowed"),
        ("no WebSocket", api.call("GET", "/v1/sessions/none/exec", &[]), "404", "not_found"),
        // D2: a page in a browser.
        (
            "an origin",
            api.call("GET", "/v1/sessions", &["-H", "origin: https://evil.example"]),
            "403",
            "forbidden",
        ),
    ] {
        assert_eq!(status, expected, "{why}: {body}");
        for part in [&format!(r#""code":"{code}""#), r#""message":""#, r#""hint":"#] {
            assert!(body.contains(part), "{why}: {body}");
        }
    }
}

#[test]
fn d4_the_socket_is_for_its_owner_and_an_address_asks_for_a_token() {
    let world = World::new();
    let socket = world.path(DATA).join("api.sock").display().to_string();
    {
        let _api = Api::start(&world);
        world.host(["stat", "-c", "%a", &socket]).succeeds().stdout("600\n");
        world.run(["serve"]).code(1).stderr_contains("already");
    }
    world
        .run(["serve", "--listen", "127.0.0.1:0"])
        .code(2)
        .stderr_contains("AGENT_SANDBOX_API_TOKEN");
    let token = "0123456789abcdef0123456789abcdef";
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = free.expect("there is a free port").to_string();
    let with_token = world.clone().env("AGENT_SANDBOX_API_TOKEN", token);
    let server = with_token.spawn(["serve", "--listen", &address]);
    server.wait_for_message("serving at http://");
    let curl = need("curl").display().to_string();
    let url = format!("http://{address}/v1/sessions");
    let right = format!("authorization: Bearer {token}");
    for (why, headers, expected) in [
        ("the token", &["-H", right.as_str()][..], "200"),
        ("none", &[], "401"),
        ("another", &["-H", "authorization: Bearer 0123456789abcdef0123456789abcdee"], "401"),
        ("by a name that is somebody else's", &["-H", &right, "-H", "host: evil.example"], "421"),
        ("from a page", &["-H", &right, "-H", "origin: http://localhost"], "403"),
    ] {
        let line = [&[curl.as_str(), "-s", "-o", "/dev/null", "-w", "%{http_code}", &url], headers]
            .concat();
        let status = world.host(line).succeeds().output();
        assert_eq!(status, expected, "{why}");
    }
    server.signal(Signal::TERM);
    server.wait().succeeds();
}

/// A client of a few lines: says what to run, then everything it is given; prints what comes.
const CLIENT: &str = r"
import base64, json, os, socket, struct, sys
path, target, first, then = sys.argv[1:5]
s = socket.socket(socket.AF_UNIX); s.connect(path)
s.sendall(('GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n' % (target, base64.b64encode(os.urandom(16)).decode())).encode())
f = s.makefile('rb'); status = f.readline()
while f.readline() not in (b'\r\n', b''): pass
assert b'101' in status, status
def send(kind, data):
    mask = os.urandom(4); head = bytes([0x80 | kind])
    head += bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack('>H', len(data))
    s.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
send(1, first.encode())
for item in json.loads(then):
    send(2, item['type'].encode()) if 'type' in item else send(1, json.dumps(item).encode())
while True:
    head = f.read(2)
    if len(head) < 2 or head[0] & 15 == 8: break
    size = head[1] & 127
    if size == 126: size = struct.unpack('>H', f.read(2))[0]
    elif size == 127: size = struct.unpack('>Q', f.read(8))[0]
    data = f.read(size)
    if head[0] & 15 == 2: print('%d:%s' % (data[0], data[1:].decode().replace('\r\n', '|').replace('\n', '|')), flush=True)
    elif head[0] & 15 == 1: print(data.decode(), flush=True)
";

#[test]
fn a_command_streams_over_a_websocket_with_input_sizes_and_signals() {
    let world = World::new();
    let _guard = Up(&world);
    world.run(["up"]).succeeds();
    let api = Api::start(&world);
    let python = need("python3").display().to_string();
    let socket = api.socket.clone();
    let run = |first: &str, then: &str| {
        world.start([&python, "-c", CLIENT, &socket, "/v1/sessions/project/exec", first, then])
    };
    let said = |first: &str, then: &str| run(first, then).wait().succeeds().output();
    let text = said(r#"{"argv":["sh","-c","echo out; echo err >&2; exit 4"]}"#, "[]");
    assert!(
        text.contains("1:out|")
            && text.contains("2:err|")
            && text.ends_with("{\"code\":4,\"why\":null}\n"),
        "{text}"
    );
    let text = said(r#"{"argv":["cat"]}"#, r#"[{"type":"all of it"},{"eof":true}]"#);
    assert_eq!(text, "1:all of it\n{\"code\":0,\"why\":null}\n");
    let text = said(r#"{"argv":["nosuch"]}"#, "[]");
    assert!(text.contains("\"code\":127") && text.contains("was not found"), "{text}");
    let text = said(r#"{"argv":[]}"#, "[]");
    assert!(text.contains("\"code\":125") && text.contains("`argv` is empty"), "{text}");
    let text = said(r#"{"argv":["sleep","1000"]}"#, r#"[{"signal":"TERM"}]"#);
    assert_eq!(text, "{\"code\":143,\"why\":null}\n");
    let text = said(
        r#"{"argv":["sh","-c","read x; stty size"],"terminal":{"rows":10,"columns":20}}"#,
        r#"[{"resize":{"rows":33,"columns":44}},{"type":"go\n"}]"#,
    );
    assert!(text.contains("33 44"), "{text}");
    // Who goes away ends what was started.
    let left = run(r#"{"argv":["sh","-c","echo $$ > pid; echo up; exec sleep 1000"]}"#, "[]");
    left.wait_for("up");
    left.signal(Signal::KILL);
    left.wait();
    eventually("the command has ended with its caller", || {
        world.run(inside("kill -0 $(cat pid) 2>/dev/null")).status().code() != Some(0)
    });
}

#[test]
fn a_log_is_streamed_as_events_until_its_session_ends() {
    let world = World::new();
    let _guard = Up(&world);
    world.write("agent.toml", "backend = 'bwrap'\n[agent]\ncommand = 'sh'\nargs = ['-c', 'echo one; echo two; sleep 1000']\n");
    let file = world.path("agent.toml").display().to_string();
    world.run(["-c", &file, "up"]).succeeds();
    let api = Api::start(&world);
    let curl = need("curl").display().to_string();
    let url = "http://localhost/v1/sessions/project/logs?follow=true";
    let follow = world.start([&curl, "-sN", "--unix-socket", &api.socket, url]);
    follow.wait_for("data: two");
    world.run(["down"]).succeeds();
    follow.wait().succeeds().stdout_contains("data: one\n\ndata: two\n\n");
}
