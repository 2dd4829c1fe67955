//! `bench startup`: start-up time and memory of a sandbox.

use crate::BenchError;
use crate::fixture::Fixture;
use crate::memory;
use crate::own_part;
use crate::peers;
use crate::rounds::{self, SEED, Times};
use crate::subject::Subject;
use crate::wrapped;

const BARE: &str = "bare exec";
const SIX: &str = "bwrap, 6 binds";
const SAME: &str = "bwrap, our arguments";
const OURS: &str = "ours, default policy";
const PLAIN: &str = "ours, mounts by bwrap";
const SAME_100: &str = "bwrap, our arguments, 100 rules";
const OURS_100: &str = "ours, 100 rules";

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let fixture = Fixture::new()?;
    let mut subjects = subjects(&fixture)?;
    // The first run searches the tree for repositories. Later runs use the result.
    subjects.iter().try_for_each(Subject::works)?;
    let mut peers = peers::found(&fixture);
    peers.retain(|peer| match peer.clone().words(["true"]).works() {
        Ok(()) => true,
        Err(error) => {
            println!("left out: {error}");
            false
        }
    });
    subjects.extend(peers.iter().map(|peer| peer.clone().words(["true"])));
    println!("start and end of `true`; {rounds} interleaved rounds, seed {SEED:#x}\n");
    let times = rounds::run(&subjects, rounds)?;
    print_times(&subjects, &times);
    print_own_part(&fixture, rounds)?;
    print_memory(&fixture, &peers)?;
    print_wrapped(&fixture, rounds)?;
    print_targets(&subjects, &times);
    Ok(())
}

fn subjects(fixture: &Fixture) -> Result<Vec<Subject>, BenchError> {
    let ours = |name, rules| fixture.ours(name).words(fixture.with_rules(rules)).words(["true"]);
    Ok(vec![
        fixture.subject(BARE).words(["true"]),
        six_binds(fixture)?.words(["true"]),
        fixture.bwrap_like_ours(SAME, 0)?,
        fixture.ours(OURS).words(["true"]),
        fixture.ours(PLAIN).words(["true"]).env("AGENT_SANDBOX_MOUNTS", "bwrap"),
        ours("ours, 10 rules", 10),
        ours(OURS_100, 100),
        ours("ours, 500 rules", 500),
        fixture.bwrap_like_ours(SAME_100, 100)?,
    ])
}

/// Returns a bubblewrap command with the binds of a typical handwritten one.
fn six_binds(fixture: &Fixture) -> Result<Subject, BenchError> {
    let mut six = fixture.subject(SIX).words([fixture.bwrap()?]);
    six = six.words(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for (flag, path) in [
        ("--ro-bind", "home"),
        ("--bind", "home/project"),
        ("--bind", "home/.cache"),
        ("--ro-bind", "home/project/.git/hooks"),
        ("--ro-bind", "home/project/.git/config"),
    ] {
        six = six.words([flag]).words([fixture.path(path), fixture.path(path)]);
    }
    Ok(six.words(["--unshare-all", "--share-net", "--die-with-parent"]))
}

fn minimum(subjects: &[Subject], times: &[Times], name: &str) -> f64 {
    let index = subjects.iter().position(|subject| subject.name == name);
    index.map_or(f64::NAN, |index| times[index].min())
}

fn print_times(subjects: &[Subject], times: &[Times]) {
    let six = minimum(subjects, times, SIX);
    println!("{:36} {:>8} {:>9} {:>12}", "", "min ms", "median ms", "/ 6 binds");
    for (subject, times) in subjects.iter().zip(times) {
        let (min, median) = (times.min(), times.median());
        println!("{:36} {min:8.2} {median:9.2} {:12.2}", subject.name, min / six);
    }
}

fn print_own_part(fixture: &Fixture, rounds: usize) -> Result<(), BenchError> {
    println!("\nfrom request to plan, in process\n");
    println!("{:36} {:>8} {:>9} {:>12}", "", "min ms", "median ms", "µs per rule");
    let measured = own_part::measure(fixture, rounds)?;
    let none = measured.first().map_or(f64::NAN, |(_, times)| times.min());
    for (rules, times) in &measured {
        let (min, median) = (times.min(), times.median());
        let more = u32::try_from(*rules)
            .map_or(f64::NAN, |rules| 1000.0 * (min - none) / f64::from(rules));
        let more = if *rules == 0 { "-".to_owned() } else { format!("{more:.1}") };
        println!("{:36} {min:8.2} {median:9.2} {more:>12}", format!("{rules} rules"));
    }
    Ok(())
}

fn print_wrapped(fixture: &Fixture, rounds: usize) -> Result<(), BenchError> {
    let (wrapped, bare) = wrapped::measure(fixture, rounds)?;
    println!("\n`git --version` inside: wrapped {wrapped:.2} ms, bare {bare:.2} ms");
    verdict("wrapped git, more than bare", wrapped - bare, 3.0, "ms");
    Ok(())
}

fn print_memory(fixture: &Fixture, peers: &[Subject]) -> Result<(), BenchError> {
    println!("\nhelper processes of a sleeping command\n");
    println!("{:36} {:>8} {:>8}  processes", "", "RSS MB", "PSS MB");
    let own = fixture.ours(OURS);
    let mut ours = f64::NAN;
    for subject in [&six_binds(fixture)?, &own].into_iter().chain(peers) {
        let helpers = match memory::measure(&subject.clone().words(memory::COMMAND)) {
            Err(error @ BenchError::Read(..)) => {
                println!("{:36} {error}", subject.name);
                continue;
            }
            measured => measured?,
        };
        let (rss, pss) = (helpers.rss / 1024.0, helpers.pss / 1024.0);
        println!("{:36} {rss:8.1} {pss:8.1}  {}", subject.name, helpers.names.join(" "));
        if subject.name == own.name {
            ours = rss;
        }
    }
    println!();
    verdict("memory of helper processes", ours, 6.0, "MB");
    Ok(())
}

fn print_targets(subjects: &[Subject], times: &[Times]) {
    let min = |name| minimum(subjects, times, name);
    verdict("default policy / bwrap, our arguments", min(OURS) / min(SAME), 1.25, "");
    verdict("default policy / bwrap, 6 binds", min(OURS) / min(SIX), 1.4, "");
    verdict("100 rules / bwrap, our arguments", min(OURS_100) / min(SAME_100), 0.5, "");
}

fn verdict(what: &str, value: f64, limit: f64, unit: &str) {
    let held = if value <= limit { "met" } else { "MISSED" };
    println!("{what:44} {value:6.2} {unit:2} (at most {limit}) {held}");
}
