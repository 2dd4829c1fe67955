//! `bench sessions`: what a session costs, against the same thing by hand.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::Host;
use testkit::{Docker, World, need};

use crate::BenchError;
use crate::rounds::{Order, SEED, Times};
use crate::subject::Subject;

/// Something that is measured, and what clears up after it, which is not.
struct Pair {
    measured: Subject,
    after: Option<Subject>,
}

/// Measures everything and prints it.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let host = Host::read();
    let folder = host.var("AGENT_SANDBOX_STATIC").map(PathBuf::from).ok_or(BenchError::NoBinary)?;
    let binary = folder.join("agent-sandbox").canonicalize()?;
    let docker = Docker::new();
    let image = docker.busybox();
    let world = World::with_binary(&binary);
    let text = format!("image = '{image}'\n");
    let world =
        world.file("project/sandbox.toml", text).file("local/sandbox.toml", "network = false\n");
    chown(world.path("project"), Some(1000), Some(1000))?;
    println!("{rounds} interleaved rounds, seed {SEED:#x}; minima in milliseconds\n");
    containers(&host, &world, &binary, image, rounds)?;
    entering(&host, &world, &binary, image, rounds)?;
    local(&host, &world, &binary, rounds)
}

fn subject(host: &Host, world: &World, dir: &str, name: &str) -> Subject {
    let mut env: BTreeMap<OsString, OsString> = host.env.clone();
    env.insert("HOME".into(), world.path("home").into());
    env.insert("AGENT_SANDBOX_TRUST".into(), "1".into());
    Subject::new(name, &world.path(dir), &env)
}

/// `up` against `docker run` of the same image.
fn containers(
    host: &Host,
    world: &World,
    binary: &Path,
    image: &str,
    rounds: usize,
) -> Result<(), BenchError> {
    let of = |name: &str| subject(host, world, "project", name);
    let mount = format!("{}:/workspace", world.path("project").display());
    let by_hand =
        ["docker", "run", "--detach", "--name", "as-bench", "--network", "none", "--read-only"];
    let by_hand = by_hand.into_iter().chain([
        "--cap-drop",
        "ALL",
        "--volume",
        &mount,
        image,
        "sleep",
        "1000",
    ]);
    let pairs = [
        Pair {
            measured: of("docker run").words(by_hand),
            after: Some(of("docker rm").words(["docker", "rm", "--force", "as-bench"])),
        },
        Pair {
            measured: of("up").words([binary.as_os_str()]).words(["up", "--name", "bench"]),
            after: Some(of("down").words([binary.as_os_str()]).words(["down", "bench"])),
        },
    ];
    let times = measure(&pairs, rounds)?;
    compare("up, against `docker run`", &times, 1.15);
    Ok(())
}

/// `exec` against `docker exec`, in containers that stay.
fn entering(
    host: &Host,
    world: &World,
    binary: &Path,
    image: &str,
    rounds: usize,
) -> Result<(), BenchError> {
    let of = |name: &str| subject(host, world, "project", name);
    let begin = [
        "docker",
        "run",
        "--detach",
        "--name",
        "as-bench",
        "--network",
        "none",
        image,
        "sleep",
        "1000",
    ];
    of("docker run").words(begin).works()?;
    of("up").words([binary.as_os_str()]).words(["up", "--name", "bench"]).works()?;
    let enter = ["docker", "exec", "--user", "1000", "as-bench", "true"];
    let ours = ["exec", "-s", "bench", "true"];
    let pairs = [
        Pair { measured: of("docker exec").words(enter), after: None },
        Pair { measured: of("exec").words([binary.as_os_str()]).words(ours), after: None },
    ];
    let times = measure(&pairs, rounds);
    of("docker rm").words(["docker", "rm", "--force", "as-bench"]).works()?;
    of("rm").words([binary.as_os_str()]).words(["rm", "bench"]).works()?;
    compare("exec, against `docker exec`", &times?, 1.1);
    Ok(())
}

/// `up` on the local backend against bubblewrap itself.
fn local(host: &Host, world: &World, binary: &Path, rounds: usize) -> Result<(), BenchError> {
    let of = |name: &str| subject(host, world, "local", name);
    let bwrap = need("bwrap");
    let bare = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true"];
    let pairs = [
        Pair { measured: of("bwrap").words([bwrap.as_os_str()]).words(bare), after: None },
        Pair {
            measured: of("up").words([binary.as_os_str()]).words(["up", "--name", "local"]),
            after: Some(of("down").words([binary.as_os_str()]).words(["down", "local"])),
        },
    ];
    let times = measure(&pairs, rounds)?;
    println!(
        "{:44} {:8.1} and {:.1}: {:.1} more",
        "up, local, and bare bwrap",
        times[1].min(),
        times[0].min(),
        times[1].min() - times[0].min()
    );
    of("rm").words([binary.as_os_str()]).words(["rm", "local"]).works()
}

/// Each once per round, in a new order each time; the first round is not counted.
fn measure(pairs: &[Pair], rounds: usize) -> Result<Vec<Times>, BenchError> {
    let mut order = Order::new();
    let mut runs: Vec<Vec<Duration>> = vec![Vec::new(); pairs.len()];
    for round in 0..=rounds {
        for index in order.shuffled(pairs.len()) {
            let mut ready = pairs[index].measured.ready()?;
            let before = Instant::now();
            let status = ready.command.status()?;
            let time = before.elapsed();
            if !status.success() {
                let name = pairs[index].measured.name.clone();
                return Err(BenchError::Fails(name, status.to_string()));
            }
            if round > 0 {
                runs[index].push(time);
            }
            pairs[index].after.as_ref().map_or(Ok(()), Subject::works)?;
        }
    }
    Ok(runs.into_iter().map(Times::of).collect())
}

fn compare(what: &str, times: &[Times], most: f64) {
    let (theirs, ours) = (times[0].min(), times[1].min());
    let ratio = ours / theirs;
    let verdict = if ratio <= most { "met" } else { "MISSED" };
    println!("{what:44} {ours:8.1} and {theirs:.1}: {ratio:.2}, at most {most}: {verdict}");
}
