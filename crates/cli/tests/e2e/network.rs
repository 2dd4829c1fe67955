//! The network, names on it, and sockets in the file system.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use testkit::{Run, World, need};

use crate::probe::sh;

/// Starts a server on loopback that greets each client. Returns its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello\n"));
        }
    });
    port
}

/// Starts such a server on a Unix socket.
fn unix_server(world: &World, path: &str) -> String {
    let path = world.path(path);
    let listener = UnixListener::bind(&path).expect("the place is free");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello\n"));
        }
    });
    path.display().to_string()
}

const CONNECT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX if '/' in sys.argv[1] else socket.AF_INET)
s.connect(sys.argv[1] if '/' in sys.argv[1] else ('127.0.0.1', int(sys.argv[1])))
sys.stdout.write(s.makefile().readline())";

fn connect<'a>(flags: &[&'a str], to: &'a str) -> Vec<&'a str> {
    need("python3");
    flags.iter().copied().chain(["/usr/bin/python3", "-c", CONNECT, to]).collect()
}

#[track_caller]
fn greeted(run: Run) {
    run.succeeds().stdout("hello\n");
}

#[cfg(feature = "setup")]
#[test]
fn hosts_loopback_is_reachable_only_with_the_network() {
    let port = server().to_string();
    let world = World::new();
    greeted(world.host(connect(&[], &port)));
    for on in [&[][..], &["--network"], &["--network=true"], &["--network=1"]] {
        greeted(world.run(connect(on, &port)));
    }
    for off in ["--network=false", "--network=0", "--network=off", "--network=none"] {
        world.run(connect(&[off], &port)).fails().stdout("");
    }
}

#[cfg(feature = "setup")]
#[test]
fn configuration_turns_the_network_off_and_a_flag_on_again() {
    let port = server().to_string();
    for text in ["network = false\n", "network = 'none'\n", "network = { mode = 'none' }\n"] {
        let world = World::new().file("project/sandbox.toml", text);
        world.run(connect(&[], &port)).fails();
        greeted(world.run(connect(&["--network"], &port)));
    }
    greeted(
        World::new().file("project/sandbox.toml", "network = 'host'\n").run(connect(&[], &port)),
    );
}

#[cfg(feature = "setup")]
#[test]
fn sandbox_without_network_has_a_loopback_of_its_own() {
    let world = World::new();
    let script = "import socket, threading
a = socket.create_server(('127.0.0.1', 0))
b = socket.create_connection(a.getsockname())
a.accept()[0].sendall(b'own')
print(b.recv(3).decode())
print([name for _, name in socket.if_nameindex()])";
    let run = ["--network=false", "/usr/bin/python3", "-c", script];
    world.run(run).succeeds().stdout("own\n['lo']\n");
}

#[cfg(feature = "setup")]
#[test]
fn abstract_sockets_of_the_host_are_out_of_reach_without_network() {
    let world = World::new();
    let name = format!("as-e2e-{}", std::process::id());
    let listen = format!(
        "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind('\\0{name}')\ns.listen()\nprint('up',flush=True)\ntime.sleep(60)"
    );
    let mut host = std::process::Command::new(need("python3"))
        .args(["-c", &listen])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(host.stdout.as_mut().unwrap(), &mut up).unwrap();
    let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')");
    world.host(["/usr/bin/python3", "-c", &connect]).succeeds();
    world.run(["--network=false", "/usr/bin/python3", "-c", &connect]).fails();
    host.kill().unwrap();
    host.wait().unwrap();
}

/// Runs a script in new namespaces, in which the test can fill `/etc` and `/run`.
#[track_caller]
fn with_etc(script: &str) -> Run {
    need("unshare");
    let world = World::new().dir("etc");
    let binary = world.binary().display().to_string();
    // In a user's own user namespace, root's programs belong to the overflow uid (`user_namespaces(7)`), so copy bwrap.
    let prepare = r#"set -e
        mkdir ../bin; cp "$(command -v bwrap)" ../bin; export PATH="${PWD%/*}/bin:$PATH"
        cd ..; for f in passwd group hosts nsswitch.conf ld.so.conf ld.so.cache alternatives; do
          [ ! -e /etc/$f ] || cp -r /etc/$f etc/; done
        mount --bind etc /etc; mount -t tmpfs none /run; cd project; sandbox=$1"#;
    let script = format!("{prepare}\n{script}");
    world.host(["unshare", "-rm", "sh", "-c", &script, "sh", &binary])
}

#[test]
fn resolver_settings_are_found_behind_any_chain_of_links() {
    for chain in [
        "mkdir -p /run/systemd/resolve; echo nameserver 192.0.2.1 > /run/systemd/resolve/stub-resolv.conf
         ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf",
        "mkdir -p /run/a; echo nameserver 192.0.2.1 > /run/a/real; ln -s /run/a/real /etc/resolv.conf",
        "mkdir -p /run/a; echo nameserver 192.0.2.1 > /run/a/real; ln -s real /run/a/two
         ln -s /run/a/two /etc/one; ln -s one /etc/resolv.conf",
        "mkdir -p /run/real; echo nameserver 192.0.2.1 > /run/real/conf; ln -s real /run/dir
         ln -s /var/run/dir/conf /etc/resolv.conf",
        "echo nameserver 192.0.2.1 > /etc/resolv.conf",
    ] {
        let look = format!("{chain}\n\"$sandbox\" cat /etc/resolv.conf");
        with_etc(&look).succeeds().stdout("nameserver 192.0.2.1\n");
    }
}

#[test]
fn missing_resolver_settings_are_no_error() {
    with_etc("ln -s /run/nowhere /etc/resolv.conf\n\"$sandbox\" echo ran")
        .succeeds()
        .stdout("ran\n");
    with_etc("\"$sandbox\" echo ran").succeeds().stdout("ran\n");
}

#[cfg(feature = "setup")]
#[test]
fn docker_socket_is_shared_only_when_asked_for() {
    let world = World::new().dir("outside");
    let socket = unix_server(&world, "outside/docker.sock");
    let world = world.env("DOCKER_HOST", format!("unix://{socket}"));
    greeted(world.host(connect(&[], &socket)));
    greeted(world.run(connect(&["--docker"], &socket)));
    world.run(connect(&[], &socket)).fails();
    world.run(connect(&["--docker=false"], &socket)).fails();
    world
        .run(["--docker", "printenv", "DOCKER_HOST"])
        .succeeds()
        .stdout(&format!("unix://{socket}\n"));
    world.run(["printenv", "DOCKER_HOST"]).fails();
}

#[cfg(feature = "setup")]
#[test]
fn docker_socket_in_home_is_found_and_hidden_by_default() {
    let world = World::new().dir("home/.docker/run");
    let socket = unix_server(&world, "home/.docker/run/docker.sock");
    world.run(connect(&[], &socket)).fails();
    if !std::fs::exists("/var/run/docker.sock").unwrap() {
        greeted(world.run(connect(&["--docker"], &socket)));
    }
}

#[test]
fn docker_without_a_daemon_is_refused_naming_where_it_looked() {
    let world = World::new().file("outside/no.sock", "a file, no socket");
    for path in ["outside/nothing.sock", "outside/no.sock"] {
        let host = format!("unix://{}", world.path(path).display());
        let run = world.clone().env("DOCKER_HOST", host).run(["--docker", "true"]).code(125);
        run.stderr_contains(path)
            .stderr_contains("cannot find the socket of a Docker daemon")
            .stderr_contains("hint: ");
    }
    world.clone().env("DOCKER_HOST", "unix:///nothing").run(["true"]).succeeds();
    world.clone().env("DOCKER_HOST", "tcp://127.0.0.1:1").run(["--docker", "true"]).succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn listening_socket_in_a_visible_place_is_out_of_reach_until_opened() {
    let world = World::new().dir("home/app").dir("outside");
    for path in ["project/app.sock", "home/app/app.sock", "outside/app.sock"] {
        let socket = unix_server(&world, path);
        greeted(world.host(connect(&[], &socket)));
        world.run(connect(&[], &socket)).fails().stdout("");
        world.write("open.toml", format!("sockets = ['{socket}']\n"));
        let open = world.path("open.toml").display().to_string();
        greeted(world.run(connect(&["-c", &open], &socket)));
    }
}

#[test]
fn socket_that_is_to_be_opened_must_be_there() {
    let world = World::new().file("project/file", "x");
    for (path, why) in [("nothing.sock", "does not exist"), ("file", "is not a socket")] {
        world.write("open.toml", format!("sockets = ['{path}']\n"));
        let open = world.path("open.toml").display().to_string();
        world.run(["-c", &open, "true"]).code(125).stderr_contains(path).stderr_contains(why);
    }
}

#[cfg(feature = "setup")]
#[test]
fn sockets_made_inside_work_inside() {
    let world = World::new();
    let script = "import socket
a = socket.socket(socket.AF_UNIX); a.bind('own.sock'); a.listen()
b = socket.socket(socket.AF_UNIX); b.connect('own.sock')
print('connected')";
    world.run(["/usr/bin/python3", "-c", script]).succeeds().stdout("connected\n");
}

#[test]
fn credentials_in_the_environment_are_hidden_until_asked_for() {
    let world = World::new()
        .env("GITHUB_TOKEN", "t")
        .env("AWS_SECRET_ACCESS_KEY", "a")
        .env("SSH_AUTH_SOCK", "/x")
        .env("ANTHROPIC_API_KEY", "model")
        .env("EDITOR", "vi");
    let show = "echo \"$GITHUB_TOKEN|$AWS_SECRET_ACCESS_KEY|$SSH_AUTH_SOCK|$ANTHROPIC_API_KEY|$EDITOR|$NEW\"";
    world.host(sh(show)).stdout("t|a|/x|model|vi|\n");
    world.run(sh(show)).succeeds().stdout("|||model|vi|\n");
    world
        .run(["--env", "GITHUB_TOKEN"].into_iter().chain(sh(show)))
        .succeeds()
        .stdout("t|||model|vi|\n");
    world.run(["--env", "NEW=v"].into_iter().chain(sh(show))).succeeds().stdout("|||model|vi|v\n");
    let all = world.run(sh("cat /proc/*/environ | tr '\\0' '\\n' | grep -c GITHUB_TOKEN="));
    all.stdout("0\n");
}
