//! Resources that callers of the API can exhaust, and their limits.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use testkit::{World, need, rounds};

use super::api::Api;
use super::{Up, inside};

fn wanted(world: &World, name: &str) -> String {
    format!(r#"{{"name":"{name}","cwd":"{}","network":"none"}}"#, world.path("project").display())
}

/// A caller that retries because it got no answer receives the session that it asked for, and no second one.
#[test]
fn the_same_request_many_times_at_once_makes_one_session() {
    let world = World::new();
    let (_guard, api) = (Up(&world), Api::start(&world));
    let (curl, url) = (need("curl").display().to_string(), "http://localhost/v1/sessions");
    let json = wanted(&world, "one");
    let line = [&curl, "-s", "--unix-socket", &api.socket, "-w", "\n%{http_code}"];
    let more = ["-H", "content-type: application/json", "-d", &json, url];
    let start = |_| world.start(line.into_iter().chain(more));
    let running: Vec<_> = (0..8).map(start).collect();
    let answers: Vec<String> =
        running.into_iter().map(|call| call.wait().succeeds().output()).collect();
    let made = answers.iter().filter(|answer| answer.ends_with("\n201")).count();
    let found = answers.iter().filter(|answer| answer.ends_with("\n200")).count();
    assert_eq!((made, found), (1, 7), "{answers:?}");
    assert_eq!(api.call("GET", "/v1/sessions", &[]).1.matches(r#""id""#).count(), 1);
    // The same key for another request is refused.
    let other = r#"{"name":"one","cwd":"/usr","network":"none"}"#;
    assert_eq!(api.create(other).0, "409");
}

#[test]
fn what_is_too_much_is_refused_and_what_is_there_goes_on() {
    let world = World::new().dir("other");
    let (_guard, api) = (Up(&world), Api::with(&world, &["--max-sessions", "1"]));
    assert_eq!(api.create(&wanted(&world, "one")).0, "201");
    assert_eq!(api.create(&wanted(&world, "one")).0, "200", "it is there already");
    let (status, text) = api.create(&wanted(&world, "two"));
    assert!(status == "429" && text.contains(r#""code":"too_many""#), "{status}: {text}");
    world.write("long", vec![b' '; (1 << 20) + 1]);
    let file = format!("@{}", world.path("long").display());
    for (method, path) in [("POST", "/v1/sessions"), ("PUT", "/v1/sessions/one/files?path=x")] {
        let body = ["-H", "content-type: application/json", "--data-binary", &file];
        let (status, text) = api.call(method, path, &body);
        assert!(status == "413" && text.contains(r#""code":"too_large""#), "{status}: {text}");
    }
    assert!(!world.has("project/x"));
    assert_eq!(api.call("GET", "/v1/sessions/one", &[]).0, "200");
}

/// Clients that send nothing or send slowly, and an endless file. Others are served meanwhile. A soak run also waits
/// for their timeouts.
#[test]
fn slow_callers_delay_no_other_caller() {
    let world = World::new();
    let (_guard, api) = (Up(&world), Api::start(&world));
    assert_eq!(api.create(&wanted(&world, "project")).0, "201");
    world.run(inside("mkfifo pipe")).succeeds();
    let say = |text: &[u8]| {
        let mut stream = UnixStream::connect(&api.socket).expect("it listens");
        stream.write_all(text).expect("it takes some");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket has timeouts");
        stream
    };
    let half = b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    let endless = b"GET /v1/sessions/project/files?path=pipe HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut slow: Vec<UnixStream> = (0..100).map(|_| say(b"GET /v1/hea")).collect();
    let mut bodies: Vec<UnixStream> = (0..100).map(|_| say(half)).collect();
    let mut files: Vec<UnixStream> = (0..8).map(|_| say(endless)).collect();
    assert_eq!(api.call("GET", "/v1/health", &[]).0, "200");
    assert_eq!(api.call("GET", "/v1/sessions/project", &[]).0, "200");
    if rounds(0, 1) == 0 {
        return;
    }
    for (streams, status) in [(&mut slow, ""), (&mut bodies, " 408 "), (&mut files, " 504 ")] {
        for stream in streams {
            let mut answer = vec![0; 16];
            let read = stream.read(&mut answer).expect("it is told, or hung up on");
            let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
            assert!(answer.contains(status), "{status}: {answer}");
        }
    }
    world.run(inside("echo served")).succeeds().stdout("served\n");
}
