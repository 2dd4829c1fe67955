//! Other sandboxes, where they are installed: on the search path, or in the folders that
//! `BENCH_PEERS` names, separated by colons.

use std::path::PathBuf;

use sandbox_policy::Host;

use crate::stage::Stage;
use crate::subject::Subject;

/// Name, program, and what stands before the command.
const PEERS: [(&str, &str, &[&str]); 6] = [
    ("nono wrap", "nono", &["wrap", "--silent", "--allow-cwd", "--"]),
    ("nono run", "nono", &["run", "--silent", "--allow-cwd", "--"]),
    ("firejail, no profile, no network", "firejail", &["--quiet", "--noprofile", "--net=none"]),
    ("firejail, default profile", "firejail", &["--quiet"]),
    ("codex sandbox", "codex", &["sandbox", "--"]),
    ("srt", "srt", &[]),
];

/// The peers that are here, each up to its command.
pub(crate) fn found(stage: &Stage) -> Vec<Subject> {
    let dirs = dirs();
    let find = |program: &str| dirs.iter().map(|dir| dir.join(program)).find(|path| path.is_file());
    let subject = |(name, program, words): &(&str, &str, &[&str])| {
        Some(stage.subject(name).words([find(program)?]).words(*words))
    };
    PEERS.iter().filter_map(subject).collect()
}

fn dirs() -> Vec<PathBuf> {
    let host = Host::read();
    let named = host.var("BENCH_PEERS").map(std::env::split_paths);
    named.into_iter().flatten().chain(host.search_path()).collect()
}
