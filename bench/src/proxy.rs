//! `bench proxy`: cost of the credential proxy, compared with a direct connection and with nginx.

mod upstream;
mod subject;
mod load;

use std::time::Duration;

use crate::BenchError;
use crate::rounds::{Order, SEED};
use load::{Counted, Figures};
use subject::Subject;
use upstream::Upstream;

/// Duration of the load on each subject in a round.
const SPAN: Duration = Duration::from_millis(1500);
/// Numbers of concurrent connections.
const LEVELS: [usize; 3] = [1, 16, 64];
/// Number of open streams for the memory measurement.
const HELD: usize = 1000;

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    load::raise_descriptors();
    let upstream = Upstream::start()?;
    let subjects = subject::available(&upstream)?;
    println!("{rounds} interleaved rounds of {SPAN:?}, seed {SEED:#x}; the best round of each\n");
    let json = LEVELS
        .map(|level| measure(&subjects, rounds, |subject| load::requests(subject, level, SPAN)));
    print_requests(&subjects, &json);
    let streams = [1, 16]
        .map(|level| measure(&subjects, rounds, |subject| load::streams(subject, level, SPAN)));
    print_streams(&subjects, &streams);
    let delays = measure(&subjects, rounds, |subject| load::delays(subject, 400));
    print_delays(&subjects, &delays);
    let memory = print_memory(&subjects)?;
    println!();
    print_targets(&subjects, &json, &delays, memory);
    Ok(())
}

/// Measures all subjects in each round, in random order. Returns the best round of each.
fn measure(
    subjects: &[Subject],
    rounds: usize,
    take: impl Fn(&Subject) -> Figures,
) -> Vec<Figures> {
    let mut order = Order::new();
    let mut best: Vec<Option<Figures>> = vec![None; subjects.len()];
    for _ in 0..rounds {
        for index in order.shuffled(subjects.len()) {
            let figures = take(&subjects[index]);
            best[index] = Some(match best[index] {
                Some(before) => before.best(figures),
                None => figures,
            });
        }
    }
    best.into_iter().flatten().collect()
}

fn print_requests(subjects: &[Subject], levels: &[Vec<Figures>]) {
    println!("small JSON");
    println!(
        "{:14} {:>5} {:>9} {:>8} {:>8} {:>8} {:>9}",
        "", "conns", "req/s", "p50 µs", "p99 µs", "CPU µs", "new conns"
    );
    for (level, figures) in LEVELS.iter().zip(levels) {
        for (subject, figures) in subjects.iter().zip(figures) {
            let Figures { per_second, p50, p99, cpu, opened } = figures;
            println!(
                "{:14} {level:5} {per_second:9.0} {p50:8.1} {p99:8.1} {cpu:8.1} {opened:9.3}",
                subject.name
            );
        }
    }
}

fn print_streams(subjects: &[Subject], levels: &[Vec<Figures>]) {
    println!("\nstreams of 200 events");
    println!("{:14} {:>5} {:>9} {:>8} {:>8}", "", "conns", "str/s", "p50 µs", "CPU µs");
    for (level, figures) in [1, 16].iter().zip(levels) {
        for (subject, figures) in subjects.iter().zip(figures) {
            println!(
                "{:14} {level:5} {:9.0} {:8.0} {:8.1}",
                subject.name, figures.per_second, figures.p50, figures.cpu
            );
        }
    }
}

fn print_delays(subjects: &[Subject], delays: &[Figures]) {
    println!("\nfrom the server's write to the client's read, one event every 2 ms");
    for (subject, delay) in subjects.iter().zip(delays) {
        println!("{:14} p50 {:6.1} µs, p99 {:6.1} µs", subject.name, delay.p50, delay.p99);
    }
}

fn print_memory(subjects: &[Subject]) -> Result<f64, BenchError> {
    println!("\nresident memory, idle and with {HELD} open streams");
    let mut ours = f64::NAN;
    for subject in subjects.iter().filter(|subject| subject.is_proxy()) {
        let before = subject.memory();
        let held = load::hold(subject, HELD)?;
        let after = subject.memory();
        drop(held);
        println!("{:14} {before:6.1} MB → {after:6.1} MB", subject.name);
        if subject.name == subject::OURS {
            ours = after;
        }
    }
    Ok(ours)
}

fn print_targets(subjects: &[Subject], json: &[Vec<Figures>], delays: &[Figures], memory: f64) {
    let of = |figures: &[Figures], name: &str| {
        subjects.iter().position(|subject| subject.name == name).map(|index| figures[index])
    };
    for (level, figures) in LEVELS.iter().zip(json) {
        if let (Some(ours), Some(nginx)) = (of(figures, subject::OURS), of(figures, subject::NGINX))
        {
            let what = format!("nginx / ours, requests, {level} connections");
            verdict(&what, nginx.per_second / ours.per_second, 1.15, "");
        }
    }
    let over = |figures: &[Figures], take: fn(&Figures) -> f64| {
        of(figures, subject::OURS)
            .zip(of(figures, subject::DIRECT))
            .map_or(f64::NAN, |(ours, direct)| take(&ours) - take(&direct))
    };
    verdict("added to p50 at one connection", over(&json[0], |figures| figures.p50), 80.0, "µs");
    verdict("added to each event", over(delays, |figures| figures.p50), 60.0, "µs");
    verdict("memory with open streams", memory, 25.0, "MB");
    let opened = of(&json[2], subject::OURS).map_or(f64::NAN, |figures| figures.opened);
    verdict("connections opened for each request", opened, 0.01, "");
}

fn verdict(what: &str, value: f64, limit: f64, unit: &str) {
    let held = if value <= limit { "met" } else { "MISSED" };
    println!("{what:44} {value:6.2} {unit:2} (at most {limit}) {held}");
}

/// Returns the figures for a number of requests.
pub(crate) fn figures(mut counted: Counted, seconds: f64, cpu: f64, opened: usize) -> Figures {
    counted.times.sort_unstable();
    let at = |part: usize| {
        let index = (counted.times.len() * part / 100).min(counted.times.len().saturating_sub(1));
        counted.times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    };
    #[allow(clippy::cast_precision_loss, reason = "counts of seconds")]
    let count = counted.times.len() as f64;
    #[allow(clippy::cast_precision_loss, reason = "counts of seconds")]
    let opened = opened as f64;
    Figures {
        per_second: count / seconds,
        p50: at(50),
        p99: at(99),
        cpu: cpu * 1e6 / count,
        opened: opened / count,
    }
}
