//! A network with names and servers, in namespaces that exist as long as the test.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use testkit::{Namespace, Process, Run, World, need};

/// Public address that is reachable only in these namespaces.
pub(super) const PUBLIC: &str = "93.184.216.34";
pub(super) const PUBLIC_V6: &str = "2606:2800:220:1::34";

/// Answers DNS queries, serves files over HTTP and HTTPS, and logs requests.
const SERVERS: &str = r"
import http.server, os, socket, ssl, struct, sys, threading
home, public, public6 = sys.argv[1:4]
lock = threading.Lock()
def log(name, text):
    with lock, open(os.path.join(home, name), 'a') as file: file.write(text + '\n')
turn = {}
def addresses(name):
    if name == 'loop.example.com': return ['127.0.0.1']
    if name == 'private.example.com': return ['10.9.8.7']
    if name == 'metadata.example.com': return ['169.254.169.254']
    if name == 'rebinding.example.com':
        turn[name] = turn.get(name, 0) + 1
        return [public if turn[name] % 2 else '127.0.0.1']
    if name.endswith(('.com', '.net', '.org', '.io')): return [public]
    return []
def names(sock):
    while True:
        packet, peer = sock.recvfrom(4096)
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1:at + 1 + packet[at]].decode()); at += packet[at] + 1
        kind = struct.unpack('>H', packet[at + 1:at + 3])[0]
        name = '.'.join(labels).lower()
        log('names.log', name)
        found = [socket.inet_aton(a) for a in addresses(name)] if kind == 1 else []
        code = 0 if addresses(name) else 3
        answer = packet[:2] + bytes([0x81, 0x80 | code]) + struct.pack('>HHHH', 1, len(found), 0, 0) + packet[12:at + 5]
        for address in found: answer += b'\xc0\x0c\0\1\0\1\0\0\0\0\0\4' + address
        sock.sendto(answer, peer)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *args): pass
    def do_GET(self):
        host = self.headers.get('host', '').split(':')[0]
        log('requests.log', f'{self.server.label} {host} {self.path}')
        log('keys.log', f'{host} ' + self.headers.get('authorization', ''))
        if self.path == '/trailers':
            sent = ('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n'
                    '4\r\nbody\r\n0\r\nx-sum: ' + self.headers.get('te', 'none') + '\r\n\r\n')
            return self.wfile.write(sent.encode())
        path = os.path.join(home, 'www', host, self.path.split('?')[0].lstrip('/'))
        if os.path.isdir(path): path = os.path.join(path, 'index.html')
        try: body, code = open(path, 'rb').read(), 200
        except OSError: body, code = b'no such file\n', 404
        kind = 'text/html' if path.endswith('.html') else 'application/json' if path.endswith('.json') else 'application/octet-stream'
        self.send_response(code); self.send_header('content-type', kind)
        self.send_header('content-length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        length, got = int(self.headers.get('content-length', 0)), b''
        host = self.headers.get('host', '').split(':')[0]
        try:
            while length > len(got):
                piece = self.rfile.read1(length - len(got))
                if not piece: break
                got += piece
        finally: log('uploads.log', f'{host} {len(got)}')
        if len(got) == length:
            log('bodies.log', f'{host} {got[:1000]}')
            self.do_GET()
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
class Server6(Server):
    address_family = socket.AF_INET6
def serve(kind, address, port, label, tls):
    server = kind((address, port), Handler); server.label = label
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(home, 'authority.pem'), os.path.join(home, 'key.pem'))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
for port, tls in [(80, False), (443, True), (8443, True)]:
    serve(Server, public, port, f'public:{port}', tls)
    serve(Server6, public6, port, f'public6:{port}', tls)
serve(Server, '127.0.0.1', 443, 'loopback:443', True)
serve(Server, '127.0.0.1', 8080, 'loopback:8080', False)
serve(Server, '169.254.169.254', 80, 'metadata:80', False)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind((public, 9999))
def swallow():
    while True: log('packets.log', repr(udp.recv(100)))
threading.Thread(target=swallow, daemon=True).start()
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind(('127.0.0.53', 53))
threading.Thread(target=names, args=(sock,), daemon=True).start()
print('serving', flush=True)
sys.stdin.read()
";

/// Names that a server here has a certificate for.
const NAMES: [&str; 13] = [
    "api.anthropic.com",
    "platform.claude.com",
    "auth.openai.com",
    "chatgpt.com",
    "*.example.com",
    "example.com",
    "*.example.net",
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
    "github.com",
    "index.crates.io",
    "static.crates.io",
];

/// World on its own network. Names that end in `.com`, `.net`, `.org` or `.io` resolve to a public
/// address that serves the files below `www/HOST`.
pub(super) struct Internet {
    pub(super) world: World,
    _servers: Process,
}

impl Internet {
    #[track_caller]
    pub(super) fn new() -> Self {
        Self::with(World::new())
    }

    /// Creates the network around a world that already has files.
    #[track_caller]
    pub(super) fn with(world: World) -> Self {
        let world = world
            .file("www/api.example.com/hello", "hello from api\n")
            .file("www/other.example.net/hello", "hello from other\n")
            .file("www/listed.example.edu/hello", "hello from the list\n")
            .file("hosts", format!("127.0.0.1 localhost\n{PUBLIC} listed.example.edu\n"))
            .file("resolv.conf", "nameserver 127.0.0.53\n");
        make_authority(&world);
        let script = format!(
            "ip addr add {PUBLIC}/32 dev lo\nip addr add 10.9.8.7/32 dev lo\nip addr add 169.254.169.254/32 dev lo
            ip -6 addr add {PUBLIC_V6}/128 dev lo
            mount --bind {} \"$(readlink -f /etc/resolv.conf)\"; mount --bind {} /etc/hosts",
            world.path("resolv.conf").display(),
            world.path("hosts").display()
        );
        let network = Namespace::with_network(&world, &script);
        let authority = world.path("project/authority.pem");
        let settings = [
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "GIT_SSL_CAINFO",
            "PIP_CERT",
            "npm_config_cafile",
        ];
        let world = settings
            .into_iter()
            .fold(world.within(network), |world, name| world.env(name, authority.as_os_str()));
        let home = world.path("").display().to_string();
        let python = need("python3").display().to_string();
        let servers = world.start([&python, "-c", SERVERS, &home, PUBLIC, PUBLIC_V6]);
        servers.wait_for("serving\n");
        Self { world, _servers: servers }
    }

    /// Runs a command in a sandbox that may reach `api.example.com`.
    #[track_caller]
    pub(super) fn run<const N: usize>(&self, command: [&str; N]) -> Run {
        self.world.run(["--allow-host", "api.example.com"].into_iter().chain(command))
    }

    /// Returns the content of a file that the servers write, or nothing if it does not exist yet.
    pub(super) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.world.path(name)).unwrap_or_default()
    }

    /// Returns the proxy of this world's user, if it is running.
    pub(super) fn proxy(&self) -> Option<rustix::process::Pid> {
        let lock: PathBuf = self.world.path("home/.local/state/agent-sandbox/proxy/lock");
        let inode = format!(":{} ", fs::metadata(lock).ok()?.ino());
        let locks = fs::read_to_string("/proc/locks").expect("every kernel has it");
        let line = locks.lines().find(|line| line.contains(&inode) && !line.contains("->"))?;
        let pid = line.split_whitespace().nth(4)?.parse().ok()?;
        rustix::process::Pid::from_raw(pid)
    }
}

impl Drop for Internet {
    /// Stops the proxy, which would otherwise outlive the world.
    fn drop(&mut self) {
        while let Some(proxy) = self.proxy() {
            let _ = rustix::process::kill_process(proxy, rustix::process::Signal::KILL);
            std::thread::yield_now();
        }
    }
}

/// Creates a self-signed certificate.
#[track_caller]
fn make_authority(world: &World) {
    let names: Vec<String> = NAMES.iter().map(|name| format!("DNS:{name}")).collect();
    let names = format!("subjectAltName={}", names.join(","));
    let openssl = need("openssl").display().to_string();
    let (key, certificate) = (world.path("key.pem"), world.path("authority.pem"));
    // Some programs do not accept an authority's certificate for a server.
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test \
        -addext basicConstraints=critical,CA:FALSE -addext";
    let mut line = vec![openssl.as_str()];
    line.extend(words.split(' '));
    let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
    line.extend([names.as_str(), "-keyout", &key, "-out", &certificate]);
    world.host(line).succeeds();
    world.write("project/authority.pem", world.read("authority.pem"));
}
