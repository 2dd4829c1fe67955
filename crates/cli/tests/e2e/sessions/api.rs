//! The session API over HTTP, used by curl and by a small WebSocket client.

use testkit::{Process, Signal, World, need};

use super::{DATA, Up, eventually, inside};

/// Running server, with the arguments of a call to it.
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

    /// Returns the status and body of a call.
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
    // The same request returns the same session, and the command line shows it.
    let (status, again) = api.create(&wanted);
    let id = |text: &str| text.split(r#""id":""#).nth(1).map(|rest| rest[..12].to_owned());
    assert_eq!((status.as_str(), id(&again)), ("200", id(&made)), "{again}");
    world.run(["exec", "-s", "web", "cat", "a"]).succeeds().stdout("one\n");
    assert!(api.call("GET", "/v1/sessions", &[]).1.contains(r#""sessions":[{"id""#));
    assert_eq!(api.call("GET", "/v1/sessions/web", &[]).0, "200");
    // File access uses the session's own rights.
    assert_eq!(
        api.call("GET", "/v1/sessions/web/files?path=a", &[]),
        ("200".into(), "one\n".into())
    );
    let put = ["--data-binary", "two"];
    assert_eq!(api.call("PUT", "/v1/sessions/web/files?path=b", &put).0, "204");
    assert_eq!(world.read("project/b"), "two");
    assert_eq!(api.call("PUT", "/v1/sessions/web/files?path=/usr/x", &put).0, "403");
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
        // D2: requests of a web page in a browser.
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
fn a_file_that_cannot_be_read_or_written_is_answered_with_the_reason() {
    let world = World::new().file("project/dir/a", "one\n").file("home/diary", "dear");
    let (_guard, api) = (Up(&world), Api::start(&world));
    world.run(["up"]).succeeds();
    let get: &[&str] = &[];
    let put: &[&str] = &["--data-binary", "two"];
    let diary = world.path("home/diary").display().to_string();
    for (method, path, words, status, code) in [
        ("GET", "dir", get, "409", "directory"),
        ("PUT", "dir", put, "409", "directory"),
        ("GET", "missing", get, "404", "no_file"),
        ("GET", "none/a", get, "404", "no_directory"),
        ("PUT", "none/a", put, "404", "no_directory"),
        ("PUT", "/usr/x", put, "403", "denied"),
        ("PUT", diary.as_str(), put, "403", "denied"),
    ] {
        let url = format!("/v1/sessions/project/files?path={path}");
        let (found, body) = api.call(method, &url, words);
        assert_eq!(found, status, "{method} {path}: {body}");
        assert!(body.contains(&format!(r#""code":"{code}""#)), "{method} {path}: {body}");
        assert!(!body.contains(r#""hint":null"#), "{method} {path}: {body}");
    }
    assert_eq!(world.read("home/diary"), "dear");
    // The control: existing paths that are allowed.
    assert_eq!(api.call("PUT", "/v1/sessions/project/files?path=dir/a", put).0, "204");
    let read = api.call("GET", "/v1/sessions/project/files?path=dir/a", get);
    assert_eq!(read, ("200".to_owned(), "two".to_owned()));
}

#[test]
fn an_environment_that_the_kernel_cannot_take_is_refused_before_anything_is_made() {
    let world = World::new();
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let body = world.path("outside/body.json").display().to_string();
    let create = |env: &str| {
        world.write("outside/body.json", format!(r#"{{"cwd":"{project}","env":{env}}}"#));
        api.create(&format!("@{body}"))
    };
    let (long, most) = ("x".repeat(300_000), "x".repeat((128 << 10) - 3));
    for env in [
        r#"{"A":"a\u0000b"}"#.to_owned(),
        r#"{"A\u0000":"b"}"#.to_owned(),
        r#"{"A=":"b"}"#.to_owned(),
        r#"{"":"b"}"#.to_owned(),
        format!(r#"{{"A":"{long}"}}"#),
        format!(r#"{{"AB":"{most}"}}"#),
    ] {
        let (status, answer) = create(&env);
        assert_eq!(status, "400", "{}", &env[..env.len().min(40)]);
        assert!(answer.contains(r#""code":"invalid""#) && answer.len() < 1000, "{answer}");
    }
    world.run(["ps"]).succeeds().stdout("");
    // The control: the longest name that the kernel accepts.
    let (status, answer) = create(&format!(r#"{{"A":"{most}"}}"#));
    assert_eq!(status, "201", "{answer}");
    world.run(inside("echo ${#A}")).succeeds().stdout(&format!("{}\n", most.len()));
    let python = need("python3").display().to_string();
    let path = "/v1/sessions/project/exec";
    for first in [
        r#"{"argv":["env"],"env":{"A=":"b"}}"#,
        r#"{"argv":["env"],"env":{"A":"\u0000"}}"#,
        r#"{"argv":["e\u0000v"]}"#,
    ] {
        let said = world.host([&python, "-c", CLIENT, &api.socket, path, first, "[]"]);
        said.succeeds().stdout_contains("\"code\":125").stdout_lacks("PATH=");
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
        // It still belongs to the first one.
        world.host(["stat", "-c", "%a", &socket]).succeeds().stdout("600\n");
        world.run(["serve"]).code(1).stderr_contains("already");
    }
    assert!(!world.has(format!("{DATA}/api.sock")), "who bound it removes it");
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
        ("with another host name", &["-H", &right, "-H", "host: evil.example"], "421"),
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

/// Small WebSocket client: sends the command and its input, prints what it receives.
const CLIENT: &str = r"
import base64, json, os, socket, struct, sys
path, target, first, then = sys.argv[1:5]
s = socket.socket(socket.AF_UNIX); s.connect(path)
s.sendall(('GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n' % (target, base64.b64encode(os.urandom(16)).decode())).encode())
f = s.makefile('rb'); status = f.readline()
while f.readline() not in (b'\r\n', b''): pass
assert b'101' in status, status
def send(kind, data):
    mask = os.urandom(4) if len(data) < 126 else bytes(4); head = bytes([0x80 | kind])
    head += bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack('>H', len(data))
    s.sendall(head + mask + (bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if any(mask) else data))
send(1, first.encode())
try:
    for item in json.loads(then):
        if 'type' in item: send(2, item['type'].encode())
        elif 'fill' in item:
            for _ in range(item['fill']): send(2, b'y' * 1024)
        else: send(1, json.dumps(item).encode())
except OSError: pass
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
    assert!(text.contains("\"code\":127") && text.contains("command not found"), "{text}");
    let text = said(r#"{"argv":[]}"#, "[]");
    assert!(text.contains("\"code\":125") && text.contains("`argv` is empty"), "{text}");
    let text = said(r#"{"argv":["sleep","1000"]}"#, r#"[{"signal":"TERM"}]"#);
    assert_eq!(text, "{\"code\":143,\"why\":null}\n");
    let text = said(
        r#"{"argv":["sh","-c","read x; stty size"],"terminal":{"rows":10,"columns":20}}"#,
        r#"[{"resize":{"rows":33,"columns":44}},{"type":"go\n"}]"#,
    );
    assert!(text.contains("33 44"), "{text}");
    // When the client disconnects, its command is ended.
    let left = run(r#"{"argv":["sh","-c","echo $$ > pid; echo up; exec sleep 1000"]}"#, "[]");
    left.wait_for("up");
    left.signal(Signal::KILL);
    left.wait();
    eventually("the command has ended with its caller", || {
        world.run(inside("kill -0 $(cat pid) 2>/dev/null")).status().code() != Some(0)
    });
}

#[test]
fn a_signal_or_a_close_behind_unread_input_is_seen() {
    let world = World::new();
    let _guard = Up(&world);
    world.run(["up"]).succeeds();
    let api = Api::start(&world);
    let python = need("python3").display().to_string();
    let run = |first: &str, then: &str| {
        world.start([&python, "-c", CLIENT, &api.socket, "/v1/sessions/project/exec", first, then])
    };
    let said = |first: &str, then: &str| run(first, then).wait().succeeds().output();
    let sleep = r#"{"argv":["sleep","1000"]}"#;
    let text = said(sleep, r#"[{"fill":3000},{"signal":"TERM"}]"#);
    assert_eq!(text, "{\"code\":143,\"why\":null}\n");
    let script = r#"{"argv":["sh","-c","echo $$ > pid; echo up; exec sleep 1000"]}"#;
    let left = run(script, r#"[{"fill":3000}]"#);
    left.wait_for("up");
    left.signal(Signal::KILL);
    left.wait();
    eventually("the command has ended with its caller", || {
        world.run(inside("kill -0 $(cat pid) 2>/dev/null")).status().code() != Some(0)
    });
    // The server buffers no more than this for a command that reads nothing.
    let text = said(sleep, r#"[{"fill":20000}]"#);
    assert!(text.contains("\"code\":137") && text.contains("unread"), "{text}");
    // The control: a command that reads, even late, gets everything.
    let text = said(r#"{"argv":["wc","-c"]}"#, r#"[{"fill":20000},{"eof":true}]"#);
    assert!(text.contains("1:20480000|"), "{text}");
    let late = r#"{"argv":["sh","-c","sleep 2; wc -c"]}"#;
    let text = said(late, r#"[{"fill":3000},{"eof":true}]"#);
    assert!(text.contains("1:3072000|"), "{text}");
}

#[test]
fn the_end_of_the_input_is_told_to_a_terminal_over_a_websocket() {
    let world = World::new();
    let _guard = Up(&world);
    world.run(["up"]).succeeds();
    let api = Api::start(&world);
    let python = need("python3").display().to_string();
    let first = r#"{"argv":["cat"],"terminal":{"rows":10,"columns":20}}"#;
    for then in [r#"[{"eof":true}]"#, r#"[{"type":"half"},{"eof":true}]"#] {
        let line = [&python, "-c", CLIENT, &api.socket, "/v1/sessions/project/exec", first, then];
        let text = world.host(line).succeeds().output();
        assert!(text.ends_with("{\"code\":0,\"why\":null}\n"), "{text}");
        assert_eq!(text.contains("half"), then.contains("half"), "{text}");
    }
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

#[test]
fn serve_removes_the_socket_that_it_bound_and_no_other() {
    let world = World::new();
    let first = Api::start(&world);
    let socket = std::path::PathBuf::from(&first.socket);
    for _ in 0..3 {
        world.run(["serve"]).code(1).stderr_contains("already");
        assert_eq!(first.call("GET", "/v1/health", &[]).0, "200");
    }
    // A socket that replaced it meanwhile remains when the first server ends.
    std::fs::remove_file(&socket).unwrap();
    let second = Api::start(&world);
    drop(first);
    assert_eq!(second.call("GET", "/v1/health", &[]).0, "200");
    drop(second);
    assert!(!world.has(format!("{DATA}/api.sock")));
    // A socket of a killed server is replaced.
    let mut killed = Api::start(&world);
    let server = killed.server.take().unwrap();
    server.signal(Signal::KILL);
    server.wait();
    assert!(world.has(format!("{DATA}/api.sock")));
    let next = Api::start(&world);
    assert_eq!(next.call("GET", "/v1/health", &[]).0, "200");
    drop(next);
    // A file that is not a socket is not touched.
    std::fs::write(&socket, "mine").unwrap();
    world.run(["serve"]).code(1).stderr_contains("cannot listen on");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn create_with_other_settings_is_refused_unless_it_may_recreate() {
    let world = World::new();
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let wanted = |more: &str| format!(r#"{{"name":"web","cwd":"{project}"{more}}}"#);
    let (status, made) = api.create(&wanted(r#","network":"none""#));
    assert_eq!(status, "201", "{made}");
    let handle = || {
        let text = api.call("GET", "/v1/sessions/web", &[]).1;
        text.split(r#""handle":"#).nth(1).map(ToOwned::to_owned)
    };
    let first = handle();
    let (status, body) = api.create(&wanted(""));
    assert_eq!(status, "409", "{body}");
    assert!(body.contains(r#""code":"differs""#) && body.contains("network: off → on"), "{body}");
    assert_eq!(handle(), first);
    world.run(["exec", "-s", "web", "grep", "-c", ":", "/proc/net/dev"]).succeeds().stdout("1\n");
    assert_eq!(api.create(&wanted(r#","network":"none","recreate":true"#)).0, "200");
    assert_eq!(handle(), first);
    assert_eq!(api.create(&wanted(r#","recreate":true"#)).0, "201");
    assert_ne!(handle(), first);
    // A stopped session takes the new request.
    assert_eq!(api.call("POST", "/v1/sessions/web/down", &[]).0, "200");
    assert_eq!(api.create(&wanted(r#","network":"none""#)).0, "201");
}

#[test]
fn delete_keeps_work_that_was_not_applied_unless_it_may_discard() {
    let world = World::new().file("project/a", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let wanted = format!(r#"{{"name":"web","cwd":"{project}","cow":true}}"#);
    assert_eq!(api.create(&wanted).0, "201");
    let sh = |script: &str| world.run(["exec", "-s", "web", "sh", "-c", script]);
    sh("echo two > a").succeeds();
    for query in ["", "?discard=false"] {
        let (status, body) = api.call("DELETE", &format!("/v1/sessions/web{query}"), &[]);
        assert_eq!(status, "409", "{body}");
        assert!(
            body.contains(r#""code":"unapplied""#) && body.contains("1 file changed"),
            "{body}"
        );
        sh("cat a").succeeds().stdout("two\n");
    }
    assert_eq!(api.call("DELETE", "/v1/sessions/web?discard=maybe", &[]).0, "400");
    assert_eq!(api.call("POST", "/v1/sessions/web/down", &[]).0, "200");
    assert_eq!(api.call("DELETE", "/v1/sessions/web", &[]).0, "409");
    // The same request continues the session with its changes, also without `cow`.
    assert_eq!(api.create(&format!(r#"{{"name":"web","cwd":"{project}"}}"#)).0, "201");
    sh("cat a").succeeds().stdout("two\n");
    assert_eq!(world.read("project/a"), "one\n");
    assert_eq!(api.call("DELETE", "/v1/sessions/web?discard=true", &[]).0, "204");
    world.run(["ps"]).succeeds().stdout("");
    // The control: without work, no confirmation is needed.
    assert_eq!(api.create(&wanted).0, "201");
    assert_eq!(api.call("DELETE", "/v1/sessions/web", &[]).0, "204");
}

#[test]
fn a_conflict_with_a_session_answers_409_and_names_the_key_that_resolves_it() {
    let world = World::new().file("project/a", "one\n");
    let (_guard, api) = (Up(&world), Api::start(&world));
    let project = world.path("project").display().to_string();
    let create = |more: &str| api.create(&format!(r#"{{"name":"web","cwd":"{project}"{more}}}"#));
    assert_eq!(create(r#","cow":true"#).0, "201");
    // The control: without work, the layer may be dropped, by the same key as every other setting.
    for more in [r#","cow":false"#, r#","cow":true,"network":"none""#] {
        let (status, text) = create(more);
        assert_eq!(status, "409", "{text}");
        let key = r#"set `\"recreate\": true`"#;
        assert!(text.contains(key) && !text.contains("--recreate"), "{text}");
    }
    // A mounted database contains synced writes. The rest follows a moment later.
    world.run(["exec", "-s", "web", "sh", "-c", "echo two > a; sync a"]).succeeds();
    for more in [r#","cow":false"#, r#","cow":false,"recreate":true"#] {
        let (status, text) = create(more);
        assert!(
            status == "409" && text.contains("without its copy-on-write layer"),
            "{status} {text}"
        );
    }
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn a_file_that_cannot_be_written_is_the_callers_mistake() {
    let world = World::new();
    let (_guard, api) = (Up(&world), Api::start(&world));
    world.run(["up"]).succeeds();
    world.host(["ln", "-s", "missing/file", "dangling"]).succeeds();
    world.host(["ln", "-s", "target", "link"]).succeeds();
    let put = |path: &str| {
        let call = format!("/v1/sessions/project/files?path={path}");
        api.call("PUT", &call, &["--data-binary", "text"])
    };
    let (long, deep) = ("n".repeat(256), "d/".repeat(2048));
    for (path, expected) in [("dangling", "409"), (&long, "400"), (&deep, "400")] {
        let (status, body) = put(path);
        assert_eq!(status, expected, "{body}");
        assert!(body.contains(r#""hint":""#), "{body}");
    }
    // The control: the longest name, and a link to a file that can be created.
    assert_eq!(put(&long[1..]).0, "204");
    assert_eq!(put("link").0, "204");
    assert_eq!(world.read("project/target"), "text");
}
