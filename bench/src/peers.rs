//! Other sandboxes, if they are in `PATH` or in the directories in `BENCH_PEERS`, separated by colons.

use std::path::PathBuf;

use sandbox_policy::Host;

use crate::fixture::Fixture;
use crate::subject::Subject;

/// Name, program, and arguments before the command.
const PEERS: [(&str, &str, &[&str]); 6] = [
    ("nono wrap", "nono", &["wrap", "--silent", "--allow-cwd", "--"]),
    ("nono run", "nono", &["run", "--silent", "--allow-cwd", "--"]),
    ("firejail, no profile, no network", "firejail", &["--quiet", "--noprofile", "--net=none"]),
    ("firejail, default profile", "firejail", &["--quiet"]),
    ("codex sandbox", "codex", &["sandbox", "--"]),
    ("srt", "srt", &[]),
];

/// Returns the installed peers, without a command.
pub(crate) fn found(fixture: &Fixture) -> Vec<Subject> {
    let dirs = dirs();
    let find = |program: &str| dirs.iter().map(|dir| dir.join(program)).find(|path| path.is_file());
    let subject = |(name, program, words): &(&str, &str, &[&str])| {
        Some(fixture.subject(name).words([find(program)?]).words(*words))
    };
    PEERS.iter().filter_map(subject).collect()
}

fn dirs() -> Vec<PathBuf> {
    let host = Host::read();
    let named = host.var("BENCH_PEERS").map(std::env::split_paths);
    named.into_iter().flatten().chain(host.search_path()).collect()
}
