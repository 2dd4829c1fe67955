//! A short, deterministic stand-in for `cargo fuzz run request` and `response`: the same targets and seeds, a mutator without
//! feedback, five seconds each, and a minute in `./dev soak`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[allow(unreachable_pub, reason = "there it is a crate of its own")]
#[path = "../../../fuzz/src/request.rs"]
mod request;
#[allow(unreachable_pub, reason = "there it is a crate of its own")]
#[path = "../../../fuzz/src/response.rs"]
mod response;
#[path = "../../sandbox/tests/fuzz/mutate.rs"]
mod mutate;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mutate::Mutator;

/// Feeds a target with its seeds and with what can be made of them.
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
        assert!(held, "it fails on b\"{}\"", input.escape_ascii());
        inputs += 1;
    }
    assert!(inputs > 1000, "too few inputs to mean anything");
}

#[test]
fn request_means_one_thing_and_carries_no_other_credential() {
    feed("request", request::request);
}

#[test]
fn response_is_read_in_one_way_however_it_is_cut() {
    feed("response", response::response);
}
