//! The root, `/tmp`, `/run`, `/dev`, `/proc`, the working directory, and directories brought in from elsewhere.

use std::fs;

use testkit::{User, World, need, user};

use crate::probe::{assert_views, sh};

#[test]
fn places_of_the_sandboxs_own_take_no_rule() {
    let world = World::new();
    for path in ["/proc", "/proc/1", "/dev", "/run"] {
        for flag in ["--ro", "--rw", "--exclude"] {
            let run = world.run([flag, path, "true"]).code(125);
            run.stderr_contains("cannot set a rule on").stderr_contains(flag);
        }
    }
    world.run(["--exclude", "/", "true"]).code(125).stderr_contains("`/`");
    world.run(["--ro", "/", "touch", "made"]).succeeds();
}

#[test]
fn root_made_writable_opens_what_the_user_may_write_and_no_secret() {
    let world = World::new().file("outside/file", "x").file("home/.netrc", "x").file("home/f", "x");
    let views = |outside| [("outside/file", outside), ("home/.netrc", "hidden"), ("home/f", "ro")];
    if user() == User::Root {
        // Root could replace bubblewrap itself from inside.
        world
            .run(["--rw", "/", "true"])
            .code(125)
            .stderr_contains("a sandboxed command or another user can replace it");
    } else {
        assert_views(&world, &["--rw", "/"], &views("rw"));
    }
    assert_views(&world, &[], &views("ro"));
}

#[test]
fn devices_are_new_and_few() {
    let world = World::new();
    let script =
        "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; ls /dev";
    let run = world.run(sh(script)).succeeds().stdout_contains("4\n4\n");
    for absent in ["sda", "kmsg", "mem", "loop", "fuse"] {
        assert!(!run.output().contains(absent), "{run}");
    }
    world.run(sh("echo x > /dev/shm/probe && cat /dev/shm/probe")).succeeds().stdout("x\n");
    assert!(!fs::exists("/dev/shm/probe").unwrap());
}

#[test]
fn proc_shows_the_sandbox_only() {
    let world = World::new();
    let own = std::process::id();
    let count = "ls /proc | grep -c '^[0-9]*$'";
    let inside: usize = world.run(sh(count)).succeeds().output().trim().parse().unwrap();
    assert!(inside < 12, "{inside} processes");
    world.run(sh(&format!("tr '\\0' ' ' < /proc/{own}/cmdline"))).stdout_lacks("e2e");
    world.run(sh("echo 1 > /proc/sys/vm/drop_caches")).fails();
    world.run(sh("echo h > /proc/sysrq-trigger")).fails();
}

#[test]
fn run_is_empty_but_for_our_own() {
    let world = World::new();
    world.run(["ls", "/run"]).succeeds().stdout("agent-sandbox\nuser\n");
    world.run(["touch", "/run/x"]).fails();
    world.run(["touch", "/run/agent-sandbox/x"]).fails();
}

#[test]
fn runtime_directory_of_the_user_is_private_and_empty() {
    let world = World::new().file("outside/run/bus", "x");
    let world = world.clone().env("XDG_RUNTIME_DIR", world.path("outside/run"));
    let script = r#"echo "$XDG_RUNTIME_DIR"; ls -A "$XDG_RUNTIME_DIR"; stat -c %a "$XDG_RUNTIME_DIR"; touch "$XDG_RUNTIME_DIR/x""#;
    let uid = world.host(["id", "-u"]).output();
    world.run(sh(script)).succeeds().stdout(&format!("/run/user/{}\n700\n", uid.trim()));
    world.host(sh("ls $XDG_RUNTIME_DIR")).succeeds().stdout("bus\n");
}

#[test]
fn temporary_files_are_private_to_each_run() {
    let world = World::new();
    let name = format!("/tmp/as-e2e-{}", std::process::id());
    let write = format!("echo inside > {name}; cat {name}; echo $TMPDIR");
    fs::write(&name, "outside\n").unwrap();
    world.run(["cat", &name]).fails();
    world.run(sh(&write)).succeeds().stdout("inside\n/tmp\n");
    world.run(["cat", &name]).fails();
    assert_eq!(fs::read_to_string(&name).unwrap(), "outside\n");
    fs::remove_file(&name).unwrap();
}

#[test]
fn temporary_files_are_the_hosts_when_asked_for() {
    let world = World::new().file("tmp.toml", "tmp = 'host'\n");
    let config = world.path("tmp.toml").display().to_string();
    let name = format!("/tmp/as-e2e-host-{}", std::process::id());
    fs::write(&name, "outside\n").unwrap();
    let append = format!("cat {name}; echo inside >> {name}");
    world.run(["-c", &config].into_iter().chain(sh(&append))).succeeds().stdout("outside\n");
    assert_eq!(fs::read_to_string(&name).unwrap(), "outside\ninside\n");
    fs::remove_file(&name).unwrap();
}

#[test]
fn project_below_tmp_is_writable_and_its_neighbours_are_gone() {
    let dir = format!("/tmp/as-e2e-project-{}", std::process::id());
    fs::create_dir_all(format!("{dir}/work")).unwrap();
    fs::write(format!("{dir}/other"), "x").unwrap();
    let world = World::new().cwd(format!("{dir}/work"));
    world.run(sh("touch made; ls ..")).succeeds().stdout("work\n");
    assert!(fs::exists(format!("{dir}/work/made")).unwrap());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn tmp_as_the_working_directory_is_refused_with_a_way_out() {
    let world = World::new().cwd("/tmp");
    world
        .run(["true"])
        .code(125)
        .stderr_contains("private to each sandbox")
        .stderr_contains("tmp = \"host\"");
}

#[test]
fn hidden_working_directory_is_refused_naming_the_rule() {
    let world = World::new().file("project/sub/file", "x").file("home/.ssh/config", "x");
    let run = world.clone().cwd("project/sub").run(["--exclude", "../sub", "true"]).code(125);
    run.stderr_contains("is hidden by").stderr_contains("--exclude");
    world.clone().cwd("home/.ssh").run(["true"]).code(125).stderr_contains("hidden by preset @");
    let config = "home/.config/agent-sandbox/config.toml";
    let global = world.clone().file(config, "\nfilesystem.exclude = ['~/../project']\n");
    global.run(["true"]).code(125).stderr_contains("config.toml:2");
    let below = world.clone().cwd("project/sub");
    below.run(["--exclude", "..", "true"]).succeeds();
}

#[test]
fn home_as_the_working_directory_stays_read_only() {
    let world =
        World::new().file("home/file", "x").file("home/.netrc", "x").file("home/sub/f", "x");
    let world = world.cwd("home");
    assert_views(&world, &[], &[("home", "ro"), ("home/file", "ro"), ("home/.netrc", "hidden")]);
    assert_views(&world, &["--rw", "sub"], &[("home", "ro"), ("home/sub/f", "rw")]);
}

#[test]
fn root_as_the_working_directory_runs() {
    let world = World::new().file("home/.netrc", "x").cwd("/");
    world.run(sh("pwd; cat ~/.netrc")).stdout("/\n");
}

#[test]
fn cwd_flag_moves_the_project() {
    let world = World::new().file("other/file", "x").file("project/file", "x");
    let views = [("other/file", "rw"), ("project/file", "ro")];
    assert_views(&world, &["-C", "../other"], &views);
    assert_views(&world, &["--cwd", "../other"], &views);
    world.run(["-C", "../other", "pwd"]).succeeds().stdout_contains("/other\n");
    world.run(["-C", "nowhere", "true"]).code(125).stderr_contains("nowhere");
}

fn shared(world: &World, config: &str) -> String {
    let config = config.replace("WORLD", &world.path("").display().to_string());
    world.write("mounts.toml", config);
    world.path("mounts.toml").display().to_string()
}

#[test]
fn mounts_show_host_directories_at_new_places() {
    let world = World::new().file("outside/data/file", "x").file("outside/other", "x");
    let config = shared(
        &world,
        "mounts = [\n  { host = 'WORLD/outside/data', container = '/data' },\n  \
         { host = 'WORLD/outside/data', container = '/new/deep/rw', mode = 'rw' },\n  \
         { host = 'WORLD/outside/other', container = '/tmp/other', mode = 'ro' },\n]\n",
    );
    let run = |script: &str| world.run(["-c", &config].into_iter().chain(sh(script)));
    run("cat /data/file /new/deep/rw/file /tmp/other").succeeds().stdout("xxx");
    run("touch /data/x").fails();
    run("echo x > /tmp/other").fails();
    run("touch /new/deep/rw/made && ls /usr/bin/env /etc/passwd").succeeds();
    assert!(world.has("outside/data/made"));
    world.run(["ls", "/data"]).fails();
    assert!(!fs::exists("/new").unwrap());
}

#[test]
fn shared_directories_are_relative_to_their_file() {
    let world = World::new().file("outside/in/file", "x").file("outside/out/file", "x");
    for text in [
        "shared_dirs.in = { host = 'outside/in', guest = '/shared/in' }\n\
         shared_dirs.out = { host = 'outside/out', guest = '/shared/out' }\n",
        "shared_dirs = [{ host_path = 'outside/in', guest_path = '/shared/in', read_only = true },\n\
         { host_path = 'outside/out', guest_path = '/shared/out' }]\n",
    ] {
        let config = shared(&world, text);
        let script = "cat /shared/in/file /shared/out/file && touch /shared/out/made";
        world.run(["-c", &config].into_iter().chain(sh(script))).succeeds().stdout("xx");
        assert!(world.has("outside/out/made"));
        let write = world.run(["-c", &config, "touch", "/shared/in/made"]);
        if text.contains("read_only") {
            write.fails()
        } else {
            write.succeeds()
        };
        let _ = fs::remove_file(world.path("outside/in/made"));
    }
}

#[test]
fn mount_that_cannot_be_made_is_refused_with_its_reason() {
    let world = World::new().file("outside/data/file", "x");
    for (text, why) in [
        (
            "mounts = [{ host = 'WORLD/nothing', container = '/data' }]",
            "the host path does not exist",
        ),
        (
            "mounts = [{ host = 'WORLD/outside', container = '/usr/nothing/here' }]",
            "does not exist",
        ),
        ("mounts = [{ host = 'WORLD/outside', container = '/proc/x' }]", "the sandbox manages"),
        ("mounts = [{ host = 'WORLD/outside', container = '/' }]", "the sandbox manages"),
        (
            "mounts = [{ host = 'WORLD/outside', container = '/run/agent-sandbox/bin' }]",
            "the sandbox manages",
        ),
    ] {
        let config = shared(&world, text);
        world
            .run(["-c", &config, "true"])
            .code(125)
            .stderr_contains(why)
            .stderr_contains("mounts.toml:1");
    }
}

#[test]
fn file_systems_below_the_project_come_along() {
    need("unshare");
    let world = World::new().dir("project/mnt").dir("bin");
    let binary = world.binary().display().to_string();
    let bwrap = "cp $(command -v bwrap) ../bin && export PATH=${PWD%/*}/bin:$PATH";
    let script = format!(
        "{bwrap} && mount -t tmpfs none mnt && echo x > mnt/file && {binary} sh -c 'cat mnt/file; touch mnt/new' && ls mnt"
    );
    world.host(["unshare", "-rm", "sh", "-c", &script]).succeeds().stdout("x\nfile\nnew\n");
}
