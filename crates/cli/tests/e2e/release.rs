//! State that release 0.1.0 left on disk works with this binary: it is listed, applied, reverted and removed.
//!
//! `release/make.sh` created `state.tar.gz` with the release's own binary.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testkit::{World, need};

/// Directory that the records name.
const PLACE: &str = "/var/tmp/agent-sandbox-0.1.0";
const STATE: &[u8] = include_bytes!("release/state.tar.gz");
/// Changes that every session of the release holds, as `diff` lists them.
const WORK: &str = "a\nbuild/n\nbuild/x\nempty/e\nh\nl\nn\n";

/// Unpacked state. Tests take turns, because its directory is fixed.
struct Release {
    world: World,
    lock: File,
}

impl Release {
    fn unpack() -> Self {
        let lock = lock();
        for entry in fs::read_dir(PLACE).expect("the place exists").flatten() {
            remove(&entry.path());
        }
        let mut tar = Command::new(need("tar"));
        tar.args([
            "--extract",
            "--gzip",
            "--xattrs",
            "--xattrs-include=user.*",
            "--no-same-owner",
            "-C",
            PLACE,
        ]);
        let mut tar = tar.stdin(Stdio::piped()).spawn().expect("tar starts");
        tar.stdin.take().expect("stdin is piped").write_all(STATE).expect("tar reads");
        assert!(tar.wait().expect("tar ends").success(), "cannot unpack the release's state");
        let world =
            World::new().env("HOME", format!("{PLACE}/home")).without_env("AGENT_SANDBOX_MOUNTS");
        Self { world, lock }
    }

    /// Runs commands in a project of the release.
    fn project(&self, name: &str) -> World {
        self.world.clone().cwd(format!("{PLACE}/{name}"))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        remove(Path::new(PLACE));
        let _ = &self.lock; // held until here
    }
}

/// Creates and locks the directory. The previous owner removes it, so a lock counts only on the current one. The suite may
/// run as two users at once, and each needs a directory that it owns.
fn lock() -> File {
    let own = rustix::process::geteuid().as_raw();
    loop {
        let _ = fs::create_dir(PLACE);
        let Ok(dir) = File::open(PLACE) else { continue };
        dir.lock().expect("the place can be locked");
        let ino = dir.metadata().expect("an open directory has metadata").ino();
        let usable = |now: fs::Metadata| now.ino() == ino && now.uid() == own;
        if fs::metadata(PLACE).is_ok_and(usable) {
            return dir;
        }
        drop(dir); // for the user who created it
        thread::sleep(Duration::from_millis(10));
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.unwrap_or_else(|error| panic!("cannot remove `{}`: {error}", path.display()));
}

#[track_caller]
fn assert_before(project: &World, name: &str) {
    let at = |file: &str| format!("{PLACE}/{name}/{file}");
    assert_eq!(project.read(at("a")), "one\n");
    assert_eq!(project.read(at("build/x")), "x\n");
    assert!(project.read(at("h")).contains("\n5\n"));
    assert!(!project.has(at("n")) && !project.has(at("l")) && !project.has(at("build/n")));
    assert!(!project.has(at("empty/e")));
}

#[track_caller]
fn assert_applied(project: &World, name: &str) {
    let at = |file: &str| format!("{PLACE}/{name}/{file}");
    assert!(!project.has(at("a")) && !project.has(at("build/x")));
    assert_eq!(project.read(at("build/n")), "n\n");
    assert_eq!(project.read(at("empty/e")), "e\n");
    assert!(project.read(at("h")).contains("\nFIVE\n"));
    assert_eq!(project.read(at("n")), "new\n");
}

/// Runs `apply`, `undo`, then `apply` on a session whose work is not in the project.
#[track_caller]
fn there_and_back(project: &World, name: &str) {
    project.run(["diff", "-s", name, "--name-only"]).succeeds().stdout(WORK);
    project.run(["apply", "-s", name]).succeeds();
    assert_applied(project, name);
    project.run(["undo", "-s", name]).succeeds();
    assert_before(project, name);
    project.run(["diff", "-s", name, "--name-only"]).succeeds().stdout(WORK);
    project.run(["apply", "-s", name]).succeeds();
    assert_applied(project, name);
}

#[cfg(feature = "setup")]
#[test]
fn layers_of_the_release_are_listed_restored_applied_and_removed() {
    let release = Release::unpack();
    let project = release.project("layers");
    let listed = project.run(["ps"]).succeeds().output();
    for name in
        ["over", "fuse", "applied", "half-resumed", "half-undone", "undoing", "hidden", "kept"]
    {
        assert!(listed.contains(name), "`{name}` is missing:\n{listed}");
    }
    project.run(["--session", "over", "cat", "n"]).succeeds().stdout("new\nlater\n");
    project.run(["--session", "fuse", "cat", "n"]).succeeds().stdout("new\n");
    project.run(["restore", "-s", "over", "before"]).succeeds();
    project.run(["--session", "over", "cat", "n"]).succeeds().stdout("new\n");
    project.run(["diff", "-s", "over", "--name-only"]).succeeds().stdout(WORK);
    project.run(["apply", "-s", "over"]).succeeds();
    assert_applied(&project, "layers");
    project.run(["undo", "-s", "over"]).succeeds();
    assert_before(&project, "layers");
    project.run(["apply", "-s", "fuse"]).succeeds();
    assert_applied(&project, "layers");
    project.run(["discard", "-s", "over", "--yes"]).succeeds();
    // A snapshot is work that only the session has.
    project.run(["rm", "over", "fuse"]).code(1).stderr_contains("snapshot");
    project.run(["rm", "--yes", "over", "fuse"]).succeeds();
    assert!(!project.run(["ps"]).succeeds().output().contains("fuse"));
}

#[test]
fn an_apply_of_the_release_is_undone() {
    let release = Release::unpack();
    let project = release.project("applied");
    assert_applied(&project, "applied");
    project.run(["undo", "-s", "applied"]).succeeds();
    assert_before(&project, "applied");
    there_and_back(&project, "applied");
}

#[test]
fn an_apply_that_was_killed_in_the_release_is_completed_or_undone() {
    let release = Release::unpack();
    let project = release.project("half-resumed");
    project.run(["apply", "-s", "half-resumed", "--resume"]).succeeds();
    assert_applied(&project, "half-resumed");
    project.run(["undo", "-s", "half-resumed"]).succeeds();
    assert_before(&project, "half-resumed");
    let project = release.project("half-undone");
    project.run(["undo", "-s", "half-undone"]).succeeds();
    assert_before(&project, "half-undone");
    there_and_back(&project, "half-undone");
}

#[test]
fn an_undo_that_was_killed_in_the_release_is_completed() {
    let release = Release::unpack();
    let project = release.project("undoing");
    project.run(["undo", "-s", "undoing"]).succeeds();
    assert_before(&project, "undoing");
    there_and_back(&project, "undoing");
}

/// The journal says that the apply is undone, and the base still counts it as applied.
#[test]
fn work_that_a_killed_undo_of_the_release_hid_is_found_again() {
    let release = Release::unpack();
    let project = release.project("hidden");
    assert_before(&project, "hidden");
    // Commands that take no lock, and commands that may discard because nothing is lost.
    project.run(["rm", "hidden"]).code(1).stderr_contains("7 files changed");
    project.run(["prune", "--yes"]).succeeds();
    let kept = project.run(["ps", "--json"]).succeeds().output();
    assert!(kept.contains("\"hidden\""), "{kept}");
    project.run(["fork", "-s", "hidden", "forked"]).succeeds();
    project.run(["diff", "-s", "forked", "--name-only"]).succeeds().stdout(WORK);
    there_and_back(&project, "hidden");
    // The control: changes that really are applied are not found again.
    project.run(["diff", "-s", "hidden", "--name-only"]).succeeds().stdout("");
    project.run(["rm", "hidden"]).succeeds();
}

#[test]
fn a_run_in_a_session_with_a_killed_undo_of_the_release_keeps_its_work() {
    let release = Release::unpack();
    let project = release.project("hidden");
    project.run(["--session", "hidden", "cat", "n"]).succeeds().stdout("new\n");
    there_and_back(&project, "hidden");
}

#[cfg(feature = "setup")]
#[test]
fn a_session_of_a_newer_version_is_refused_and_left_as_it_is() {
    let release = Release::unpack();
    let project = release.project("layers");
    let sessions = format!("{PLACE}/home/.local/share/agent-sandbox/sessions");
    let records = || -> Vec<_> {
        let dirs = fs::read_dir(&sessions).unwrap().flatten();
        dirs.map(|dir| dir.path().join("session.json")).filter(|file| file.is_file()).collect()
    };
    let is_over = |file: &&std::path::PathBuf| project.read(file).contains("\"name\": \"over\"");
    let record = records().iter().find(is_over).unwrap().clone();
    let (old, count) = (project.read(&record), records().len());
    let refused = |text: &str, why: &str| {
        fs::write(&record, text).unwrap();
        for words in [
            &["--session", "over", "true"][..],
            &["exec", "-s", "over", "true"],
            &["exec", "-s", "over", "--cow", "true"],
            &["up", "--cow", "--name", "over"],
            &["up", "--name", "over"],
        ] {
            project.run(words).code(125).stderr_contains(why);
        }
        project.run(["fork", "-s", "fuse", "over"]).code(1).stderr_contains(why);
        assert_eq!(project.read(&record), text);
        assert_eq!(records().len(), count, "no second session");
    };
    let newer = "written by a newer version";
    refused(&old.replace("\"format\": 1", "\"format\": 99"), newer);
    let shape = old.replace("\"roots\"", "\"places\"").replace("\"format\": 1", "\"format\": 99");
    refused(&shape, newer);
    for words in [&["diff", "-s", "over"][..], &["diff"], &["apply", "-s", "over"], &["rm", "over"]]
    {
        project.run(words).code(1).stderr_contains(newer);
    }
    // An unreadable record may be that of the named session.
    refused("{ half", "cannot read the session record");
    // The control: other sessions work, and this one works once it can be read.
    project.run(["--session", "fuse", "cat", "n"]).succeeds().stdout("new\n");
    fs::write(&record, &old).unwrap();
    project.run(["--session", "over", "cat", "n"]).succeeds().stdout("new\nlater\n");
}

#[test]
fn trust_of_the_release_holds_until_the_file_changes() {
    let release = Release::unpack();
    let project = release.project("trusted");
    let write = ["sh", "-c", "echo shared > ../shared/x"];
    project.run(write).succeeds();
    assert_eq!(project.read(format!("{PLACE}/shared/x")), "shared\n");
    let policy = format!("{PLACE}/trusted/sandbox.toml");
    let wider = project.read(&policy).replace("/shared", "/layers");
    project.write(&policy, wider);
    project.run(["true"]).code(125);
}

#[test]
fn quarantine_of_the_release_stays() {
    let release = Release::unpack();
    let project = release.project("planted");
    project.run(["git", "status", "--short"]).succeeds();
    let held = format!("{PLACE}/home/.local/state/agent-sandbox/quarantine");
    let run = fs::read_dir(held).unwrap().flatten().next().unwrap().path();
    assert!(run.join("1/config").is_file() && run.join("2/pre-commit").is_file());
}

#[test]
fn a_session_of_the_release_comes_up_again_with_its_layer() {
    let release = Release::unpack();
    let project = release.project("kept");
    project.run(["diff", "-s", "kept", "--name-only"]).succeeds().stdout(WORK);
    project.run(["up", "--cow", "--name", "kept"]).succeeds();
    project.run(["exec", "-s", "kept", "cat", "n"]).succeeds().stdout("new\n");
    project.run(["down", "kept"]).succeeds();
    there_and_back(&project, "kept");
    project.run(["rm", "kept"]).succeeds();
}

#[test]
fn a_supervisor_with_another_protocol_is_refused_with_a_hint_and_taken_down() {
    let world = World::new();
    world.run(["up"]).succeeds();
    let run = ["exec", "-s", "project", "true"];
    world.run(run).succeeds();
    let data = world.path("home/.local/share/agent-sandbox/up");
    let running = fs::read_dir(data).unwrap().flatten().map(|entry| entry.path());
    let protocol = running.map(|dir| dir.join("protocol")).find(|path| path.is_file()).unwrap();
    // 0.1.0 did not write a version.
    fs::remove_file(&protocol).unwrap();
    world.run(run).succeeds();
    fs::write(&protocol, "9").unwrap();
    world.run(run).code(125).stderr_contains("another version").stderr_contains("down project");
    world.run(["down"]).succeeds();
    world.run(["up"]).succeeds();
    world.run(run).succeeds();
    world.run(["down"]).succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn a_record_of_sessions_with_a_newer_schema_is_refused_and_left_as_it_is() {
    let release = Release::unpack();
    let project = release.project("kept");
    let database = format!("{PLACE}/home/.local/share/agent-sandbox/sessions.db");
    let sqlite = need("sqlite3").display().to_string();
    project.host([&sqlite, &database, "PRAGMA user_version = 99"]).succeeds();
    let before = fs::read(&database).unwrap();
    for words in [&["ps"][..], &["up", "--name", "kept"], &["down", "kept"], &["prune", "--yes"]] {
        project.run(words).fails().stderr_contains("99");
    }
    assert_eq!(fs::read(&database).unwrap(), before);
}
