//! HTTP/2 on both sides, with Node as client (cleartext) and as server (TLS).

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::{Authority, need};

use crate::stage::{KEY, Stage};

/// Server that reports each request, the key's presence, and the number of connections so far.
const SERVER: &str = r"
const http2 = require('http2');
const server = http2.createSecureServer({ cert: process.env.CERT, key: process.env.KEY, allowHTTP1: false });
let connections = 0;
server.on('session', () => connections++);
server.on('stream', (stream, head) => {
  stream.on('error', () => {});
  let body = '';
  stream.on('data', piece => body += piece);
  stream.on('end', () => {
    if (head[':path'] === '/breaks') {
      stream.respond({ ':status': 200 });
      stream.write('half');
      return setTimeout(() => stream.session.destroy(), 100);
    }
    if (head[':path'] === '/trailers') {
      stream.respond({ ':status': 200, trailer: 'x-sum' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({
        'grpc-status': '0', 'x-sum': String(head.te), 'x-echo': process.env.EXPECTED,
      }));
      // Its end may be the beginning of the key.
      return stream.end('the end is s');
    }
    const key = head.authorization === 'Bearer ' + process.env.EXPECTED;
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    stream.end(JSON.stringify({ head, body, key, connections }));
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

/// Requests all paths in parallel on one connection, and prints the results.
const CLIENT: &str = r"
const [url, token, ...paths] = process.argv.slice(1);
const client = require('http2').connect(url);
Promise.all(paths.map(path => new Promise(done => {
  const stream = client.request({ ':method': 'POST', ':path': path, 'x-api-key': token, te: 'trailers' });
  const answer = { path, body: '' };
  stream.on('response', head => answer.status = head[':status']);
  stream.on('data', piece => answer.body += piece);
  stream.on('trailers', trailers => answer.trailers = trailers);
  stream.on('error', error => answer.error = error.code);
  stream.on('close', () => done(answer));
  stream.end('{}');
}))).then(answers => { console.log(JSON.stringify(answers)); client.close(); });
";

struct Node {
    process: Child,
    port: u16,
}

impl Node {
    fn start(authority: &Authority) -> Self {
        let (certificate, key) = authority.pem_for("localhost");
        let mut process = Command::new(need("node"))
            .args(["-e", SERVER])
            .env("CERT", certificate)
            .env("KEY", key)
            .env("EXPECTED", KEY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the result for each path.
fn ask(stage: &Stage, token: &str, paths: &[&str]) -> Vec<Value> {
    let url = format!("http://{}", stage.address);
    let done =
        Command::new(need("node")).args(["-e", CLIENT, &url, token]).args(paths).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn http2_goes_through_from_end_to_end() {
    let authority = Authority::default();
    let node = Node::start(&authority);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    let stage = Stage::with_env(&[("SSL_CERT_FILE", file.path().to_str().unwrap())]);
    let url = format!("https://localhost:{}", node.port);
    let token =
        stage.register(json!({ "provider": "custom", "api_key": KEY, "upstream_url": url }));
    let first = ask(&stage, &token, &["/first"]);
    assert_eq!(first[0]["status"], 200, "{first:?}");

    let answers = ask(&stage, &token, &["/a?b=c", "/second", "/third"]);
    for (answer, path) in answers.iter().zip(["/a?b=c", "/second", "/third"]) {
        assert_eq!((&answer["status"], &answer["error"]), (&json!(200), &Value::Null), "{answer}");
        let said: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        assert_eq!((&said["head"][":path"], &said["body"]), (&json!(path), &json!("{}")));
        assert_eq!(said["head"][":authority"], format!("localhost:{}", node.port));
        assert_eq!((&said["key"], &said["head"]["x-api-key"]), (&json!(true), &Value::Null));
        assert!(!answer.to_string().contains(KEY) && !answer.to_string().contains(&token));
        // Streams share a connection. Each worker has its own, and there are only a few workers.
        assert!(said["connections"].as_u64().unwrap() <= 4, "{said}");
    }
    // HTTP/1.1 on the client's side reaches the same server.
    assert_eq!(stage.get(&token, "/plain").json()["head"][":method"], "GET");

    // Trailers arrive after the body, as gRPC needs it.
    let last = &ask(&stage, &token, &["/trailers"])[0];
    assert_eq!((&last["status"], &last["body"]), (&json!(200), &json!("the end is s")), "{last}");
    let expected = json!({ "grpc-status": "0", "x-sum": "trailers", "x-echo": "[scrubbed]" });
    assert_eq!(last["trailers"], expected, "{last}");
    // A client of HTTP/1.1 receives the trailers that were announced.
    let mut connection = stage.connect();
    connection.write(
        format!("GET /trailers HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\nte: trailers\r\nconnection: te, close\r\n\r\n")
            .as_bytes(),
    );
    let raw = connection.rest();
    assert!(raw.ends_with("\r\n0\r\nx-sum: trailers\r\n\r\n"), "{raw}");

    // A truncated response is truncated for the client, too, in both protocols.
    let broken = &ask(&stage, &token, &["/breaks"])[0];
    assert_eq!((&broken["body"], broken["error"].is_string()), (&json!("half"), true), "{broken}");
    assert!(!stage.get(&token, "/breaks").whole);
}
