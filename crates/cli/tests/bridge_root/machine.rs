//! Tests that need root: `host-command setup` on a test machine, and logins to it.

use testkit::{Namespace, Run, World};

use crate::sshd;

/// Creates a machine whose `/etc`, `/usr/local` and `/var/lib` are disposable copies.
fn machine() -> World {
    let world = World::new()
        .dir("local/bin")
        .dir("local/sbin")
        .dir("lib")
        .dir("srv/work/sub")
        .file("srv/work/file", "shared\n");
    let world = world.exec_file("local/bin/mytool", include_str!("../bridge/mytool.sh"));
    sshd::new_keys(&world, &["key", "plain", "host_key"]);
    let (root, binary) = (world.path(""), world.binary().display().to_string());
    let root = root.display();
    let script = format!(
        "cp -a /etc {root}/etc
        rm -f {root}/etc/ssh/sshd_config.d/*
        echo 'Include /etc/ssh/sshd_config.d/*.conf' > {root}/etc/ssh/sshd_config
        echo 'HostKey {root}/host_key' >> {root}/etc/ssh/sshd_config
        cp {binary} {root}/local/bin/agent-sandbox
        mount -o bind {root}/etc /etc
        mount -o bind {root}/local /usr/local
        mount -o bind {root}/lib /var/lib
        mount -o bind {root}/srv /srv
        mount -t tmpfs tmpfs /run
        mkdir /run/sshd"
    );
    let namespace = Namespace::of_root(&world, &script);
    world.within(namespace).with_program("/usr/local/bin/agent-sandbox")
}

fn setup(world: &World, more: &[&str]) -> Run {
    let key = world.path("key.pub").display().to_string();
    let words = [
        "host-command",
        "setup",
        "--allow",
        "mytool",
        "--allow",
        "git status",
        "--key",
        &key,
        "--from",
        "127.0.0.1",
        "--expires",
        "29990101",
        "--sudo",
        "/usr/local/bin/mytool",
    ];
    world.run(words.iter().chain(more))
}

/// Returns the files that the steps change, as text.
fn state(world: &World) -> String {
    let script = "cat /etc/passwd /etc/shadow /etc/group; ls -lR --time-style=+ /etc/ssh /etc/sudoers.d /etc/agent-sandbox /usr/local/sbin /var/lib 2>&1 | grep -v total";
    world.host(["sh", "-c", script]).output()
}

#[test]
fn setup_shows_everything_does_it_when_told_and_takes_it_back() {
    let world = machine();
    let before = state(&world);
    let shown = setup(&world, &[]).succeeds().stderr_contains("nothing was changed");
    for text in [
        "useradd --system",
        "--password *",
        "Match User host-runner",
        "restrict,command=\"/usr/local/sbin/miclaw-cmd-wrapper\",from=\"127.0.0.1\",expiry-time=\"29990101\" ssh-ed25519",
        "NOPASSWD: /usr/local/bin/mytool",
        "allowed = [\"mytool\", \"git status\"]",
        "host-command serve",
    ] {
        assert!(shown.output().contains(text), "{text}\n{shown}");
    }
    assert_eq!(state(&world), before);
    setup(&world, &["--yes"]).succeeds().stderr_contains("sshd still uses its old configuration");
    world
        .host(["grep", "^host-runner:", "/etc/passwd"])
        .stdout_contains(":/var/lib/agent-sandbox/host-runner:/usr/local/sbin/agent-sandbox-shell");
    world.host(["grep", "^host-runner:\\*:", "/etc/shadow"]).succeeds();
    world
        .host([
            "stat",
            "-c",
            "%U %a",
            "/etc/sudoers.d/agent-sandbox-host-runner",
            "/usr/local/sbin/miclaw-cmd-wrapper",
            "/var/lib/agent-sandbox/host-runner/.ssh/authorized_keys",
        ])
        .stdout("root 440\nroot 755\nroot 644\n");
    let done = state(&world);
    setup(&world, &["--yes"]).succeeds();
    assert_eq!(state(&world), done, "a second time changes nothing");
    setup(&world, &["--undo"]).succeeds().stderr_contains("nothing was reverted");
    assert_eq!(state(&world), done);
    setup(&world, &["--undo", "--yes"]).succeeds();
    setup(&world, &["--undo", "--yes"]).succeeds();
    let left = state(&world);
    for text in ["host-runner", "miclaw", "agent-sandbox-shell", "60-agent-sandbox"] {
        assert!(!left.contains(text), "{text} is left\n{left}");
    }
}

/// The login shell and the forced command run the program that `setup` was run from, or `setup` refuses.
#[test]
fn setup_installs_the_program_that_it_was_run_from() {
    let world = machine();
    world
        .host(["sh", "-c", "mkdir /usr/local/x && mv /usr/local/bin/agent-sandbox /usr/local/x"])
        .succeeds();
    let elsewhere = world.clone().with_program("/usr/local/x/agent-sandbox");
    setup(&elsewhere, &["--yes"]).succeeds();
    world
        .host(["readlink", "/usr/local/sbin/agent-sandbox-shell"])
        .stdout("/usr/local/x/agent-sandbox\n");
    world
        .host(["cat", "/usr/local/sbin/miclaw-cmd-wrapper"])
        .stdout_contains("exec /usr/local/x/agent-sandbox host-command serve");
    setup(&elsewhere, &["--undo", "--yes"]).succeeds();
    let before = state(&world);
    for (why, broken, mended) in [
        ("others can replace it", "chmod 777 /usr/local/x", "chmod 755 /usr/local/x"),
        (
            "others can write it",
            "chmod 775 /usr/local/x/agent-sandbox",
            "chmod 755 /usr/local/x/agent-sandbox",
        ),
        (
            "it is another user's",
            "chown 1 /usr/local/x/agent-sandbox",
            "chown 0 /usr/local/x/agent-sandbox",
        ),
        ("others cannot run it", "chmod 700 /usr/local/x", "chmod 755 /usr/local/x"),
    ] {
        world.host(["sh", "-c", broken]).succeeds();
        let run = setup(&elsewhere, &["--yes"]).code(1).stdout("");
        assert!(run.messages().contains("hint: install it first"), "{why}\n{run}");
        world.host(["sh", "-c", mended]).succeeds();
    }
    assert_eq!(state(&world), before, "a refusal changes nothing");
    setup(&elsewhere, &["--yes"]).succeeds();
}

/// Makes a file unsafe in the ways that sudo and sshd refuse.
#[test]
fn a_list_that_others_can_change_is_not_believed() {
    let world = machine();
    setup(&world, &["--yes"]).succeeds();
    let serve = |world: &World| {
        world.clone().env("SSH_ORIGINAL_COMMAND", "mytool x").run(["host-command", "serve"])
    };
    serve(&world).succeeds().stdout("<x>\n");
    let list = "/etc/agent-sandbox/host-commands.toml";
    for (broken, mended, hint) in [
        (format!("chmod 666 {list}"), format!("chmod 644 {list}"), "chmod go-w"),
        (format!("chmod 664 {list}"), format!("chmod 644 {list}"), "chmod go-w"),
        (
            "chmod 777 /etc/agent-sandbox".into(),
            "chmod 755 /etc/agent-sandbox".into(),
            "chmod go-w",
        ),
        (format!("chown 1 {list}"), format!("chown 0 {list}"), "chown root"),
        ("chown 1 /etc/agent-sandbox".into(), "chown 0 /etc/agent-sandbox".into(), "chown root"),
    ] {
        world.host(["sh", "-c", &broken]).succeeds();
        serve(&world)
            .code(1)
            .stdout("")
            .stderr_contains("cannot trust the list")
            .stderr_contains(hint);
        world.run(["host-command", "check"]).code(1).stderr_contains("cannot trust the list");
        world.host(["sh", "-c", &mended]).succeeds();
        serve(&world).succeeds().stdout("<x>\n");
    }
}

#[test]
fn setup_refuses_what_would_break_the_machine() {
    let world = machine();
    for more in [
        &["--user", "Root!"][..],
        &["--user", "a b"],
        &["--sudo", "mytool"],
        &["--sudo", "/bin/a,/bin/b"],
        &["--allow", "a; b"],
        &["--from", "x\" y"],
        &["--expires", "soon"],
    ] {
        let words = ["host-command", "setup", "--yes", "--key"]
            .map(str::to_owned)
            .into_iter()
            .chain([world.path("key.pub").display().to_string()]);
        let words: Vec<String> = words.chain(more.iter().map(|word| (*word).to_owned())).collect();
        world.run(words).code(1).stdout("");
    }
    world
        .run(["host-command", "setup", "--yes", "--key", "/etc/hostname"])
        .code(1)
        .stderr_contains("no public key");
}

/// The line of the sandboxing guide, with its user name, from key to command, on a machine that `setup` prepared.
#[test]
fn the_dedicated_user_carries_out_host_commands_and_nothing_else() {
    let world = machine();
    setup(&world, &["--user", "pipo-runner", "--yes"]).succeeds();
    let list = world.path("etc/agent-sandbox/host-commands.toml");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(
        &list,
        format!("mounts = [{{ container = '/workspace', host = '/srv/work' }}]\n{text}"),
    )
    .unwrap();
    world
        .host([
            "cp",
            "/var/lib/agent-sandbox/pipo-runner/.ssh/authorized_keys",
            &world.path("authorized_keys").display().to_string(),
        ])
        .succeeds();
    // A key without `command=`, on a machine without the Match block: the login shell still restricts it.
    let plain = std::fs::read_to_string(world.path("plain.pub")).unwrap();
    let both = std::fs::read_to_string(world.path("authorized_keys")).unwrap() + &plain;
    for (keys, more) in [(&both, "Include /etc/ssh/sshd_config.d/*.conf"), (&both, "")] {
        std::fs::write(world.path("srv/keys"), keys).unwrap();
        let (port, _sshd) = sshd::start(
            &world,
            &format!("{more}\nMatch User pipo-runner\n  AuthorizedKeysFile /srv/keys"),
        );
        world.write("known_hosts", format!("[127.0.0.1]:{port} {}", world.read("host_key.pub")));
        let ask = |key: &str, line: &str| {
            let words = sshd::client_words(&world, port, key);
            let destination = ["pipo-runner@127.0.0.1".to_owned(), line.to_owned()];
            world.host(words.into_iter().chain(destination))
        };
        ask("key", "mytool 'a b'").succeeds().stdout("<a b>\n");
        ask("key", "AGENT_SANDBOX_CWD=/workspace/sub mytool pwd")
            .succeeds()
            .stdout("/srv/work/sub\n");
        ask("key", "mytool read /etc/passwd").code(1).stderr_contains("denied: mytool");
        ask("key", "rm -rf /").code(1).stderr_contains("denied: rm");
        ask("key", "mytool env")
            .succeeds()
            .stdout_contains("USER=pipo-runner")
            .stdout_lacks("SSH_");
        // Without a forced command, sshd passes the line to the login shell, which is the installed one.
        let forced = more.starts_with("Include");
        let run = ask("plain", "id");
        run.code(1).stdout("").stderr_contains(if forced { "denied: id" } else { "denied: shell" });
        let run = ask("plain", "/usr/local/sbin/miclaw-cmd-wrapper");
        run.code(1).stdout("").stderr_contains(if forced {
            "denied: /usr/local"
        } else {
            "there is no command"
        });
    }
    world
        .host(["su", "-", "pipo-runner", "-c", "id"])
        .code(1)
        .stdout("")
        .stderr_contains("denied: shell");
    world
        .host(["su", "-s", "/bin/sh", "pipo-runner", "-c", "id -un"])
        .succeeds()
        .stdout("pipo-runner\n");
}
