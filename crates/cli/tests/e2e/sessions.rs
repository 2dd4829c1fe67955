//! Running sessions: one sandbox for many commands.

mod life;
mod again;
mod which;
mod inherited;
#[cfg(feature = "setup")]
mod trusted;
mod exec;
mod terminal;
#[cfg(feature = "setup")]
mod crash;
#[cfg(feature = "setup")]
mod api;
#[cfg(feature = "setup")]
mod review;
#[cfg(feature = "setup")]
mod limits;
mod many;

use std::time::{Duration, Instant};

use testkit::World;

/// Directory of a world's sessions.
const DATA: &str = "home/.local/share/agent-sandbox";

/// Session that is stopped with the test, even if that fails.
struct Up<'w>(&'w World);

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(["down", "--all"]);
    }
}

/// Starts the session of the project.
#[track_caller]
fn up<'w>(world: &'w World, flags: &[&str]) -> Up<'w> {
    let guard = Up(world);
    world.run(flags.iter().copied().chain(["up"])).succeeds();
    guard
}

/// Returns the arguments that run a script in the project's session.
fn inside(script: &str) -> [&str; 6] {
    ["exec", "-s", "project", "sh", "-c", script]
}

/// Returns a value that `inspect --json` prints.
#[track_caller]
fn told(world: &World, key: &str) -> String {
    let text = world.run(["inspect", "project", "--json"]).succeeds().output();
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("\"{key}\":")));
    let line = line.unwrap_or_else(|| panic!("no `{key}` in {text}"));
    let value = line.split_once(": ").map_or("", |(_, value)| value);
    value.trim_end_matches(',').trim_matches('"').to_owned()
}

/// Returns the supervisor of the project's session.
#[track_caller]
fn supervisor(world: &World) -> String {
    let handle = told(world, "handle");
    handle.strip_prefix("process ").unwrap_or_else(|| panic!("no process, but {handle}")).to_owned()
}

/// Waits until a condition is true.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns remains of sessions in a world: processes that name it, and files below its data directory.
#[track_caller]
fn left_behind(world: &World) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    for place in ["up", "logs"] {
        let dir = world.path(DATA).join(place);
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        left.extend(entries.flatten().map(|entry| entry.path().display().to_string()));
    }
    let mine = world.path("").display().to_string();
    for entry in std::fs::read_dir("/proc").expect("there is a /proc").flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_mine = String::from_utf8_lossy(&environment).contains(&format!("HOME={mine}"));
        if is_mine && line.contains("agent-sandbox") {
            left.push(format!("{}: {line}", entry.path().display()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("there are mounts");
    left.extend(mounts.lines().filter(|line| line.contains(&mine)).map(ToOwned::to_owned));
    left
}
