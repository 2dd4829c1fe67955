//! `bench sessions`: time of session commands, compared with the equivalent `docker` and `bwrap` commands.

mod api;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_policy::Host;
use testkit::{Docker, World, need};

use crate::BenchError;
use crate::rounds::{Order, SEED, Times};
use crate::subject::Subject;

/// Measured command, and an unmeasured cleanup command.
struct Pair {
    measured: Subject,
    after: Option<Subject>,
}

/// Fixture of all measurements.
struct Fixture {
    host: Host,
    world: World,
    binary: PathBuf,
    image: &'static str,
    rounds: usize,
}

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let fixture = Fixture::new(rounds)?;
    println!("{rounds} interleaved rounds, seed {SEED:#x}; minima in milliseconds\n");
    fixture.containers()?;
    fixture.exec()?;
    fixture.local()?;
    api::run(&fixture)
}

impl Fixture {
    fn new(rounds: usize) -> Result<Self, BenchError> {
        let host = Host::read();
        let folder = host.var("AGENT_SANDBOX_STATIC").map(PathBuf::from);
        let binary = folder.ok_or(BenchError::NoBinary)?.join("agent-sandbox").canonicalize()?;
        let image = Docker::new().busybox();
        let world = World::with_binary(&binary)
            .file("project/sandbox.toml", format!("image = '{image}'\n"))
            .file("local/sandbox.toml", "network = false\n");
        chown(world.path("project"), Some(1000), Some(1000))?;
        Ok(Self { host, world, binary, image, rounds })
    }

    /// Returns an empty command line in one of the two projects.
    fn subject(&self, dir: &str, name: &str) -> Subject {
        let mut env: BTreeMap<OsString, OsString> = self.host.env.clone();
        env.insert("HOME".into(), self.world.path("home").into());
        env.insert("AGENT_SANDBOX_TRUST".into(), "1".into());
        Subject::new(name, &self.world.path(dir), &env)
    }

    /// Returns an `agent-sandbox` command.
    fn ours<const N: usize>(&self, dir: &str, words: [&str; N]) -> Subject {
        self.subject(dir, words[0]).words([self.binary.as_os_str()]).words(words)
    }

    /// Returns a `docker run` command with these flags.
    fn docker_run(&self, flags: &[&str]) -> Subject {
        let run = ["docker", "run", "--detach", "--name", "as-bench", "--network", "none"];
        let run = self.subject("project", "docker run").words(run).words(flags);
        run.words([self.image, "sleep", "1000"])
    }

    fn docker_rm(&self) -> Subject {
        self.subject("project", "docker rm").words(["docker", "rm", "--force", "as-bench"])
    }

    /// Compares `up` with `docker run` of the same image.
    fn containers(&self) -> Result<(), BenchError> {
        let mount = format!("{}:/workspace", self.world.path("project").display());
        let flags = ["--read-only", "--cap-drop", "ALL", "--volume", &mount];
        let pairs = [
            Pair { measured: self.docker_run(&flags), after: Some(self.docker_rm()) },
            Pair {
                measured: self.ours("project", ["up", "--name", "bench"]),
                after: Some(self.ours("project", ["down", "bench"])),
            },
        ];
        compare("up / `docker run`", &measure(&pairs, self.rounds)?, 1.15);
        Ok(())
    }

    /// Compares `exec` with `docker exec`, in running containers.
    fn exec(&self) -> Result<(), BenchError> {
        self.docker_run(&[]).works()?;
        self.ours("project", ["up", "--name", "bench"]).works()?;
        let enter = ["docker", "exec", "--user", "1000", "as-bench", "true"];
        let pairs = [
            Pair { measured: self.subject("project", "docker exec").words(enter), after: None },
            Pair { measured: self.ours("project", ["exec", "-s", "bench", "true"]), after: None },
        ];
        let times = measure(&pairs, self.rounds);
        self.docker_rm().works()?;
        self.ours("project", ["rm", "bench"]).works()?;
        compare("exec / `docker exec`", &times?, 1.1);
        Ok(())
    }

    /// Compares `up` on the local backend with bubblewrap.
    fn local(&self) -> Result<(), BenchError> {
        let bwrap = need("bwrap");
        let bare =
            ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true"];
        let pairs = [
            Pair {
                measured: self.subject("local", "bwrap").words([bwrap.as_os_str()]).words(bare),
                after: None,
            },
            Pair {
                measured: self.ours("local", ["up", "--name", "local"]),
                after: Some(self.ours("local", ["down", "local"])),
            },
        ];
        let times = measure(&pairs, self.rounds)?;
        println!(
            "{:44} {:8.1} and {:.1}: {:.1} more",
            "up, local, and bare bwrap",
            times[1].min(),
            times[0].min(),
            times[1].min() - times[0].min()
        );
        self.ours("local", ["rm", "local"]).works()
    }
}

/// Runs all pairs once in each round, in random order. The first round does not count.
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
