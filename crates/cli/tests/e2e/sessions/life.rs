//! `up`, `down`, `ps`, `inspect`, `restart`, `rm`, `logs`; names, ids and misspellings.

use testkit::World;

use super::{Up, eventually, inside, left_behind, supervisor, told, up};

#[test]
fn a_session_comes_up_serves_and_goes() {
    let world = World::new().file("project/a", "1");
    world
        .run(["up"])
        .succeeds()
        .stdout("project\n")
        .stderr_contains("session `project` is running");
    let _guard = Up(&world);
    world
        .run(inside("cat a; echo 2 > a; pwd"))
        .succeeds()
        .stdout(&format!("1{}\n", world.path("project").display()));
    assert_eq!(world.read("project/a"), "2\n");
    world.run(["ps"]).succeeds().stdout_contains("running").stdout_contains("bwrap");
    world.run(["down"]).succeeds().stderr_contains("Stopped session `project`");
    world.run(["down"]).succeeds().stderr_contains("session `project` was not running");
    world.run(["ps"]).succeeds().stdout_contains("stopped");
    world.run(inside("true")).code(125).stderr_contains("is not up").stderr_contains("up --name");
    world.run(["rm", "project"]).succeeds();
    world.run(["ps"]).succeeds().stdout("").stderr_contains("no sessions");
    assert_eq!(left_behind(&world), Vec::<String>::new());
}

#[test]
fn names_ids_and_their_beginnings_find_a_session_and_others_do_not() {
    let world = World::new().dir("other");
    let _guard = Up(&world);
    world.run(["up", "--name", "web"]).succeeds().stdout("web\n");
    world.run(["up", "--name", "worker"]).succeeds().stdout("worker\n");
    let text = world.run(["inspect", "web", "--json"]).succeeds().output();
    let id = text.split("\"id\": \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    for word in ["web", id, &id[..6]] {
        world.run(["exec", "-s", word, "true"]).succeeds();
        world.run(["inspect", word]).succeeds().stdout_contains(id);
    }
    world.run(["inspect", "wor"]).succeeds().stdout_contains("worker");
    world.run(["inspect", "w"]).code(2).stderr_contains("matches several sessions");
    world.run(["inspect", "nothing"]).code(2).stderr_contains("there is no session `nothing`");
    world.run(["down", "web", "nothing"]).code(2);
    world.run(["exec", "-s", "web", "true"]).succeeds();
    world.run(["up", "--name", "../x"]).code(2).stderr_contains("invalid session name");
    world.run(["up", "--name", "-x"]).code(2);
    world.run(["-s", "web", "up"]).code(2).stderr_contains("--name");
    let other = world.clone().cwd("other");
    other.run(["up", "--name", "web"]).code(125).stderr_contains("is already used in project");
    other.run(["inspect"]).code(2).stderr_contains("there is no session for");
    world.run(["--ro", "x", "exec", "-s", "web", "true"]).code(2).stderr_contains("no effect");
    world.run(["exec", "-t", "true"]).code(2).stderr_contains("name it with `-s`");
}

#[test]
fn two_commands_share_processes_and_the_temporary_directory() {
    let world = World::new();
    let _guard = up(&world, &[]);
    world
        .run(inside("echo kept > /tmp/note; sleep 1000 >/dev/null 2>&1 & echo $! > /tmp/pid"))
        .succeeds();
    world
        .run(inside("cat /tmp/note; kill -0 $(cat /tmp/pid) && echo alive"))
        .succeeds()
        .stdout("kept\nalive\n");
    // The control: another run has its own.
    world.run(["sh", "-c", "cat /tmp/note"]).fails();
    // Both end with the session.
    world.run(["restart"]).succeeds();
    world.run(inside("cat /tmp/note /tmp/pid 2>/dev/null; pgrep sleep")).fails().stdout("");
}

#[test]
fn a_session_whose_supervisor_is_killed_says_so_and_the_next_command_repairs_it() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let kill = |world: &World| {
        world.host(["kill", "-KILL", &supervisor(world)]).succeeds();
        eventually("its end is seen", || told(world, "state") == "killed");
    };
    kill(&world);
    world.run(["ps"]).succeeds().stdout_contains("killed");
    // Its last processes may still be exiting.
    eventually("the supervisor has ended", || {
        world.run(inside("true")).status().code() == Some(125)
    });
    let refused = world.run(inside("true")).code(125);
    refused.stderr_contains("does not respond").stderr_contains("up --name");
    world.run(["up"]).succeeds();
    world.run(inside("echo again")).succeeds().stdout("again\n");
    kill(&world);
    world.run(["down"]).succeeds();
    world.run(["rm", "project"]).succeeds();
    assert_eq!(left_behind(&world), Vec::<String>::new());
}

#[test]
fn a_session_that_keeps_changes_apart_is_one_thing_under_one_name() {
    let world = World::new().file("project/a", "1\n");
    let _guard = up(&world, &["--cow"]);
    world.run(inside("echo 2 > a; cat a")).succeeds().stdout("2\n");
    assert_eq!(world.read("project/a"), "1\n");
    let list = world.run(["ps"]).succeeds().output();
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.contains("bwrap+"), "{list}");
    world.run(["diff", "--name-only"]).succeeds().stdout("a\n");
    world.run(["down"]).succeeds();
    // Its changes remain, for the next session and for `apply`.
    world.run(["--session", "project", "cat", "a"]).succeeds().stdout("2\n");
    world.run(["up", "--cow"]).succeeds();
    world.run(inside("cat a")).succeeds().stdout("2\n");
    world.run(["down"]).succeeds();
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("project/a"), "2\n");
    world.run(["rm", "project"]).succeeds();
    world.run(["ps"]).succeeds().stdout("");
}

#[test]
fn a_session_that_cannot_start_says_why_and_leaves_nothing() {
    let world = World::new();
    let _guard = Up(&world);
    // Errors that only the supervisor finds, when it creates the sandbox.
    let plain = world.clone().env("AGENT_SANDBOX_MOUNTS", "bwrap");
    let refused = plain.run(["--cow=overlay", "up"]).code(125);
    refused.stderr_contains("did not start").stderr_contains("cannot mount an overlay");
    world.run(["ps"]).succeeds().stdout_contains("stopped");
    world.run(["rm", "project"]).succeeds();
    assert_eq!(left_behind(&world), Vec::<String>::new());
    world.run(["--config", "missing.toml", "up"]).code(125).stderr_contains("missing.toml");
    world.run(["up"]).succeeds();
}

#[test]
fn inside_a_session_there_are_no_sessions() {
    let world = World::new();
    let _guard = up(&world, &[]);
    world
        .run(inside("agent-sandbox up; agent-sandbox ps; agent-sandbox down"))
        .fails()
        .stderr_contains("sessions are not available inside a sandbox");
}

#[cfg(feature = "setup")]
#[test]
fn an_agent_runs_in_its_session_and_its_words_are_in_the_log() {
    let world = World::new().dir("project/sub").file("project/vars", "FROM_FILE=file\nBOTH=file\n");
    let config = format!(
        "backend = 'bwrap'\nenv_file = 'vars'\nenv.BOTH = 'config'\n\
         [agent]\ncommand = 'sh'\nargs = ['-c', 'echo said $FROM_FILE $BOTH in $(pwd); test -t 1 && echo on a terminal; sleep 1000']\n\
         workdir = '{}'\n",
        world.path("project/sub").display()
    );
    world.write("agent.toml", config);
    let file = world.path("agent.toml").display().to_string();
    world.write("vars", world.read("project/vars"));
    let _guard = up(&world, &["-c", &file]);
    let sub = world.path("project/sub").display().to_string();
    let said = format!("said file config in {sub}\non a terminal\n");
    eventually("the agent has spoken", || world.run(["logs"]).succeeds().output() == said);
    // Every command prints it in the same form.
    for words in [["ps", "--json"], ["inspect", "--json"]] {
        let told: serde_json::Value =
            serde_json::from_str(&world.run(words).succeeds().output()).unwrap();
        let agent = told.get(0).unwrap_or(&told)["agent"].clone();
        assert_eq!((&agent["state"], &agent["restarts"]), (&"running".into(), &0.into()), "{told}");
    }
    // It is a process of the session, and `restart` starts it again.
    world.run(inside("pgrep -c sleep")).succeeds().stdout("1\n");
    world.run(["restart"]).succeeds();
    eventually("it has spoken again", || world.run(["logs"]).output() == said.repeat(2));
    world.run(["logs", "-n", "1"]).succeeds().stdout("on a terminal\n");
    // `--follow` shows the end.
    let follow = world.spawn(["logs", "--follow"]);
    follow.wait_for("on a terminal");
    world.run(inside("pkill sleep")).succeeds();
    eventually("its end is told", || world.run(["inspect"]).output().contains("ended with 143"));
    world.run(["down"]).succeeds();
    follow.wait().succeeds();
}

#[test]
fn s8_what_the_backend_cannot_carry_out_is_refused_with_the_reason() {
    let world = World::new();
    for (line, why) in [
        ("resources.memory = '1g'", "no cgroup to enforce limits"),
        ("image = 'x'", "the host's programs"),
        ("network = 'bridge'", "an allow list"),
        ("agent.user = 'x'", "run as you"),
        ("agent.init = 'exec'", "PID 1"),
        ("env_file = 'missing'", "cannot read variables"),
        ("workspace.path = '.'", "the project directory"),
    ] {
        world.write("s.toml", format!("backend = 'bwrap'\n{line}\n"));
        let file = world.path("s.toml").display().to_string();
        world.run(["-c", &file, "up"]).code(125).stderr_contains(why).stderr_contains("hint");
    }
    // A misspelled key is an error, too, and never ignored.
    world.write("s.toml", "backend = 'bwrap'\nnetwrk = false\n");
    let file = world.path("s.toml").display().to_string();
    world.run(["-c", &file, "up"]).code(125).stderr_contains("netwrk");
    world.run(["ps"]).succeeds().stdout("");
}

#[test]
fn s2_s3_a_project_cannot_widen_its_session_before_it_is_trusted() {
    let wide = "network = true\nfilesystem.rw = ['~/notes']\n";
    let world =
        World::new().file("project/sandbox.toml", wide).dir("home/notes").dir("project/sub");
    let _guard = Up(&world);
    world.run(["up"]).code(125).stderr_contains("filesystem.rw").stderr_contains("trust");
    world.run(["ps"]).succeeds().stdout("");
    // The control: after trust, the supervisor applies it, too.
    world.run(["--trust", "up"]).succeeds();
    world.run(inside("echo x > ~/notes/x")).succeeds();
    // A changed file needs trust again. A running session keeps the old policy until then.
    world.write("project/sandbox.toml", format!("{wide}docker = true\n"));
    world.run(["up"]).code(125).stderr_contains("docker");
    world.run(inside("true")).succeeds();
}

#[test]
fn rm_takes_the_whole_name_before_the_beginning_of_another() {
    let world = World::new().file("project/a", "one\n");
    let _guard = up(&world, &[]);
    // `pro` is a copy-on-write session, `project` is up.
    world.run(["--cow", "-s", "pro", "sh", "-c", "echo two > a"]).succeeds();
    world.run(["--cow", "-s", "pride", "sh", "-c", "echo two > a"]).succeeds();
    world.run(["rm", "--yes", "pro", "pro"]).succeeds().stderr_contains("Removed pro:");
    world.run(inside("true")).succeeds();
    // One of each kind starts with this prefix.
    world.run(["rm", "pr"]).code(2).stderr_contains("several");
    // A prefix of one name is enough.
    world.run(["rm", "proj"]).succeeds().stderr_contains("Removed project");
    world.run(["rm", "--yes", "pride"]).succeeds();
}
