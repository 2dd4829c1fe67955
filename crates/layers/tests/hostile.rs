//! Short, deterministic variant of `cargo fuzz run database`: same target, inputs without feedback, five seconds, two
//! minutes in `./dev soak`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[allow(unreachable_pub, reason = "there it is a crate of its own")]
#[path = "../../../fuzz/src/database.rs"]
mod target;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Memory limit, above the need of any input.
const MEMORY: u64 = 2 << 30;
const TIME: Duration = Duration::from_secs(30);

/// Pseudo-random numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn input(&mut self) -> Vec<u8> {
        (0..6 + self.number() % 40).flat_map(|_| self.number().to_le_bytes()).collect()
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[test]
fn hostile_databases_give_errors_and_nothing_worse() {
    setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: None }).unwrap();
    let (give, take) = mpsc::channel::<Vec<u8>>();
    let (report, reports) = mpsc::channel();
    std::thread::spawn(move || {
        for input in take {
            let held = std::panic::catch_unwind(|| target::database(&input)).is_ok();
            report.send(held).unwrap();
        }
    });
    let end = Instant::now() + Duration::from_secs(testkit::rounds(5, 120) as u64);
    let (mut dice, mut inputs, mut slowest) = (Dice(1), 0, Duration::ZERO);
    while Instant::now() < end {
        let input = dice.input();
        let before = Instant::now();
        give.send(input.clone()).unwrap();
        match reports.recv_timeout(TIME) {
            Ok(true) => slowest = slowest.max(before.elapsed()),
            Ok(false) => panic!("it panics on {input:?}"),
            Err(mpsc::RecvTimeoutError::Timeout | mpsc::RecvTimeoutError::Disconnected) => {
                panic!("no end after {TIME:?} on {input:?}")
            }
        }
        inputs += 1;
    }
    assert!(inputs > 100, "too few to mean anything: {inputs}, the slowest took {slowest:?}");
}
