//! `apply` and `undo` are killed before each system call that changes something. Afterwards both commands complete it,
//! `diff` shows what is not applied, and `prune` does not offer the session.
//!
//! strace counts each system call separately, so a first run is traced, and every call in it is a point to kill at.

use testkit::{World, need, rounds};

use super::{change, tree};

/// System calls that can change something on disk. Those with a `?` do not exist on every machine.
const CALLS: &str = "?open,?creat,openat,openat2,write,writev,pwrite64,copy_file_range,sendfile,ftruncate,fallocate,fsync,\
    fdatasync,syncfs,?rename,renameat,renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?symlink,symlinkat,?link,linkat,\
    ?chmod,fchmod,fchmodat,?chown,fchown,fchownat,utimensat,setxattr,fsetxattr,removexattr,fremovexattr";

/// Point before the `nth` call of a name.
#[derive(Debug, Clone)]
struct Point {
    call: String,
    nth: usize,
}

/// Command to kill, with the world that it runs in.
struct Scene {
    /// Prepares the world for the command.
    prepare: fn(&World),
    command: &'static [&'static str],
    /// Flags of the apply and the undo that follow.
    flags: &'static [&'static str],
}

/// States between which apply and undo move.
struct States {
    before: String,
    after: String,
    /// The output of `diff --name-only` when nothing is applied.
    names: String,
}

fn world(engine: &str) -> World {
    let numbers: Vec<_> = (1..=60).map(|number| number.to_string()).collect();
    let world = World::new()
        .file("project/h", numbers.join("\n") + "\n")
        .file("project/d/e/x", "x\n")
        .file("project/was-dir/x", "x\n")
        .file("project/was-file", "x\n")
        .symlink("project/l", "h");
    world.host(["sh", "-c", "chmod 711 d/e; chmod 640 h; mkdir empty; chmod 700 empty"]).succeeds();
    in_session(
        &world,
        engine,
        "sed -i s/^5$/FIVE/ h; echo new > n; rm -r d empty; ln -sf n l; mkdir m; echo m > m/m; \
         rm -r was-dir; echo f > was-dir; rm was-file; mkdir was-file; echo y > was-file/y",
    );
    world
}

/// Runs a script in the session `s` with this engine.
fn in_session(world: &World, engine: &str, script: &str) {
    let (run, cow) = (world.clone().without_env("AGENT_SANDBOX_MOUNTS"), format!("--cow={engine}"));
    run.spawn([&cow, "--session", "s", "sh", "-ec", script]).wait().succeeds();
}

const APPLY: Scene = Scene { prepare: |_| (), command: &["apply"], flags: &[] };
const UNDO: Scene = Scene { prepare: applied, command: &["undo"], flags: &[] };
const PARTIAL: Scene =
    Scene { prepare: edited, command: &["undo", "--partial"], flags: &["--partial"] };
const RESUME: Scene = Scene { prepare: half_way, command: &["apply", "--resume"], flags: &[] };
const GIVE_UP: Scene = Scene { prepare: half_way, command: &["undo"], flags: &[] };
const FIRST_OF_TWO: Scene = Scene { prepare: applied_twice, command: &["undo"], flags: &[] };

fn applied(world: &World) {
    world.run(["apply"]).succeeds();
}

/// Scene in which the host changes a file after it was applied.
fn edited(world: &World) {
    applied(world);
    world.write("project/n", "host\n");
}

fn half_way(world: &World) {
    let point = Point { call: "renameat2".into(), nth: 4 };
    assert!(killed(world, &["apply"], &point), "the apply exchanges more than three files");
}

/// Scene in which the second apply is undone, then the first.
fn applied_twice(world: &World) {
    applied(world);
    change(world, "echo more >> h; echo more > more");
    applied(world);
    world.run(["undo"]).succeeds();
}

/// Runs a command that is killed at a point. Returns true if it was killed.
fn killed(world: &World, words: &[&str], point: &Point) -> bool {
    let run = world.killed_at(&point.call, point.nth, words);
    run.status().code().is_none() || run.status().code() == Some(137)
}

/// Returns every call of a command that changes something.
fn points(scene: &Scene, engine: &str) -> Vec<Point> {
    traced(&world(engine), scene.prepare, scene.command)
}

fn traced(world: &World, prepare: fn(&World), command: &[&str]) -> Vec<Point> {
    prepare(world);
    let (strace, log) = (need("strace").display().to_string(), world.path("calls"));
    let (log, binary) = (log.display().to_string(), world.binary().display().to_string());
    let trace = format!("trace={CALLS}");
    let how = [strace.as_str(), "-f", "-o", &log, "-e", &trace, &binary];
    world.host([&how[..], command].concat());
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    let mut points = Vec::new();
    for line in world.read("calls").lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let Some((name, rest)) = call.trim_start().split_once('(') else { continue };
        let nth = counts.entry(name.to_owned()).or_default();
        *nth += 1;
        let opens = name.starts_with("open");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| rest.contains(flag));
        let says = name == "write" && (rest.starts_with("1,") || rest.starts_with("2,"));
        if (!opens || writes) && !says {
            points.push(Point { call: name.to_owned(), nth: *nth });
        }
    }
    points
}

fn states(scene: &Scene, engine: &str) -> States {
    let world = world(engine);
    let mut before = contents(&world);
    (scene.prepare)(&world);
    let apply = [&["apply"], scene.flags].concat();
    world.run(&apply);
    world.run(&apply);
    let after = contents(&world);
    let undo = [&["undo"], scene.flags].concat();
    for _ in 0..3 {
        world.run(&undo);
    }
    if scene.flags.is_empty() {
        assert_eq!(contents(&world), before, "without a kill");
    }
    before = contents(&world);
    let names = world.run(["diff", "--name-only"]).succeeds().output();
    assert!(names.contains("was-file/y\n"), "{names}");
    States { before, after, names }
}

/// Kills a scene's command at its points. At the second half of them, kills the recovery, too.
#[track_caller]
fn kill_everywhere(scene: &Scene) {
    kill_with_engine("overlay", rounds(12, 1), scene);
    kill_with_engine("agentfs", rounds(30, 1), scene);
}

#[track_caller]
fn kill_with_engine(engine: &str, step: usize, scene: &Scene) {
    let (points, states) = (points(scene, engine), states(scene, engine));
    assert!(points.len() > 25, "only {} points", points.len());
    let again = [points.clone(), self::points(&UNDO, engine)].concat();
    let mut kills = 0;
    for (at, point) in points.iter().enumerate() {
        // `rename` puts the status and the base in place, so it is never skipped.
        if at % step != 0 && point.call != "rename" {
            continue;
        }
        let twice: &[bool] = if rounds(0, 1) == 1 { &[false, true] } else { &[at % 2 == 1] };
        for twice in twice {
            let world = world(engine);
            (scene.prepare)(&world);
            kills += usize::from(killed(&world, scene.command, point));
            let mut how = format!("{engine}: {:?} killed at {point:?}", scene.command);
            if *twice {
                let second = &again[at * 7 % again.len()];
                let words = if at % 4 == 1 { "undo" } else { "apply" };
                killed(&world, &[&[words], scene.flags].concat(), second);
                how = format!("{how}, then {words} at {second:?}");
            }
            recovers(&world, scene, &states, at / 2 % 2 == 0, &how);
        }
    }
    assert!(kills > 4, "only {kills} kills");
}

/// Checks the state after a kill, then runs `apply` and `undo`, in either order.
fn recovers(world: &World, scene: &Scene, states: &States, apply_first: bool, how: &str) {
    let names = || world.run(["diff", "--name-only"]).succeeds().output();
    let pruned = world.run(["prune", "--dry-run"]).messages();
    let interrupted = world.run(["apply", "--dry-run"]).messages().contains("was interrupted");
    let host = contents(world);
    let host: String =
        host.split_inclusive('\n').filter(|line| !line.contains(".agent-sandbox-")).collect();
    if host != states.after {
        assert_ne!(names(), "", "{how}: nothing is shown, and not everything is applied\n{host}");
    }
    if host != states.after || interrupted {
        assert!(!pruned.contains("nothing is changed"), "{how}: offered by prune\n{pruned}");
    }
    let apply = || {
        world.run([&["apply"], scene.flags].concat());
        assert_eq!(contents(world), states.after, "{how}: applied");
        if scene.flags.is_empty() {
            assert_eq!(names(), "", "{how}: applied, and still shown");
        }
    };
    let undo = || {
        for _ in 0..3 {
            world.run([&["undo"], scene.flags].concat());
        }
        assert_eq!(contents(world), states.before, "{how}: undone");
        assert_eq!(names(), states.names, "{how}: undone, and not shown");
    };
    if apply_first {
        apply();
        undo();
    } else {
        undo();
        apply();
    }
}

/// Kills a command in a repository, has git on the host refresh the index, and runs `apply` and `undo`.
#[track_caller]
fn refresh_everywhere(engine: &str, prepare: fn(&World), command: &[&str]) {
    let world = repository(engine);
    let before = refs(&world);
    applied(&world);
    let after = refs(&world);
    assert_ne!(before, after, "the apply moves refs");
    let points = traced(&repository(engine), prepare, command);
    assert!(points.len() > 25, "only {} points", points.len());
    let step = rounds(24, 1);
    for (at, point) in points.iter().enumerate() {
        // `renameat2` puts the refs and the index in place, so it is never skipped.
        if at % step != 0 && (point.call != "renameat2" || at % 4 != 1) {
            continue;
        }
        let world = repository(engine);
        prepare(&world);
        killed(&world, command, point);
        refresh(&world);
        let how = format!("{engine}: {command:?} killed at {point:?}");
        for (way, expected) in two_ways(at % 2 == 0, &before, &after) {
            let run = world.run([way]);
            assert!(!run.messages().contains("changed on the host just now"), "{how}: {run}");
            if refs(&world) != *expected {
                // The next command first completes the interrupted one.
                world.run([way]);
            }
            assert_eq!(refs(&world), *expected, "{how}, {way}: {run}");
            world.host(["git", "fsck", "--strict", "--no-dangling"]).succeeds();
            refresh(&world);
        }
    }
}

fn two_ways<'s>(undo_first: bool, before: &'s str, after: &'s str) -> [(&'static str, &'s str); 2] {
    let (undo, apply) = (("undo", before), ("apply", after));
    if undo_first { [undo, apply] } else { [apply, undo] }
}

fn repository(engine: &str) -> World {
    need("git");
    let world = World::new().file("project/a", "a\n").file("project/b", "b\n").git_init("project");
    in_session(&world, engine, "echo x >> a; git commit -qam two; git branch nb");
    world
}

/// Refreshes the index as a prompt or an editor does. The time differs each time, so that git writes the index.
fn refresh(world: &World) {
    let script = "touch -d @$(($(stat -c %Y b) - 86400)) b; git status --porcelain";
    world.host(["sh", "-ec", script]).succeeds();
}

/// Returns the refs, the staged entries, and the file that the commit changes.
fn refs(world: &World) -> String {
    let script = "git for-each-ref --format='%(refname) %(subject)'; git ls-files -s; cat a";
    world.host(["sh", "-ec", script]).succeeds().output()
}

#[test]
fn recovery_works_when_git_refreshes_the_index_after_a_killed_apply() {
    for engine in ["overlay", "agentfs"] {
        refresh_everywhere(engine, |_| (), &["apply"]);
    }
}

#[test]
fn recovery_works_when_git_refreshes_the_index_after_a_killed_undo() {
    for engine in ["overlay", "agentfs"] {
        refresh_everywhere(engine, applied, &["undo"]);
    }
}

#[test]
fn undo_works_when_the_host_reset_its_branch_after_the_apply() {
    for engine in ["overlay", "agentfs"] {
        let world = repository(engine);
        let before = refs(&world);
        applied(&world);
        world.host(["git", "reset", "-q", "--hard", "HEAD~1"]).succeeds();
        world.run(["undo"]).succeeds();
        assert_eq!(refs(&world), before, "{engine}");
        applied(&world);
        world.host(["git", "log", "-1", "--format=%s", "nb"]).succeeds().stdout("two\n");
    }
}

/// Returns the tree without times.
fn contents(world: &World) -> String {
    let plain = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let kept = words.iter().enumerate().filter(|(at, _)| words[0] != "f" || *at != 3);
        kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
    };
    tree(world, "project").lines().map(|line| plain(line) + "\n").collect()
}

#[test]
fn apply_and_undo_complete_when_apply_is_killed_at_any_call() {
    kill_everywhere(&APPLY);
}

#[test]
fn apply_and_undo_complete_when_undo_is_killed_at_any_call() {
    kill_everywhere(&UNDO);
}

#[test]
fn apply_and_undo_complete_when_a_partial_undo_is_killed_at_any_call() {
    kill_everywhere(&PARTIAL);
}

#[test]
fn apply_and_undo_complete_when_the_completion_of_an_apply_is_killed_at_any_call() {
    kill_everywhere(&RESUME);
}

#[test]
fn apply_and_undo_complete_when_the_undo_of_a_killed_apply_is_killed_at_any_call() {
    kill_everywhere(&GIVE_UP);
}

#[test]
fn apply_and_undo_complete_when_the_second_undo_is_killed_at_any_call() {
    kill_everywhere(&FIRST_OF_TWO);
}
