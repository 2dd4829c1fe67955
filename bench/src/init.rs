//! `bench init`: cost of PID 1 in a container, compared with smaller programs that do less.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use sandbox_policy::Host;
use testkit::{Docker, World, need};

use crate::BenchError;
use crate::rounds::{self, SEED, Times};
use crate::subject::Subject;

const BARE: &str = "bare exec";
const SETPRIV: &str = "setpriv, the same rights";
const ENTRYPOINT: &str = "ours, entrypoint";
const INIT: &str = "ours, init, second start";
const ALONE: &str = "container, its program alone";
const WITH: &str = "container, our entrypoint";

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let host = Host::read();
    let folder = host.var("AGENT_SANDBOX_STATIC").map(PathBuf::from).ok_or(BenchError::NoBinary)?;
    let binary = folder.join("agent-sandbox-init").canonicalize()?;
    let namespace = Namespace::new(&binary)?;
    let subjects = subjects(&namespace);
    subjects.iter().try_for_each(Subject::works)?;
    println!(
        "start and end of `true` in one namespace; {rounds} interleaved rounds, seed {SEED:#x}\n"
    );
    let times = rounds::run(&subjects, rounds)?;
    print_times(&subjects, &times);
    let minimum = |name: &str| minimum(&subjects, &times, name);
    let (bare, setpriv) = (minimum(BARE), minimum(SETPRIV));
    println!();
    target("entrypoint more than setpriv, ms", minimum(ENTRYPOINT) - setpriv, 2.0);
    target("init more than setpriv, ms", minimum(INIT) - setpriv, 10.0);
    println!("{:44} {:8.2}", "setpriv more than bare exec, ms", setpriv - bare);
    #[allow(clippy::cast_precision_loss, reason = "a size in megabytes")]
    let size = fs::metadata(&binary)?.len() as f64 / 1e6;
    target("size of the binary, MB", size, 1.5);
    target("resident memory of a waiting init, MB", namespace.init_memory()?, 1.5);
    containers(&binary, rounds)
}

fn subjects(namespace: &Namespace) -> Vec<Subject> {
    let setpriv = "setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all \
        --ambient-caps=-all --no-new-privs true";
    vec![
        namespace.subject(BARE, "true"),
        namespace.subject(SETPRIV, setpriv),
        namespace.subject(ENTRYPOINT, "/opt/entrypoint true"),
        namespace.subject(INIT, "/opt/init true"),
        namespace.subject("tini", "tini -s -- true"),
        namespace.subject("tini, then setpriv", &format!("tini -s -- {setpriv}")),
        namespace.subject("dumb-init", "dumb-init true"),
        namespace.subject("dumb-init, then setpriv", &format!("dumb-init {setpriv}")),
    ]
}

fn minimum(subjects: &[Subject], times: &[Times], name: &str) -> f64 {
    let index = subjects.iter().position(|subject| subject.name == name);
    index.map_or(f64::NAN, |index| times[index].min())
}

fn print_times(subjects: &[Subject], times: &[Times]) {
    println!("{:44} {:>8} {:>9}", "", "min ms", "median ms");
    for (subject, times) in subjects.iter().zip(times) {
        println!("{:44} {:8.2} {:9.2}", subject.name, times.min(), times.median());
    }
}

fn target(what: &str, found: f64, most: f64) {
    let verdict = if found <= most { "met" } else { "MISSED" };
    println!("{what:44} {found:8.2}   at most {most}: {verdict}");
}

/// Compares `docker run` with and without the entrypoint.
fn containers(binary: &Path, rounds: usize) -> Result<(), BenchError> {
    let docker = Docker::new();
    let image = docker.busybox();
    let env: BTreeMap<OsString, OsString> = Host::read().env;
    let mount = format!("{}:/entrypoint:ro", binary.display());
    let subject = |name: &str, entrypoint: &str, words: &[&str]| {
        let line = ["docker", "run", "--rm", "--network", "none", "--env", "AGENT_USER=1000:1000"];
        let line = line.into_iter().chain(["--volume", &mount, "--entrypoint", entrypoint, image]);
        Subject::new(name, Path::new("/"), &env).words(line).words(words)
    };
    let subjects = [subject(ALONE, "/bin/true", &[]), subject(WITH, "/entrypoint", &["/bin/true"])];
    println!("\n`docker run --rm`; {rounds} interleaved rounds\n");
    let times = rounds::run(&subjects, rounds)?;
    print_times(&subjects, &times);
    let ratio = minimum(&subjects, &times, WITH) / minimum(&subjects, &times, ALONE);
    println!();
    target("ratio of the two", ratio, 1.05);
    Ok(())
}

/// Mount and PID namespace with a separate root, kept alive by a sleeping process.
struct Namespace {
    holder: Child,
    pid: String,
    _world: World,
}

impl Namespace {
    fn new(binary: &Path) -> Result<Self, BenchError> {
        for tool in ["unshare", "nsenter", "setpriv", "tini", "dumb-init"] {
            need(tool);
        }
        let world = World::with_binary(binary);
        let root = world.path("root");
        for dir in ["etc", "proc", "dev", "tmp", "usr", "opt", "workspace", "home/octobot", ".data"]
        {
            fs::create_dir_all(root.join(dir))?;
        }
        for link in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link))?;
        }
        for name in ["entrypoint", "init"] {
            fs::copy(binary, root.join("opt").join(name))?;
        }
        fs::write(
            root.join("etc/passwd"),
            "root:x:0:0::/:/bin/sh\noctobot:x:1001:1001::/home/octobot:/bin/sh\n",
        )?;
        let script = "cd \"$0\" && for dir in usr dev; do mount --rbind /$dir $dir; done && mount -t proc proc proc \
            && echo made > tmp/made && exec sleep 1000000";
        let mut command = Command::new(need("unshare"));
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]).arg(&root);
        let holder = command.stdin(Stdio::null()).spawn()?;
        while !root.join("tmp/made").is_file() {
            sleep(Duration::from_millis(10));
        }
        let outer = holder.id();
        let pid =
            fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"))?.trim().to_owned();
        Ok(Self { holder, pid, _world: world })
    }

    /// Returns a command line inside, as root. `line` is split at blanks.
    fn subject(&self, name: &str, line: &str) -> Subject {
        let variables = [
            ("PATH", "/usr/sbin:/usr/bin"),
            ("SESSION_ID", "s"),
            ("AGENT_COW", "none"),
            ("AGENT_DOCKERD", "off"),
        ];
        let variables = variables
            .into_iter()
            .chain([("AGENT_USER", if line.contains("/init") { "octobot" } else { "1000:1000" })]);
        let env = variables.map(|(name, value)| (name.into(), value.into())).collect();
        let root = format!("--root=/proc/{}/cwd", self.pid);
        let enter = ["nsenter", "--target", &self.pid, "--mount", "--pid", &root, "--wd=/"];
        Subject::new(name, Path::new("/"), &env).words(enter).words(line.split_whitespace())
    }

    /// Returns the resident memory in MB of an init whose agent sleeps.
    fn init_memory(&self) -> Result<f64, BenchError> {
        let mut child = self.subject("waiting", "/opt/init sleep 1000").ready()?.command.spawn()?;
        let mut found = None;
        for _ in 0..500 {
            sleep(Duration::from_millis(20));
            found = children(child.id())
                .into_iter()
                .find(|pid| !children(*pid).is_empty() && name(*pid) == "init");
            if found.is_some_and(|init| children(init).iter().any(|pid| name(*pid) == "sleep")) {
                break;
            }
        }
        sleep(Duration::from_millis(200));
        let init = found
            .ok_or_else(|| BenchError::Fails("init".into(), "its agent did not start".into()))?;
        let status = fs::read_to_string(format!("/proc/{init}/status"))?;
        Command::new("kill").arg(init.to_string()).status()?;
        child.wait()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
        Ok(kilobytes.unwrap_or(f64::NAN) / 1000.0)
    }
}

fn children(pid: u32) -> Vec<u32> {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // `--kill-child` kills PID 1 of the namespace with its parent, which ends the namespace.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
