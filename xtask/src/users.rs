//! Ordinary user that a task creates, so that the tests of root run once more without root's rights.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::command::{install, is_root, mortal, output, run, succeeds, temporary};
use crate::host;
use crate::made::Thing;
use crate::say::{Failure, Outcome, say};
use crate::workspace::{Workspace, variable};

/// User that exists until the task ends, and a directory of executables that this user can read.
#[derive(Debug)]
pub(crate) struct TestUser {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    home: String,
}

impl TestUser {
    /// Creates the user.
    pub(crate) fn create(workspace: &Workspace) -> Result<Self, Failure> {
        if !is_root() {
            return Err(Failure::new("these tests create a user").hint("start them as root"));
        }
        let folder = temporary("/opt/as-test.XXXXXX")?;
        workspace.made.record(&Thing::Folder(folder.clone()))?;
        let name = format!("as-test-{}", std::process::id());
        workspace.made.record(&Thing::User(name.clone()))?;
        run(Command::new("useradd").args(["--create-home", "--shell", "/bin/bash", &name]))?;
        run(Command::new("install").arg("-d").arg(folder.join("deps")))?;
        run(Command::new("chmod").arg("755").arg(&folder))?;
        let entry = output(Command::new("getent").args(["passwd", &name]))?;
        let home = entry.split(':').nth(5).unwrap_or("/").to_owned();
        for binary in ["agent-sandbox", "agent-sandbox-init"] {
            install(&workspace.binaries().join(binary), &folder.join(binary))?;
        }
        let user = Self { name, folder, home };
        host::need_namespaces(user.command())?;
        Ok(user)
    }

    /// Copies a test executable to where the user can read it, and beside the binaries that it runs.
    pub(crate) fn install(&self, suite: &str, executable: &Path) -> Result<PathBuf, Failure> {
        let copy = self.folder.join("deps").join(suite);
        install(executable, &copy)?;
        Ok(copy)
    }

    /// Returns `env` as this user, with a fresh environment. Its arguments are variables, then a program.
    pub(crate) fn command(&self) -> Command {
        let mut user = mortal("runuser");
        user.args(["-u", &self.name, "--", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin"]);
        user.arg(format!("USER={}", self.name)).arg(format!("LOGNAME={}", self.name));
        user.arg(format!("HOME={}", self.home));
        // Otherwise insta would ask cargo for the workspace, and this user need not have cargo.
        user.arg(format!("INSTA_WORKSPACE_ROOT={}", self.folder.display()));
        if let Some(soak) = variable("AGENT_SANDBOX_SOAK") {
            user.arg(format!("AGENT_SANDBOX_SOAK={}", soak.display()));
        }
        user.current_dir(&self.folder);
        user
    }

    /// Waits until no process of the user is left, and names those that stay. Zombies do not count: PID 1 of this machine
    /// has yet to reap them.
    pub(crate) fn is_gone(&self) -> Outcome {
        // The proxy waits a moment for the next sandbox.
        for round in 0..20 {
            if round > 0 {
                sleep(Duration::from_millis(500));
            }
            let mut pgrep = Command::new("pgrep");
            pgrep.args(["--list-full", "--runstates", "D,R,S,T,t", "--uid", &self.name]);
            match output(&mut pgrep) {
                Err(_) => return Ok(()),
                Ok(left) if round == 19 => say(left.trim_end()),
                Ok(_) => {}
            }
        }
        Err(Failure::new(format!("processes of {} have outlived the tests", self.name)))
    }
}

/// Ends all processes of a user and removes it.
pub(crate) fn remove(name: &str) -> Outcome {
    if !succeeds(Command::new("id").arg(name)) {
        return Ok(());
    }
    for _ in 0..20 {
        succeeds(Command::new("pkill").args(["-KILL", "-u", name]));
        if succeeds(Command::new("userdel").args(["--remove", name])) {
            return Ok(());
        }
        sleep(Duration::from_millis(200));
    }
    Err(Failure::new(format!("cannot remove the user {name}")))
}
