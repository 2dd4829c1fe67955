//! Temporary home with a project in it, and the git of a host without sandboxes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::inspect::{self, InspectInput, Report, Run};
use sandbox_git::protect::{self as git, Budget, GitProtection};
use sandbox_linux::clock;
use sandbox_policy::Host;

pub(crate) const WHOLE: Budget =
    Budget { time: std::time::Duration::from_secs(5), entries: 1_000_000 };

pub(crate) struct World {
    _dir: TempDir,
    pub(crate) base: PathBuf,
    pub(crate) host: Host,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(dir: TempDir) -> Self {
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("home")).unwrap();
        fs::create_dir_all(base.join("work")).unwrap();
        let host = Host {
            cwd: Some(base.join("work")),
            home: Some(base.join("home")),
            env: BTreeMap::new(),
            exe: "/proc/self/exe".into(),
            uid: 0,
            gid: 0,
            inside: false,
        };
        Self { _dir: dir, base, host }
    }

    /// Creates a world whose project is a repository with one commit.
    pub(crate) fn with_repo() -> Self {
        let world = Self::new();
        world.init("work");
        world
    }

    pub(crate) fn init(&self, path: &str) {
        self.git(".", &["init", "-q", "-b", "main", path]);
        self.write(&format!("{path}/file"), "text");
        self.git(path, &["add", "file"]);
        self.git(path, &["commit", "-qm", "first"]);
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// Creates a program that leaves a mark when it runs.
    pub(crate) fn evil(&self, path: &str) {
        self.write(path, &format!("#!/bin/sh\necho ran >> {}\n", self.marker().display()));
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds settings that run that program at each `git status`.
    pub(crate) fn evil_config(&self, path: &str) {
        self.evil("work/evil.sh");
        let old = fs::read_to_string(self.path(path)).unwrap_or_default();
        let program = self.path("work/evil.sh");
        self.write(path, &format!("{old}\n[core]\n\tfsmonitor = {}\n", program.display()));
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.path("marker")
    }

    /// Returns true when the program ran since the last call.
    pub(crate) fn ran(&self) -> bool {
        fs::remove_file(self.marker()).is_ok()
    }

    pub(crate) fn git(&self, dir: &str, args: &[&str]) {
        let output = self.try_git(dir, args);
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn try_git(&self, dir: &str, args: &[&str]) -> std::process::Output {
        let mut git = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                git.env_remove(name);
            }
        }
        git.args(["-c", "protocol.file.allow=always"]).args(args).current_dir(self.path(dir));
        git.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("XDG_CONFIG_HOME", self.path("home/.config"))
            .env("GIT_CEILING_DIRECTORIES", &self.base);
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "n").env(format!("GIT_{role}_EMAIL"), "e@x");
        }
        git.output().expect("git is needed for this test: apt install git")
    }

    pub(crate) fn discover(&self, roots: &[&str]) -> GitProtection {
        let roots: Vec<_> = roots.iter().map(|root| self.path(root)).collect();
        git::discover(&self.host, &roots, false, &[], WHOLE).unwrap()
    }

    pub(crate) fn begin(&self, roots: &[&str]) -> Run {
        let git = self.discover(roots);
        let roots: Vec<_> = roots.iter().map(|root| self.path(root)).collect();
        let config_files = [".agent-sandbox.json", "sandbox.toml"].map(|name| roots[0].join(name));
        let input = InspectInput { roots: &roots, git: &git, config_files: &config_files };
        let run = inspect::begin(&self.host, &input).unwrap();
        clock::wait_for_timestamps(clock::monotonic()); // as each run does before it starts the command
        run
    }

    /// Starts a run, does `plant`, and finishes the run.
    pub(crate) fn run(&self, roots: &[&str], plant: impl FnOnce(&Self)) -> Report {
        let run = self.begin(roots);
        plant(self);
        run.finish()
    }
}

/// Returns the paths of a report's moved files, relative to the base.
pub(crate) fn moved(report: &Report, base: &Path) -> Vec<String> {
    let below = |path: &Path| path.strip_prefix(base).unwrap().display().to_string();
    report.moved.iter().map(|moved| below(&moved.path)).collect()
}
