//! `bench startup`: what it costs to begin, and to wait.

use crate::BenchError;
use crate::memory;
use crate::own_part;
use crate::peers;
use crate::rounds::{self, SEED, Times};
use crate::stage::Stage;
use crate::subject::Subject;
use crate::wrapped;

const BARE: &str = "bare exec";
const SIX: &str = "bwrap, 6 binds";
const SAME: &str = "bwrap, our arguments";
const OURS: &str = "ours, default policy";
const PLAIN: &str = "ours, mounts by bwrap";
const SAME_100: &str = "bwrap, our arguments, 100 rules";
const OURS_100: &str = "ours, 100 rules";

/// Measures everything and prints it.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let stage = Stage::new()?;
    let mut subjects = subjects(&stage)?;
    // The first run of a tree looks for repositories; the ones after it know them.
    subjects.iter().try_for_each(Subject::works)?;
    let mut peers = peers::found(&stage);
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
    print_own_part(&stage, rounds)?;
    print_memory(&stage, &peers)?;
    print_wrapped(&stage, rounds)?;
    print_targets(&subjects, &times);
    Ok(())
}

fn subjects(stage: &Stage) -> Result<Vec<Subject>, BenchError> {
    let ours = |name, rules| stage.ours(name).words(stage.with_rules(rules)).words(["true"]);
    Ok(vec![
        stage.subject(BARE).words(["true"]),
        six_binds(stage)?.words(["true"]),
        stage.bwrap_like_ours(SAME, 0)?,
        stage.ours(OURS).words(["true"]),
        stage.ours(PLAIN).words(["true"]).env("AGENT_SANDBOX_MOUNTS", "bwrap"),
        ours("ours, 10 rules", 10),
        ours(OURS_100, 100),
        ours("ours, 500 rules", 500),
        stage.bwrap_like_ours(SAME_100, 100)?,
    ])
}

/// What somebody who writes the line by hand would bind.
fn six_binds(stage: &Stage) -> Result<Subject, BenchError> {
    let mut six = stage.subject(SIX).words([stage.bwrap()?]);
    six = six.words(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for (flag, path) in [
        ("--ro-bind", "home"),
        ("--bind", "home/project"),
        ("--bind", "home/.cache"),
        ("--ro-bind", "home/project/.git/hooks"),
        ("--ro-bind", "home/project/.git/config"),
    ] {
        six = six.words([flag]).words([stage.path(path), stage.path(path)]);
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

fn print_own_part(stage: &Stage, rounds: usize) -> Result<(), BenchError> {
    println!("\nfrom request to plan, in process\n");
    println!("{:36} {:>8} {:>9} {:>12}", "", "min ms", "median ms", "µs per rule");
    let measured = own_part::measure(stage, rounds)?;
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

fn print_wrapped(stage: &Stage, rounds: usize) -> Result<(), BenchError> {
    let (wrapped, bare) = wrapped::measure(stage, rounds)?;
    println!("\n`git --version` inside: wrapped {wrapped:.2} ms, bare {bare:.2} ms");
    verdict("wrapped git, more than bare", wrapped - bare, 3.0, "ms");
    Ok(())
}

fn print_memory(stage: &Stage, peers: &[Subject]) -> Result<(), BenchError> {
    println!("\nbeside a sleeping command\n");
    println!("{:36} {:>8} {:>8}  processes", "", "RSS MB", "PSS MB");
    let own = stage.ours(OURS);
    let mut ours = f64::NAN;
    for subject in [&six_binds(stage)?, &own].into_iter().chain(peers) {
        let beside = match memory::measure(&subject.clone().words(memory::COMMAND)) {
            Err(error @ BenchError::Read(..)) => {
                println!("{:36} {error}", subject.name);
                continue;
            }
            measured => measured?,
        };
        let (rss, pss) = (beside.rss / 1024.0, beside.pss / 1024.0);
        println!("{:36} {rss:8.1} {pss:8.1}  {}", subject.name, beside.names.join(" "));
        if subject.name == own.name {
            ours = rss;
        }
    }
    println!();
    verdict("memory beside the command", ours, 6.0, "MB");
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
