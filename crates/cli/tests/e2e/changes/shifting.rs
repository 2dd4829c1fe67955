//! The host replaces directories in which a session has changes. No command fails, and nothing is overwritten.

use testkit::{Process, World};

const ENGINES: [&str; 2] = ["overlay", "agentfs"];

fn start(world: &World, engine: &str, script: &str) -> Process {
    let world = world.clone().without_env("AGENT_SANDBOX_MOUNTS");
    world.spawn([&format!("--cow={engine}"), "--session", "s", "sh", "-ec", script])
}

fn on_host(world: &World, script: &str) {
    world.host(["sh", "-ec", script]).succeeds();
}

/// Actions of a session on `build`, and actions of the host on it.
const SESSIONS: [&str; 5] = [
    "rm -r build; mkdir build; echo n > build/n",
    "rm -r build",
    "rm -r build; echo file > build",
    "rm -r build; ln -s elsewhere build",
    "rm build/x; echo n > build/sub/n",
];
const HOSTS: [&str; 5] = [
    "rm -r build",
    "rm -r build; echo host > build",
    "rm -r build; ln -s elsewhere build",
    "mv build built",
    "rm -r build; mkdir build; echo host > build/x",
];

#[test]
fn every_command_works_when_the_host_took_a_directory_away_that_the_session_changed() {
    for engine in ENGINES {
        for session in SESSIONS {
            for host in HOSTS {
                every_command_works(engine, session, host);
            }
        }
    }
}

/// Lists the files and links, with content that the host wrote.
const HOST_WORK: &str =
    "grep -rx host build; find build -maxdepth 0 -type l -printf '%p %l\n'; true";

fn host_work(world: &World) -> String {
    world.host(["sh", "-c", HOST_WORK]).succeeds().output()
}

fn every_command_works(engine: &str, session: &str, host: &str) {
    let how = format!("{engine}: session `{session}`, host `{host}`");
    let world = World::new().file("project/build/x", "x\n").file("project/build/sub/y", "y\n");
    start(&world, engine, &format!("{session}; echo work > precious")).wait().succeeds();
    world.run(["snapshot", "-s", "s", "one"]).succeeds();
    on_host(&world, host);
    let works = |words: &[&str]| {
        let run = world.run([&words[..1], &["-s", "s"], &words[1..]].concat());
        let code = run.status().code();
        assert!(matches!(code, Some(0 | 1)), "{how}: {run}");
        assert!(!run.messages().contains("cannot "), "{how}: {run}");
        code == Some(0)
    };
    // The session and the review continue.
    start(&world, engine, "echo more >> precious").wait().succeeds().stderr_lacks("cannot ");
    assert!(works(&["diff"]), "{how}");
    let kept = host_work(&world);
    let untouched = |after: &str| {
        for file in kept.lines() {
            let now = world.host(["sh", "-c", HOST_WORK]).output();
            assert!(now.lines().any(|line| line == file), "{how}: {file} after {after}\n{now}");
        }
        if host == HOSTS[0] || host == HOSTS[3] {
            assert!(!world.has("project/build"), "{how}: made again by {after}");
        }
    };
    works(&["apply"]);
    untouched("apply");
    works(&["undo"]);
    works(&["apply", "--partial"]);
    untouched("apply --partial");
    assert_eq!(world.read("project/precious"), "work\nmore\n", "{how}");
    assert!(works(&["undo"]), "{how}");
    assert!(!world.has("project/precious"), "{how}");
    assert!(works(&["apply", "precious"]), "{how}");
    assert_eq!(world.read("project/precious"), "work\nmore\n", "{how}");
    assert!(works(&["undo"]), "{how}");
    if host.contains("echo host") {
        let kept = if host.contains("mkdir") { "project/build/x" } else { "project/build" };
        assert_eq!(world.read(kept), "host\n", "{how}");
    }
    assert!(works(&["restore", "one"]), "{how}");
    start(&world, engine, "cat precious").wait().succeeds().stdout("work\n");
    assert!(works(&["discard", "--yes"]), "{how}");
    assert!(works(&["diff"]), "{how}");
}

#[test]
fn a_killed_apply_completes_when_the_host_took_the_directory_away() {
    for host in ["true", "rm -rf build", "rm -rf build; ln -s elsewhere build"] {
        for way in [["apply", "--resume"], ["undo", "--partial"]] {
            let world = World::new().file("project/build/x", "x\n");
            let script = "rm -r build; echo file > build; echo work > precious";
            start(&world, "overlay", script).wait().succeeds();
            // After the directory is removed, before the file is created.
            world.killed_at("renameat2", 2, &["apply", "-s", "s"]);
            assert!(!world.has("project/build"), "{host}: the directory went");
            on_host(&world, host);
            // A run in between records the new base.
            start(&world, "overlay", "echo more > more").wait().succeeds().stderr_lacks("cannot ");
            let first = world.run([&way[..], &["-s", "s"]].concat());
            if first.status().code() != Some(0) && way[0] == "apply" {
                // Content that the host has there now is not overwritten. The other direction is possible.
                assert!(first.messages().contains("undo"), "{host}: {first}");
                world.run(["undo", "-s", "s", "--partial"]);
            }
            world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout_contains("more\n");
            let again = world.run(["apply", "-s", "s", "--partial"]);
            assert!(!again.messages().contains("cannot "), "{host}, {way:?}: {again}");
            assert_eq!(world.read("project/precious"), "work\n", "{host}, {way:?}");
            assert_eq!(world.read("project/more"), "more\n", "{host}, {way:?}");
        }
    }
}

#[test]
fn a_new_file_comes_with_the_directory_that_the_host_removed_when_it_is_named() {
    for engine in ENGINES {
        let world = World::new().file("project/build/x", "x\n");
        start(&world, engine, "rm -r build; mkdir build; echo n > build/n").wait().succeeds();
        on_host(&world, "rm -r build");
        world.run(["apply", "-s", "s"]).code(1).stderr_contains("was deleted on the host");
        assert!(!world.has("project/build"), "{engine}");
        world.run(["apply", "-s", "s", "build/n"]).succeeds();
        assert_eq!(world.read("project/build/n"), "n\n", "{engine}");
        world.run(["undo", "-s", "s"]).succeeds();
        assert!(!world.has("project/build"), "{engine}");
    }
}

/// Changes of a session in `d`, with the path that must be reported.
const EDITS: [(&str, &str); 5] = [
    ("echo session >> d/x", "d/x"),
    ("sed -i s/mine/session/ d/x", "d/x"),
    ("rm d/x", "d/x"),
    ("rm -r d", "d/x"),
    ("echo session >> d/e/y", "d/e/y"),
];

/// Ways to put another directory in place whose files have old times.
const SWAPS: [&str; 4] = [
    "mv d d.old; mv d2 d",
    "mv d d.old; mv d2 d; touch d/added",
    "cd ..; mv project old; mkdir project; mv old/d2 project/d",
    "mv d/e d/e.old; mv d2/e d/e; mv d/x d/x.old; mv d2/x d/x",
];

#[test]
fn a_directory_that_the_host_swaps_during_a_session_is_never_overwritten() {
    for engine in ENGINES {
        for (edit, told) in EDITS {
            for (number, swap) in SWAPS.iter().enumerate() {
                // The whole project is replaced once. The kernel's overlay keeps the old directory.
                if number == 2 && engine == "agentfs" {
                    continue;
                }
                swapped(engine, edit, told, swap);
            }
        }
    }
}

fn swapped(engine: &str, edit: &str, told: &str, swap: &str) {
    let how = format!("{engine}: session `{edit}`, host `{swap}`");
    let world = World::new()
        .file("project/d/x", "mine\n")
        .file("project/d/e/y", "mine\n")
        .file("project/d2/x", "yours\n")
        .file("project/d2/e/y", "yours\n")
        .file("project/keep", "1\n");
    let script = format!("ls -lR . > /dev/null; echo ready; read line; {edit}; echo 2 > new");
    let mut running = start(&world, engine, &script);
    running.wait_for("ready");
    on_host(&world, swap);
    running.send("\n");
    let ended = running.wait();
    assert!(ended.messages().contains("changed on the host"), "{how}: {ended}");
    let run = world.run(["apply", "-s", "s"]).code(1);
    assert!(run.messages().contains(&format!("conflict: {told}")), "{how}: {run}");
    world.run(["apply", "-s", "s", "--partial"]).code(1);
    assert_eq!(world.read("project/d/x"), "yours\n", "{how}");
    assert_eq!(world.read("project/d/e/y"), "yours\n", "{how}");
}

#[test]
fn work_of_the_host_in_the_same_directories_is_no_conflict() {
    for engine in ENGINES {
        for host in ["touch other d/other", "mv keep d/keep", "chmod 700 d/e", "rm -r d2", "true"] {
            let world = World::new()
                .file("project/d/x", "mine\n")
                .file("project/d/e/y", "mine\n")
                .file("project/d2/x", "yours\n")
                .file("project/keep", "1\n");
            let script = "echo ready; read line; echo session >> d/x; echo session >> d/e/y";
            let mut running = start(&world, engine, script);
            running.wait_for("ready");
            on_host(&world, host);
            running.send("\n");
            running.wait().succeeds();
            world.run(["apply", "-s", "s"]).succeeds();
            assert_eq!(world.read("project/d/x"), "mine\nsession\n", "{engine}: {host}");
            // The next run sees a directory that was recreated before it.
            on_host(&world, "cp -a d again; rm -r d; mv again d");
            start(&world, engine, "echo more >> d/x").wait().succeeds();
            world.run(["apply", "-s", "s"]).succeeds();
            assert_eq!(world.read("project/d/x"), "mine\nsession\nmore\n", "{engine}: {host}");
        }
    }
}

/// Actions of a session on `build` and `t`, actions of the host afterwards, and the host's file that must remain.
const UNSEEN: [(&str, &str, &str); 12] = [
    ("rm -r build; mkdir build; echo n > build/n", "echo USER > build/mine", "build/mine"),
    ("rm -r build", "echo USER > build/mine", "build/mine"),
    ("rm -r build; echo file > build", "echo USER > build/mine", "build/mine"),
    ("rm -r build", "mkdir build/new; echo USER > build/new/mine", "build/new/mine"),
    ("rm -r build/sub", "echo USER > build/sub/mine", "build/sub/mine"),
    ("rm t; mkdir t; echo s > t/f", "echo USER > t", "t"),
    ("rm -r build; mkdir build; echo s > build/s", "rm -r build; echo USER > build", "build"),
    ("echo s > build/s", "rm -r build; echo USER > build", "build"),
    ("mkdir new; echo s > new/s", "echo USER > new", "new"),
    ("rm t", "rm t; AGAIN; echo USER > t", "t"),
    ("rm -r build", "rm -r build; AGAIN; mkdir build; echo USER > build/mine", "build/mine"),
    ("rm build/x", "rm -r build; AGAIN; mkdir build; echo USER > build/x", "build/x"),
];

#[test]
fn files_that_the_session_never_saw_stay_when_it_runs_again() {
    for engine in ENGINES {
        for (session, host, stays) in UNSEEN {
            unseen(engine, session, host, stays);
        }
    }
}

fn unseen(engine: &str, session: &str, host: &str, stays: &str) {
    let how = format!("{engine}: session `{session}`, host `{host}`");
    let world = World::new()
        .file("project/build/x", "x\n")
        .file("project/build/sub/y", "y\n")
        .file("project/t", "old\n");
    start(&world, engine, &format!("{session}; echo work > precious")).wait().succeeds();
    for part in host.split("AGAIN;") {
        on_host(&world, part);
        start(&world, engine, "true").wait().succeeds();
    }
    let stays = format!("project/{stays}");
    // Changes that the session makes there later were also made without knowledge of the host's content.
    if host == UNSEEN[0].1 && session == UNSEEN[0].0 {
        start(&world, engine, "echo s > build/mine").wait().succeeds();
    }
    let run = world.run(["apply", "-s", "s"]).code(1);
    assert!(run.messages().contains("conflict: "), "{how}: {run}");
    assert_eq!(world.read(&stays), "USER\n", "{how}: {run}");
    let run = world.run(["apply", "-s", "s", "--partial"]);
    assert_eq!(world.read(&stays), "USER\n", "{how}: {run}");
    assert_eq!(world.read("project/precious"), "work\n", "{how}");
}

#[test]
fn directories_are_removed_and_replaced_when_the_session_saw_all_of_them() {
    for engine in ENGINES {
        for session in ["rm -r build", "rm -r build; echo file > build", "mv build b"] {
            let world = World::new().file("project/build/sub/x", "x\n").file("project/a", "1\n");
            start(&world, engine, "echo 2 >> a").wait().succeeds();
            on_host(&world, "echo later > build/sub/later");
            start(&world, engine, session).wait().succeeds();
            start(&world, engine, "true").wait().succeeds();
            world.run(["apply", "-s", "s"]).succeeds();
            on_host(&world, "test ! -e build/sub");
            // Files that the host creates there after the apply are kept.
            on_host(&world, "rm -rf build; mkdir build; echo USER > build/mine");
            start(&world, engine, "true").wait().succeeds();
            world.run(["apply", "-s", "s", "--partial"]);
            assert_eq!(world.read("project/build/mine"), "USER\n", "{engine}: {session}");
        }
    }
}

#[test]
fn a_swap_is_noticed_when_the_tree_has_too_many_directories_to_list() {
    for engine in ENGINES {
        let world = World::new()
            .file("project/y/1/2/3/4/5/z/d/x", "mine\n")
            .file("project/y/1/2/3/4/5/z/d2/x", "yours\n")
            .file("project/y/1/2/3/4/5/k/x", "mine\n");
        on_host(&world, "for a in $(seq 80); do mkdir -p $(seq -f \"a/$a/%g/x\" 80); done");
        let script = "cd y/1/2/3/4/5; cat */x */*/x > /dev/null; echo ready; read line; echo s >> z/d/x; echo s >> k/x";
        let mut running = start(&world, engine, script);
        running.wait_for("ready");
        on_host(&world, "cd y/1/2/3/4/5/z; mv d d.old; mv d2 d; touch d/added");
        running.send("\n");
        running.wait().succeeds();
        let run = world.run(["apply", "-s", "s", "--partial"]).code(1);
        assert!(run.messages().contains("conflict: y/1/2/3/4/5/z/d/x"), "{engine}: {run}");
        assert_eq!(world.read("project/y/1/2/3/4/5/z/d/x"), "yours\n", "{engine}");
        // The control: a directory that the host did not change.
        assert_eq!(world.read("project/y/1/2/3/4/5/k/x"), "mine\ns\n", "{engine}");
    }
}
