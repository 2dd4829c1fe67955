//! U*, N9, N15, R-D1 to R-D3: sockets outside the sandbox.

use std::net::TcpStream;

use testkit::{Terminal, User, World, user};

use super::{is_plain, python, python_inside, python_outside};

/// Listens on every kind of socket name, then prints a line.
const LISTEN: &str = r"
import os, socket, sys, time
root = os.path.dirname(os.getcwd())
kept = []
def listen(address, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(address)
    if kind != socket.SOCK_DGRAM: s.listen(9)
    kept.append(s)
for path in ('project/abs', 'home/home', 'home/.cache/cache', 'outside/visible'):
    listen(f'{root}/{path}.sock')
listen(f'{root}/project/dgram.sock', socket.SOCK_DGRAM)
listen(f'{root}/project/packets.sock', socket.SOCK_SEQPACKET)
listen('relative.sock')
listen('./sub/../dotted.sock')
listen(f'{root}/home/link/linked.sock')
listen(f'{root}/project/first.sock')
os.rename(f'{root}/project/first.sock', f'{root}/project/renamed.sock')
listen('\0attack' + sys.argv[1])
print('listening', flush=True)
time.sleep(60)
";

/// Connects to each of them, and prints the names of those that answered.
const CONNECT: &str = r"
import os, socket, sys
root = os.path.dirname(os.getcwd())
S, D, P = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
files = [('project/abs', S), ('home/home', S), ('home/.cache/cache', S), ('outside/visible', S), ('project/dgram', D),
         ('project/packets', P), ('project/relative', S), ('project/dotted', S), ('project/sub/linked', S), ('project/renamed', S)]
targets = [(f'{root}/{name}.sock', kind, name) for name, kind in files] + [('\0attack' + MARK, S, 'abstract')]
for address, kind, name in targets:
    ways = [lambda: socket.socket(socket.AF_UNIX, kind)]
    if kind == D: ways.append(lambda: socket.socketpair(socket.AF_UNIX, D)[0])
    for way in ways:
        try:
            s = way(); s.connect(address); s.send(b'x'); print(name)
        except OSError: pass
";

fn connect(mark: &str) -> String {
    CONNECT.replace("MARK", &format!("'{mark}'"))
}

fn listening(mark: &str) -> (World, Terminal) {
    let world = World::unseen()
        .dir("project/sub")
        .dir("home/.cache")
        .dir("outside")
        .symlink("home/link", "../project/sub");
    let host = world.host_terminal([python().as_str(), "-c", LISTEN, mark]);
    host.wait_for("listening");
    (world, host)
}

#[test]
fn u3_u4_r_d1_r_d2_sockets_of_the_host_do_not_answer() {
    let mark = format!("a{}", std::process::id());
    let (world, _host) = listening(&mark);
    let control = python_outside(&world, &connect(&mark)).succeeds().output();
    assert_eq!(control.lines().count(), 12, "each of them answers on the host:\n{control}");
    python_inside(&world, &[], &connect(&mark)).succeeds().stdout("");
    python_inside(&world, &["--network=false"], &connect(&mark)).succeeds().stdout("");
}

#[test]
fn u4_sockets_answer_only_when_they_are_opened() {
    let mark = format!("b{}", std::process::id());
    let (world, _host) = listening(&mark);
    let config = World::new().file("outside/open.json", r#"{ "sockets": ["abs.sock"] }"#);
    let config = config.path("outside/open.json").display().to_string();
    python_inside(&world, &["-c", &config], &connect(&mark)).succeeds().stdout("project/abs\n");
}

#[test]
fn u4_a_hidden_socket_cannot_be_uncovered() {
    let mark = format!("c{}", std::process::id());
    let (world, _host) = listening(&mark);
    for attack in [
        "mv abs.sock x.sock",
        "rm abs.sock",
        "ln abs.sock x.sock",
        "unshare -Urm umount abs.sock",
        "unshare -Urm umount -l abs.sock",
        "mkdir y; unshare -Urm mount --bind . y",
    ] {
        super::inside(&world, attack).fails();
    }
    python_inside(&world, &[], &connect(&mark)).stdout("");
}

#[test]
fn u4_sockets_below_home_do_not_answer_even_when_they_come_later() {
    let world = World::unseen();
    if is_plain(&world) {
        return; // Needs the overlay, see SECURITY.md.
    }
    let code = "import os, socket, sys, time\n\
                print('ready', flush=True); sys.stdin.readline()\n\
                s = socket.socket(socket.AF_UNIX)\n\
                try: s.connect(os.environ['HOME'] + '/late.sock'); print('reached')\n\
                except OSError as e: print('stopped', e)";
    let mut run = world.spawn([python().as_str(), "-c", code]);
    run.wait_for("ready");
    let listener = std::os::unix::net::UnixListener::bind(world.path("home/late.sock")).unwrap();
    run.send("go\n");
    run.wait().stdout_contains("stopped");
    std::os::unix::net::UnixStream::connect(world.path("home/late.sock")).unwrap();
    drop(listener);
}

#[test]
fn u1_u2_daemons_in_run_are_not_there() {
    let world = World::new();
    super::inside(
        &world,
        "ls /run/docker.sock /var/run/docker.sock /run/containerd /run/podman /run/dbus /run/user/$(id -u)/bus /run/systemd/private",
    )
    .fails()
    .stdout("");
    super::inside(&world, "ls /run").stdout("agent-sandbox\nuser\n");
}

#[test]
fn u4_tmux_of_the_host_does_not_answer() {
    let tmux = testkit::need("tmux").display().to_string();
    let world = World::unseen();
    let socket = world.path("project/tmux.sock").display().to_string();
    let on = |command: &[&'static str]| [&[tmux.as_str(), "-S", &socket], command].concat();
    world.host(on(&["-f", "/dev/null", "new-session", "-d", "sleep 60"])).succeeds();
    let attack = on(&["run-shell", "touch pwned"]);
    world.run(&attack).fails();
    assert!(!world.has("project/pwned"));
    let control = world.host(&attack);
    world.host(on(&["kill-server"])).succeeds();
    control.succeeds();
}

#[test]
fn u5_shared_memory_of_the_host_is_not_there() {
    let world = World::new();
    let name = format!("attack{}", std::process::id());
    let make = format!(
        "import ctypes\nl = ctypes.CDLL(None)\ni = l.shmget({key}, 4096, 0o1600)\nprint(i >= 0)\nopen('/dev/shm/{name}', 'w').write('s3cret')",
        key = std::process::id()
    );
    let find = format!(
        "import ctypes, os\nl = ctypes.CDLL(None)\nprint(l.shmget({key}, 0, 0) >= 0, os.path.exists('/dev/shm/{name}'))",
        key = std::process::id()
    );
    python_outside(&world, &make).succeeds().stdout("True\n");
    let (seen, control) = (python_inside(&world, &[], &find), python_outside(&world, &find));
    let clean = format!(
        "import ctypes, os\nl = ctypes.CDLL(None)\nl.shmctl(l.shmget({key}, 0, 0), 0, None)\nos.unlink('/dev/shm/{name}')",
        key = std::process::id()
    );
    python_outside(&world, &clean).succeeds();
    seen.stdout("False False\n");
    control.stdout("True True\n");
}

#[test]
fn n9_r_d3_services_on_the_loopback_are_not_there_without_network() {
    let world = World::new();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let code = format!(
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {}))\nsocket.create_connection(('127.0.0.1', {}), 2)",
        udp.local_addr().unwrap().port(),
        tcp.local_addr().unwrap().port()
    );
    python_inside(&world, &["--network=false"], &code).fails();
    assert!(udp.recv(&mut [0; 8]).is_err(), "no datagram arrived");
    python_inside(&world, &[], &code).succeeds();
    assert_eq!(udp.recv(&mut [0; 8]).unwrap(), 1, "the control: with the network it arrives");
}

#[test]
fn n15_a_port_opened_inside_is_not_open_outside_without_network() {
    let world = World::new();
    let code = "import socket, sys\ns = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()\n\
                print(f'port {s.getsockname()[1]}!', flush=True); sys.stdin.readline()";
    for (flags, reachable) in [(&["--network=false"][..], false), (&[], true)] {
        let mut run = world.terminal(flags.iter().copied().chain([python().as_str(), "-c", code]));
        run.wait_for("!");
        let output = run.output();
        let port = output.split_once("port ").and_then(|(_, rest)| rest.split_once('!')).unwrap().0;
        let reached = TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
        assert_eq!(reached, reachable, "{flags:?}");
        run.enter("done");
    }
    let code = "import socket\nfor l in open('/proc/net/dev').read().split('\\n')[2:]: print(l.split(':')[0].strip())";
    python_inside(&world, &["--network=false"], code).stdout("lo\n\n");
}

/// As root, a sandbox cannot mount over this directory; as another user, it cannot see it. Both refuse the rule.
#[test]
fn u1_another_users_private_socket_is_out_of_reach_and_stops_no_sandbox() {
    let world = World::new().file("outside/theirs/secret", "s3cret").dir("outside/theirs/more");
    let shut = "for dir in theirs theirs/more; do chmod $0 ../outside/$dir; done; \
                [ $(id -u) != 0 ] || chown -R 65534:65534 ../outside/theirs";
    let _listener =
        std::os::unix::net::UnixListener::bind(world.path("outside/theirs/more/socket")).unwrap();
    let code = "import socket\nprint(open('../outside/theirs/secret').read())\n\
                socket.socket(socket.AF_UNIX).connect('../outside/theirs/more/socket')";
    python_outside(&world, code).succeeds().stdout("s3cret\n");
    let hide = format!("--exclude={}", world.path("outside/theirs/secret").display());
    // A socket directory that the user owns is allowed.
    let modes: &[&str] = if user() == User::Root { &["710", "700", "000"] } else { &["000"] };
    for mode in modes {
        world.host(["sh", "-c", shut, mode]).succeeds();
        world.run([&hide, "true"]).succeeds();
        python_inside(&world, &[], code).fails().stderr_contains("Permission denied");
        world.host(["chmod", "-R", "u+rwx", "../outside/theirs"]).succeeds();
    }
}
