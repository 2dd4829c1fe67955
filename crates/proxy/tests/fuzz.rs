//! Short, deterministic version of `cargo fuzz run request` and `response`. It uses the same targets and seeds and a
//! mutator without coverage feedback. It runs for five seconds per target, and for a minute in `./dev soak`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, also in helpers")]

#[allow(unreachable_pub, reason = "the fuzz crate exports it")]
#[path = "../../../fuzz/src/request.rs"]
mod request;
#[allow(unreachable_pub, reason = "the fuzz crate exports it")]
#[path = "../../../fuzz/src/response.rs"]
mod response;
#[path = "../../sandbox/tests/fuzz/mutate.rs"]
mod mutate;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mutate::Mutator;

/// Runs a target with its seeds and with mutations of them.
fn feed(name: &str, target: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for seed in &seeds {
        target(seed);
    }
    let end = Instant::now() + Duration::from_secs(testkit::rounds(5, 60) as u64);
    let (mut mutator, mut inputs) = (Mutator::new(seeds), 0);
    while Instant::now() < end {
        let input = mutator.next();
        let held = std::panic::catch_unwind(|| target(&input)).is_ok();
        assert!(held, "fails on input b\"{}\"", input.escape_ascii());
        inputs += 1;
    }
    assert!(inputs > 1000, "only {inputs} inputs");
}

#[test]
fn request_is_unambiguous_and_has_no_other_credential() {
    feed("request", request::request);
}

#[test]
fn response_does_not_depend_on_how_it_is_split() {
    feed("response", response::response);
}
