//! Docker daemon of the test run, and containers that are removed with the test.
//!
//! `./dev test` starts a separate daemon with its data in a temporary directory, and sets `DOCKER_HOST`. This requires
//! root, so these tests run only as root.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::caller::{need, setting};
use crate::process::Process;
use crate::run::Run;
use crate::world::World;

/// Time limit of a build, which may download packages.
const BUILD: Duration = Duration::from_secs(1800);

/// Daemon at `DOCKER_HOST`, and a world whose commands use it.
#[derive(Debug, Clone)]
pub struct Docker {
    world: World,
    host: String,
}

impl Docker {
    /// Returns the daemon of this test run.
    ///
    /// # Panics
    /// When the tests were not started by `./dev test`.
    #[track_caller]
    pub fn new() -> Self {
        let host = setting("DOCKER_HOST").unwrap_or_else(|| {
            panic!("this test needs a Docker daemon; start it with: ./dev test containers")
        });
        Self::at(&host.to_string_lossy())
    }

    /// Returns the daemon at an address.
    #[track_caller]
    pub(crate) fn at(host: &str) -> Self {
        need("docker");
        let world = World::with_binary(static_binary("agent-sandbox"));
        Self { world: world.env("DOCKER_HOST", host), host: host.to_owned() }
    }

    /// Returns the daemon's address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the world in which commands run on the host.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Runs `docker` with these arguments.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        self.start(args).wait_up_to(BUILD)
    }

    /// Starts `docker` with these arguments.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Process {
        let mut line = vec![OsString::from("docker")];
        line.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
        self.world.start(line)
    }

    /// Runs `agent-sandbox` with these arguments, with the time limit of a build.
    #[track_caller]
    pub fn sandbox<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        self.world.spawn(args).wait_up_to(BUILD)
    }

    /// Runs a container and removes it, like `docker run --rm`.
    #[track_caller]
    pub fn once<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let fixed = ["run", "--rm", "--network", "none", "--label", LABEL].map(OsString::from);
        self.run(fixed.into_iter().chain(args.into_iter().map(|word| word.as_ref().to_owned())))
    }

    /// Starts a container in the background. Dropping the value removes it.
    #[track_caller]
    pub fn container<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Container {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("as-test-{}-{number}", std::process::id());
        let container = Container { docker: self.clone(), name: name.clone() };
        let fixed = ["run", "--detach", "--network", "none", "--label", LABEL, "--name", &name]
            .map(OsString::from);
        let args = args.into_iter().map(|word| word.as_ref().to_owned());
        self.run(fixed.into_iter().chain(args)).succeeds();
        container
    }

    /// Returns an image that contains a static busybox, created once per test run.
    #[track_caller]
    pub fn busybox(&self) -> &'static str {
        static IMAGE: OnceLock<String> = OnceLock::new();
        IMAGE.get_or_init(|| self.import_busybox())
    }

    /// Imports the busybox image into this daemon.
    #[track_caller]
    pub fn import_busybox(&self) -> String {
        let script = format!("{BUSYBOX}{PACK}");
        self.import("as-test-busybox", &script, &[need("busybox").as_os_str()])
    }

    /// Imports the busybox image with this mode of `/tmp`.
    #[track_caller]
    pub fn with_tmp_mode(&self, mode: &str) -> String {
        let script = format!("{BUSYBOX}chmod {mode} busybox/tmp\n{PACK}");
        self.import(&format!("as-test-tmp-{mode}"), &script, &[need("busybox").as_os_str()])
    }

    /// Returns the busybox image with this machine's SSH client and its libraries.
    #[track_caller]
    pub fn ssh_client(&self) -> &'static str {
        static IMAGE: OnceLock<String> = OnceLock::new();
        IMAGE.get_or_init(|| self.with_programs("as-test-ssh", &[need("ssh")]))
    }

    /// Imports the busybox image with other programs of this machine.
    #[track_caller]
    pub fn with_programs(&self, name: &str, programs: &[PathBuf]) -> String {
        let busybox = need("busybox");
        let args = [&busybox].into_iter().chain(programs).map(|path| path.as_os_str());
        self.import(name, &format!("{BUSYBOX}{PROGRAMS}{PACK}"), &args.collect::<Vec<_>>())
    }

    /// Returns the network that `./dev test` creates for containers, and the host's address in it.
    #[track_caller]
    pub fn network(&self) -> (&'static str, String) {
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let run = self.run(["network", "inspect", "--format", format, NETWORK]).succeeds();
        (NETWORK, run.output().trim().to_owned())
    }

    /// Returns a minimal Debian image, unpacked once by `./dev test` and imported once per test run.
    #[track_caller]
    pub fn debian(&self) -> &'static str {
        static IMAGE: OnceLock<String> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let archive = setting("AGENT_SANDBOX_DEBIAN").unwrap_or_else(|| {
                panic!("this test needs a Debian image; start it with: ./dev test containers")
            });
            self.import("as-test-debian", "exec cat -- \"$1\"", &[&archive])
        })
    }

    /// Imports the archive that a script writes to its output.
    #[track_caller]
    fn import(&self, name: &str, script: &str, args: &[&OsStr]) -> String {
        let image = format!("{name}:{}", std::process::id());
        let mut archive = Command::new("/bin/sh");
        archive.args(["-ec", script, "sh"]).args(args).stdout(Stdio::piped());
        archive.current_dir(self.world.path("home")).stdin(Stdio::null());
        let mut archive = archive.spawn().expect("cannot start `/bin/sh`");
        let mut docker = Command::new(need("docker"));
        docker
            .args(["--host", &self.host, "import", "-", &image])
            .stdin(archive.stdout.take().expect("stdout is piped"));
        let imported = docker.output().expect("cannot start `docker`");
        let made = archive.wait().expect("cannot wait for `sh`").success();
        let message = String::from_utf8_lossy(&imported.stderr);
        assert!(made && imported.status.success(), "cannot create the image {image}: {message}");
        image
    }
}

impl Default for Docker {
    fn default() -> Self {
        Self::new()
    }
}

/// Network with only the host and containers in it.
const NETWORK: &str = "as-test";
/// Label of all containers of tests.
const LABEL: &str = "agent-sandbox.test";

/// Script that creates a directory with busybox and the few files that programs expect.
const BUSYBOX: &str = r#"
rm -rf busybox
mkdir -p busybox/bin busybox/etc busybox/root busybox/tmp
for name in $("$1" --list); do ln -s busybox "busybox/bin/$name"; done
rm -f busybox/bin/busybox
cp -- "$1" busybox/bin/busybox
echo 'root:x:0:0:root:/root:/bin/sh' > busybox/etc/passwd
echo 'root:x:0:' > busybox/etc/group
chmod 1777 busybox/tmp
"#;
const PROGRAMS: &str = r#"
shift
for program; do
  for file in "$program" $(ldd "$program" | grep -o '/[^ ]*'); do
    mkdir -p "busybox${file%/*}"
    cp -L -- "$file" "busybox$file"
  done
done
mkdir -p busybox/var busybox/etc/docker busybox/home/agent
ln -s ../run busybox/var/run
echo '{ "bridge": "none", "iptables": false, "ip-forward": false }' > busybox/etc/docker/daemon.json
echo 'hosts: files dns' > busybox/etc/nsswitch.conf
"#;
const PACK: &str = "exec tar --owner=0 --group=0 -C busybox -c .";

/// Running container. It is removed with its anonymous volumes when the value is dropped.
#[derive(Debug)]
pub struct Container {
    docker: Docker,
    name: String,
}

impl Container {
    /// Returns the container's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `docker exec` with flags and a command. The container's name is inserted between them.
    #[track_caller]
    pub fn exec<const F: usize, const W: usize>(&self, flags: [&str; F], words: [&str; W]) -> Run {
        let line = ["exec"].into_iter().chain(flags).chain([self.name()]).chain(words);
        self.docker.run(line)
    }

    /// Runs `docker VERB [FLAGS] NAME`.
    #[track_caller]
    pub fn does<const W: usize>(&self, verb: [&str; W]) -> Run {
        self.docker.run(verb.into_iter().chain([self.name()]))
    }

    /// Waits for the container to exit. Returns its exit code.
    #[track_caller]
    pub fn wait(&self) -> i32 {
        let code = self.does(["wait"]).succeeds().output();
        code.trim().parse().unwrap_or_else(|_| panic!("`docker wait` says {code:?}"))
    }

    /// Waits until the container has written this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        // `docker logs` merges both outputs only on a terminal.
        let script = r#"exec docker logs --follow "$0" 2>&1"#;
        let logs = self.docker.world.start(["sh", "-c", script, self.name()]);
        logs.wait_for(text);
    }

    /// Returns the container's output.
    #[track_caller]
    pub fn logs(&self) -> Run {
        self.does(["logs"]).succeeds()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let run = self.docker.run(["rm", "--force", "--volumes", &self.name]);
        if !std::thread::panicking() {
            run.succeeds();
        }
    }
}

/// Returns a static binary of this project, which runs in any image.
///
/// # Panics
/// When the tests were not started by `./dev test`.
#[track_caller]
pub fn static_binary(name: &str) -> PathBuf {
    built("AGENT_SANDBOX_STATIC", name)
}

/// Returns a static binary for arm64.
///
/// # Panics
/// When the tests were not started by `./dev test`.
#[track_caller]
pub fn arm64_binary(name: &str) -> PathBuf {
    built("AGENT_SANDBOX_ARM64", name)
}

#[track_caller]
fn built(setting_name: &str, name: &str) -> PathBuf {
    let folder = setting(setting_name).unwrap_or_else(|| {
        panic!("this test needs static binaries; start it with: ./dev test containers")
    });
    let binary = Path::new(&folder).join(name);
    assert!(fs::metadata(&binary).is_ok(), "`{}` is not built", binary.display());
    binary
}
