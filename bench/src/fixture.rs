//! Fixture of the start-up benchmarks: a home with typical secrets and caches, and a small repository in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_core::plan::{Plan, plan};
use sandbox_core::render::bwrap;
use sandbox_core::render::find;
use sandbox_policy::Host;
use sandbox_policy::config::Request;
use testkit::World;

use crate::BenchError;
use crate::subject::Subject;

/// Files of a typical home. The default policy hides the secrets and opens the caches.
const SECRETS: [&str; 8] = [
    ".ssh/id_ed25519",
    ".gnupg/pubring.kbx",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".git-credentials",
    ".bash_history",
];
const DIRS: [&str; 4] = [".cache", ".npm", ".cargo/registry", ".claude"];
/// Number of files for rules.
pub(crate) const FILES: usize = 500;

/// Home directory, binary to measure, and environment of its commands.
pub(crate) struct Fixture {
    world: World,
    host: Host,
    pub(crate) env: BTreeMap<OsString, OsString>,
}

impl Fixture {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let mut host = Host::read();
        let binary = host.var("AGENT_SANDBOX_BIN").map(PathBuf::from);
        let binary = binary.filter(|path| path.is_file()).ok_or(BenchError::NoBinary)?;
        let mut world = World::with_binary(binary.canonicalize()?);
        for secret in SECRETS {
            world = world.file(Path::new("home").join(secret), "secret\n");
        }
        for dir in DIRS {
            world = world.dir(Path::new("home").join(dir));
        }
        for number in 0..FILES {
            world = world.file(format!("home/project/src/{number:03}"), "text\n");
        }
        world = world.git_init("home/project");
        for count in [10, 100, 500] {
            world.write(rules_file(count), rules(count));
        }
        let env = environment(&host, &world.path("home"));
        host.env = env.clone();
        host.home = Some(world.path("home"));
        host.cwd = Some(world.path("home/project"));
        host.exe = world.binary().to_path_buf();
        Ok(Self { world, host, env })
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.world.path(path)
    }

    /// Returns an empty command line in the project.
    pub(crate) fn subject(&self, name: &str) -> Subject {
        Subject::new(name, &self.world.path("home/project"), &self.env)
    }

    /// Returns a command line of the measured binary, without flags.
    pub(crate) fn ours(&self, name: &str) -> Subject {
        self.subject(name).words([self.world.binary()])
    }

    /// Returns the flags for a policy with this number of user rules.
    pub(crate) fn with_rules(&self, rules: usize) -> [OsString; 2] {
        ["-c".into(), self.world.path(rules_file(rules)).into()]
    }

    /// Returns the plan for this number of user rules. With 0, it is the default policy's.
    pub(crate) fn plan(&self, rules: usize) -> Result<Plan, BenchError> {
        let config = (rules > 0).then(|| self.world.path(rules_file(rules)));
        let request = Request { config, command: vec!["true".into()], ..Request::default() };
        Ok(plan(&self.host, &request)?)
    }

    pub(crate) fn bwrap(&self) -> Result<PathBuf, BenchError> {
        Ok(find::find(&self.host, None)?.path)
    }

    /// Returns a bare bubblewrap command with the mounts of a plan.
    pub(crate) fn bwrap_like_ours(&self, name: &str, rules: usize) -> Result<Subject, BenchError> {
        let arguments = bwrap::arguments(&self.plan(rules)?);
        Ok(self.subject(name).words([self.bwrap()?]).arguments(arguments).words(["--", "true"]))
    }
}

fn rules_file(count: usize) -> String {
    format!("rules/{count}.json")
}

fn rules(count: usize) -> String {
    let paths: Vec<String> = (0..count).map(|number| format!("src/{number:03}")).collect();
    serde_json::json!({ "filesystem": { "ro": paths } }).to_string()
}

/// Returns the environment of a login shell, with a fixed `PATH` and without the caller's variables.
fn environment(host: &Host, home: &Path) -> BTreeMap<OsString, OsString> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let user = host.var("USER").unwrap_or("nobody".as_ref()); // words: quoted
    [
        ("PATH", path.as_ref()),
        ("HOME", home.as_os_str()),
        ("USER", user),
        ("LANG", "C.UTF-8".as_ref()),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.to_owned()))
    .collect()
}
