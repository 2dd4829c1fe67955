//! `doctor` on this machine, and in namespaces that lack something.

use std::path::Path;

use serde_json::Value;
use testkit::{Run, User, World, need, user};

fn rows(run: &Run) -> Vec<Value> {
    serde_json::from_str(&run.output()).unwrap_or_else(|error| panic!("{error}\n{run}"))
}

#[track_caller]
fn row(run: &Run, name: &str) -> Value {
    let found = rows(run).into_iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no row {name}\n{run}"))
}

/// Runs the binary in new namespaces that a shell script prepared.
fn worse(world: &World, preparation: &str, args: &[&str]) -> Run {
    let script = format!("{preparation} || exit 99; exec \"$@\"");
    let binary = world.binary().display().to_string();
    let words = ["unshare", "-Urm", "sh", "-c", &script, "sh", &binary];
    world.host(words.into_iter().chain(args.iter().copied()))
}

#[test]
fn doctor_says_by_which_means_a_run_is_made() {
    let world = World::new();
    let run = world.run(["doctor", "--json"]).succeeds();
    for row in rows(&run) {
        assert!(row["ok"].is_boolean() && row["detail"].is_string(), "{row}");
        assert_ne!(row["status"], "fail", "{row}");
    }
    let seen = world.run(["--debug", "true"]).succeeds().messages();
    let used = if seen.contains("(Bubblewrap)") { "plain bubblewrap" } else { "own mounts" };
    assert!(row(&run, "sandbox")["detail"].as_str().unwrap().contains(used), "{run}\n{seen}");
}

#[test]
fn doctor_names_what_does_not_hold_when_bubblewrap_mounts() {
    let world = World::new().env("AGENT_SANDBOX_MOUNTS", "bwrap");
    let run = world.run(["doctor", "--json"]).succeeds();
    let sandbox = row(&run, "sandbox");
    assert_eq!(sandbox["status"], "warn");
    assert!(sandbox["limits"].as_array().unwrap().len() >= 4, "{sandbox}");
    world
        .run(["doctor"])
        .succeeds()
        .stdout_contains("warn  sandbox")
        .stdout_contains("ok    kernel");
}

#[test]
fn doctor_and_a_failed_run_name_the_setting_that_forbids_namespaces() {
    let world = World::new();
    let limit = "echo 0 > /proc/sys/user/max_user_namespaces";
    let run = worse(&world, limit, &["doctor", "--json"]).code(1);
    let namespaces = row(&run, "user-namespaces");
    assert_eq!(namespaces["status"], "fail");
    assert!(namespaces["remedy"].as_str().unwrap().contains("user.max_user_namespaces"), "{run}");
    worse(&world, limit, &["doctor"]).code(1).stdout_contains("FAIL  user namespaces");
    worse(&world, limit, &["true"])
        .code(125)
        .stderr_contains("hint: user namespaces cannot be used")
        .stderr_contains("sysctl -w user.max_user_namespaces=");
    worse(&world, "true", &["true"]).succeeds();
}

#[test]
fn doctor_fails_when_there_is_no_bubblewrap() {
    need("bwrap");
    let cover = "mount --bind /dev/null /usr/bin/bwrap";
    let run = worse(&World::new(), cover, &["doctor", "--json"]).code(1);
    let bubblewrap = row(&run, "bubblewrap");
    assert_eq!(bubblewrap["remedy"], "install with: apt install bubblewrap");
}

#[test]
fn doctor_changes_nothing() {
    let world = World::new();
    world.run(["doctor"]).succeeds();
    let left = world.host(["find", world.path("").to_str().unwrap(), "-mindepth", "2"]);
    left.succeeds().stdout("");
}

#[test]
fn doctor_works_inside_a_sandbox() {
    let world = World::new();
    let binary = "/run/agent-sandbox/agent-sandbox";
    let run = world.run([binary, "doctor", "--json"]);
    assert!(row(&run, "place")["detail"].as_str().unwrap().contains("inside a sandbox"), "{run}");
}

/// Creates a copy of bubblewrap that is setuid root and reports this version.
fn setuid_copy(world: &World, major: Option<&str>) -> World {
    let bwrap = need("bwrap");
    let real = world.host([&bwrap, Path::new("--version")]).output();
    let mut bytes = std::fs::read(&bwrap).expect("bwrap can be read");
    if let Some(major) = major {
        let (old, new) = (real.trim(), real.trim().replace(" 0.", &format!(" {major}.")));
        let at = bytes.windows(old.len()).position(|window| window == old.as_bytes());
        let at = at.expect("bwrap holds its version");
        bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
    }
    let world = world.clone().exec_file("outside/bin/bwrap", bytes);
    let dir = world.path("outside/bin");
    world.host([Path::new("chmod"), Path::new("4755"), &dir.join("bwrap")]).succeeds();
    world.env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
}

#[test]
fn pr12_an_old_setuid_bubblewrap_is_refused() {
    if user() == User::Ordinary {
        // Only root can create one. A user's own setuid file gives no other user's rights, so it is used.
        setuid_copy(&World::new(), None).run(["true"]).succeeds();
        return;
    }
    let world = setuid_copy(&World::new(), None);
    world.run(["true"]).code(125).stderr_contains("CVE-2026-41163").stderr_contains("chmod u-s");
    let run = world.run(["doctor", "--json"]).code(1);
    assert!(row(&run, "bubblewrap")["detail"].as_str().unwrap().contains("setuid"), "{run}");
}

#[test]
fn a_safe_setuid_bubblewrap_runs_without_root_s_rights() {
    let world = setuid_copy(&World::new(), Some("9"));
    world
        .run(["grep", "^CapEff", "/proc/self/status"])
        .succeeds()
        .stdout("CapEff:\t0000000000000000\n");
    let run = world.run(["doctor", "--json"]).succeeds();
    let bubblewrap = row(&run, "bubblewrap");
    let expected = if user() == User::Root { "warn" } else { "ok" };
    assert_eq!(bubblewrap["status"], expected, "{bubblewrap}");
}

#[test]
fn a_protected_file_is_protected_again_when_the_host_replaces_it() {
    for mounts in ["", "bwrap"] {
        let world = World::new().file("project/kept", "old").env("AGENT_SANDBOX_MOUNTS", mounts);
        let script = "touch ready; until [ -e go ]; do sleep 0.01; done; cat kept
            for i in $(seq 500); do (: >> kept) 2>/dev/null || break; sleep 0.01; done
            echo bad > kept";
        let process = world.spawn(["--ro", "kept", "sh", "-c", script]);
        world.write("project/new", "new");
        let replace = "until [ -e ready ]; do sleep 0.01; done; mv new kept; touch go";
        world.host(["sh", "-c", replace]).succeeds();
        process.wait().fails().stdout("new").stderr_contains("kept");
        assert_eq!(world.read("project/kept"), "new", "{mounts:?}");
    }
}
