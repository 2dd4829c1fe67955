//! Ways around the allow list, with the ids of the attack table. Each works without a list.

use testkit::Run;

use super::internet::{Internet, PUBLIC, PUBLIC_V6};

/// Opens a connection without the proxy, and prints the result.
const RAW: &str = "import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); s.settimeout(10)
s.connect((sys.argv[1], int(sys.argv[2])))
s.sendall(b'GET /hello HTTP/1.0\\r\\nHost: other.example.net\\r\\n\\r\\n')
text = s.makefile().read()
sys.exit(0 if 'hello from other' in text else 'no greeting: ' + text)";

/// Sends raw bytes to the proxy, and prints the first line of the response.
const ASK: &str = "import socket, sys
s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(30)
s.sendall(sys.argv[1].encode().decode('unicode_escape').encode('latin-1'))
print(s.makefile(errors='replace').readline().strip())";

impl Internet {
    #[track_caller]
    fn raw(&self, address: &str, port: &str) -> Run {
        self.run(["/usr/bin/python3", "-c", RAW, address, port])
    }

    #[track_caller]
    fn ask(&self, request: &str) -> String {
        self.run(["/usr/bin/python3", "-c", ASK, request]).succeeds().output()
    }

    /// Sends `CONNECT` for a host in any spelling.
    #[track_caller]
    fn connect(&self, host: &str) -> String {
        self.ask(&format!("CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n"))
    }
}

#[test]
fn n1_a_raw_socket_goes_nowhere() {
    let internet = Internet::new();
    internet.world.host(["/usr/bin/python3", "-c", RAW, PUBLIC, "80"]).succeeds();
    internet.raw(PUBLIC, "80").fails().stderr_contains("unreachable");
    internet.raw(PUBLIC, "443").fails().stderr_contains("unreachable");
    let before = internet.log("requests.log").lines().count();
    // The web port on loopback checks the name, too.
    internet.raw("127.0.0.1", "80").fails().stderr_contains("403");
    assert_eq!(internet.log("requests.log").lines().count(), before);
}

#[test]
fn n2_packets_and_echo_requests_go_nowhere() {
    let internet = Internet::new();
    let send = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'out', ('93.184.216.34', 9999))";
    internet.world.host(["/usr/bin/python3", "-c", send]).succeeds();
    internet.run(["/usr/bin/python3", "-c", send]).fails().stderr_contains("unreachable");
    let echo = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.sendto(b'\\x08\\0\\0\\0\\0\\0\\0\\0', ('93.184.216.34', 0))";
    internet.run(["/usr/bin/python3", "-c", echo]).fails();
    let quic = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 443)); s.send(b'x'); s.send(b'x')";
    internet.run(["/usr/bin/python3", "-c", quic]).fails().stderr_contains("refused");
}

#[test]
fn n3_what_stands_in_a_name_never_leaves() {
    let internet = Internet::new();
    let look = |name: &str| format!("import socket; print(socket.gethostbyname('{name}'))");
    let tunnel = look("c2VjcmV0.tunnel.example.net");
    internet
        .world
        .host(["/usr/bin/python3", "-c", &tunnel])
        .succeeds()
        .stdout(&format!("{PUBLIC}\n"));
    assert!(internet.log("names.log").contains("c2vjcmv0"));
    internet.run(["/usr/bin/python3", "-c", &look("other-secret.tunnel.example.net")]).fails();
    internet
        .run(["/usr/bin/python3", "-c", &look("api.example.com")])
        .succeeds()
        .stdout("127.0.0.1\n");
    let text = "import socket, sys
q = b'\\xab\\xcd\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\x0bthird-secret\\3api\\7example\\3com\\0\\0\\x10\\0\\1'.replace(b'\\x0b', b'\\x0c')
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(30); s.connect(('127.0.0.1', 53)); s.send(q)
sys.exit(0 if s.recv(512)[3] & 15 == 3 else 1)";
    internet.run(["/usr/bin/python3", "-c", text]).succeeds();
    assert!(!internet.log("names.log").contains("-secret"), "{}", internet.log("names.log"));
}

#[test]
fn n4_a_name_in_disguise_is_refused() {
    let internet = Internet::new();
    let allowed = internet.connect("api.example.com:443");
    assert_eq!(allowed, "HTTP/1.1 200 OK\n");
    for host in [
        "api.example.com.:443",
        "api.example.com\\0.example.net:443",
        "api.example.com@other.example.net:443",
        "api.example.com.example.net:443",
        "evilapi.example.com:443",
        "api.example.com%00.example.net:443",
        "xn--pi-7ia.example.com:443",
        "\\xe1pi.example.com:443",
        "api.example.com:443 ",
        "api.example.com:0443",
        "api.example.com",
    ] {
        let answer = internet.connect(host);
        assert!(
            answer.contains(" 400 ") || answer.contains(" 403 ") || answer == "\n",
            "{host}: {answer}"
        );
    }
    // SOCKS names have a length prefix, so they can contain any byte.
    let socks = "import socket, sys
name = b'api.example.com\\0.example.net'
s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(30)
s.sendall(b'\\5\\1\\0'); s.recv(2)
s.sendall(b'\\5\\1\\0\\3' + bytes([len(name)]) + name + b'\\1\\xbb')
sys.exit(0 if s.recv(10)[1] == 2 else 1)";
    internet.run(["/usr/bin/python3", "-c", socks]).succeeds();
    assert!(!internet.log("names.log").contains("example.net"), "{}", internet.log("names.log"));
}

#[test]
fn n5_an_address_in_disguise_is_refused() {
    let internet = Internet::new();
    for host in [
        "127.0.0.1:8080",
        "0.0.0.0:8080",
        "2130706433:8080",
        "0x7f.0.0.1:8080",
        "0177.0.0.1:8080",
        "127.1:8080",
        "[::1]:8080",
        "[::ffff:127.0.0.1]:8080",
        "[fe80::1%25lo]:8080",
        "10.9.8.7:80",
        "localhost:8080",
    ] {
        let answer = internet.connect(host);
        assert!(answer.contains(" 400 ") || answer.contains(" 403 "), "{host}: {answer}");
    }
    assert_eq!(internet.log("requests.log"), "");
}

#[test]
fn n6_a_name_that_changes_its_address_is_dialled_where_it_was_looked_at() {
    let internet = Internet::new();
    for name in ["loop.example.com", "private.example.com", "rebinding.example.com"] {
        let url = format!("https://{name}/");
        internet.world.host(["curl", "-sS", "-m", "20", &url]);
        for _ in 0..4 {
            let host = ["--allow-host", name, "curl", "-sS", "-m", "30", &url];
            let run = internet.world.run(host);
            if name != "rebinding.example.com" {
                run.fails().stderr_contains("403");
            }
        }
    }
    let reached = internet.log("requests.log");
    let loopback = reached.lines().filter(|line| line.starts_with("loopback")).count();
    // Only the controls arrived there: `loop` once, `rebinding` at most once.
    assert!((1..=2).contains(&loopback), "{reached}");
    assert!(reached.contains("public:443 rebinding.example.com"), "{reached}");
}

#[test]
fn n7_a_greeting_for_another_server_is_refused() {
    let internet = Internet::new();
    let greet = "import socket, ssl, sys
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(b'CONNECT api.example.com:443 HTTP/1.1\\r\\nHost: api.example.com:443\\r\\n\\r\\n')
head = b''
while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1)
context = ssl.create_default_context()
if sys.argv[1] == '-': context.check_hostname = False
t = context.wrap_socket(s, server_hostname=None if sys.argv[1] == '-' else sys.argv[1])
t.sendall(b'GET /hello HTTP/1.0\\r\\nHost: api.example.com\\r\\n\\r\\n')
sys.exit(0 if b'hello from api' in t.makefile('rb').read() else 1)";
    let greet = |name: &str| internet.run(["/usr/bin/python3", "-c", greet, name]);
    greet("api.example.com").succeeds();
    greet("other.example.net").fails().stderr_contains("ACCESS_DENIED");
    greet("-").fails().stderr_contains("ACCESS_DENIED");
    internet.world.run(["blocked"]).succeeds().stdout_contains("no server");
}

#[test]
fn n9_services_of_the_host_are_out_of_reach_until_named() {
    let internet = Internet::new();
    let url = "http://127.0.0.1:8080/";
    let through = [
        "curl",
        "-sS",
        "--noproxy",
        "",
        "-x",
        "http://127.0.0.1:3128",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        url,
    ];
    internet.world.host(["curl", "-sS", "-o", "/dev/null", url]).succeeds();
    internet.run(through).stdout("403");
    internet.world.run(["--allow-host", "127.0.0.1:8080"].into_iter().chain(through)).stdout("404");
    // Without the proxy, loopback is the sandbox's own.
    internet.world.run(["--allow-host", "127.0.0.1:8080", "curl", "-sS", url]).fails();
}

#[test]
fn n10_the_other_family_goes_nowhere_either() {
    let internet = Internet::new();
    internet.world.host(["/usr/bin/python3", "-c", RAW, PUBLIC_V6, "80"]).succeeds();
    internet.raw(PUBLIC_V6, "80").fails().stderr_contains("unreachable");
    assert!(internet.connect(&format!("[{PUBLIC_V6}]:80")).contains(" 403 "));
}

#[test]
fn n11_no_proxy_opens_nothing() {
    let internet = Internet::new();
    let url = "https://other.example.net/hello";
    internet.world.clone().env("no_proxy", "*").host(["curl", "-sS", url]).succeeds();
    internet.run(["env", "NO_PROXY=*", "no_proxy=*", "curl", "-sS", url]).fails();
}

#[test]
fn n12_an_empty_list_allows_nothing() {
    let internet = Internet::new();
    let url = "https://api.example.com/hello";
    internet.world.host(["curl", "-sS", url]).succeeds();
    for text in [
        "network = { allowed_hosts = [] }\n",
        "network = 'allow'\n",
        "network = { denied_hosts = ['a.io'] }\n",
    ] {
        internet.world.write("project/sandbox.toml", text);
        let run = internet.world.run(["curl", "-sS", url]).fails();
        run.stderr_contains("403").stderr_contains("all hosts are blocked");
    }
}

#[test]
fn n15_a_server_inside_cannot_be_reached_from_outside() {
    let internet = Internet::new();
    let serve = "import socket, sys
s = socket.create_server(('0.0.0.0', 7777)); print('up', flush=True); sys.stdin.read()";
    let line = ["--allow-host", "api.example.com", "/usr/bin/python3", "-c", serve];
    let connect =
        ["/usr/bin/python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 7777))"];
    let inside = internet.world.spawn(line);
    inside.wait_for("up\n");
    internet.world.host(connect).fails().stderr_contains("refused");
    drop(inside);
    let outside = internet.world.start(["/usr/bin/python3", "-c", serve]);
    outside.wait_for("up\n");
    internet.world.host(connect).succeeds();
}

#[test]
fn n16_requests_are_rewritten() {
    let internet = Internet::new();
    let smuggled = "GET http://api.example.com/hello HTTP/1.1\\r\\nHost: other.example.net\\r\\nConnection: x-secret\\r\\nx-secret: 1\\r\\n\\r\\n";
    assert_eq!(internet.ask(smuggled), "HTTP/1.1 200 OK\n");
    for request in [
        "GET http://api.example.com/a HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET http://other.example.net/b HTTP/1.1\\r\\n\\r\\n",
        "GET http://api.example.com@other.example.net/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n",
        "GET ftp://api.example.com/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n",
        "GET https://api.example.com/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n",
        "GET http://api.example.com\\t/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n",
    ] {
        internet.ask(request);
    }
    let reached = internet.log("requests.log");
    assert!(reached.contains("public:80 api.example.com /hello"), "{reached}");
    assert!(!reached.contains("other.example.net"), "{reached}");
}

#[test]
fn e7_metadata_of_a_cloud_needs_its_own_line() {
    let internet = Internet::new();
    let url = "http://169.254.169.254/";
    internet.world.host(["curl", "-sS", "-o", "/dev/null", url]).succeeds();
    let get = |host: &str, url: &str| {
        let line =
            ["--allow-host", host, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", url];
        internet.world.run(line).succeeds().output()
    };
    assert_eq!(get("metadata.example.com", "http://metadata.example.com/"), "403");
    assert_eq!(get("*.example.com", url), "403");
    assert_eq!(get("169.254.169.254", url), "404");
    let private = "network = { private_hosts = ['metadata.example.com'] }\n";
    internet.world.write("project/sandbox.toml", private);
    let line =
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "http://metadata.example.com/"];
    internet.world.run(line).stdout("403");
}
