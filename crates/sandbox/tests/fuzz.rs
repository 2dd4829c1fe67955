//! Short, deterministic substitute for `cargo fuzz`, which needs a nightly toolchain. It has the same targets and seeds,
//! and a mutator without feedback. Each target runs for five seconds, and for a minute in `./dev soak`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[allow(unreachable_pub, reason = "it is a separate crate there")]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;
#[path = "fuzz/mutate.rs"]
mod mutate;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mutate::Mutator;
use sandbox_git::protect::config;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Feeds mutated seeds until the time is over, and returns their number. A failure shows the input.
fn feed(target: &str, mut take: impl FnMut(&[u8])) -> u64 {
    let end = Instant::now() + Duration::from_secs(testkit::rounds(5, 60) as u64);
    let mut mutator = Mutator::new(seeds(target));
    let mut inputs = 0;
    while Instant::now() < end {
        let input = mutator.next();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take(&input)));
        assert!(result.is_ok(), "{target} fails on b\"{}\"", input.escape_ascii());
        inputs += 1;
    }
    inputs
}

fn run(name: &str) {
    let (_, target) = targets::TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    for seed in seeds(name) {
        target(&seed);
    }
    assert!(feed(name, target) > 1000, "too few inputs for {name}");
}

#[test]
fn config_json_never_panics() {
    run("config_json");
}

#[test]
fn config_toml_never_panics() {
    run("config_toml");
}

#[test]
fn project_file_never_widens_when_it_is_not_trusted() {
    run("project_file");
}

#[test]
fn git_judge_has_a_verdict_for_any_call() {
    run("git_judge");
}

#[test]
fn git_config_never_panics() {
    run("git_config");
}

#[test]
fn pattern_is_absolute_for_any_text() {
    run("pattern");
}

#[test]
fn network_names_one_host_for_any_bytes() {
    run("network");
}

#[test]
fn host_command_passes_only_what_the_list_begins_with() {
    run("host_command");
}

/// The parser must read every file that git reads, in the same way. Otherwise an odd spelling could hide a setting that
/// git applies.
#[test]
fn git_config_reads_what_git_reads() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    feed("git_config", |input| {
        fs::write(&file, input).unwrap();
        let output = Command::new("git")
            .args(["config", "--null", "--list", "--no-includes", "--file"])
            .arg(&file)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        if output.status.success() {
            let vars = config::parse(input).unwrap_or_else(|error| panic!("git reads it: {error}"));
            let ours: Vec<u8> = vars.iter().flat_map(listed).collect();
            assert_eq!(ours.escape_ascii().to_string(), output.stdout.escape_ascii().to_string());
        }
    });
}

/// Formats a variable like `git config --null --list`.
fn listed(var: &config::Var) -> Vec<u8> {
    let mut line = var.section.clone().into_bytes();
    if let Some(subsection) = &var.subsection {
        line.push(b'.');
        line.extend(subsection);
    }
    if !line.is_empty() {
        line.push(b'.');
    }
    line.extend(var.key.as_bytes());
    if let Some(value) = &var.value {
        line.push(b'\n');
        line.extend(value);
    }
    line.push(0);
    line
}
