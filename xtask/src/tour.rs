//! `run` without a command: what is allowed, hidden and refused, on a home and a project made up for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::run;
use crate::host;
use crate::made::Thing;
use crate::say::{Context, Failure, Outcome, print};
use crate::workspace::{Workspace, variable};

/// Stage of the tour.
struct Stage {
    home: PathBuf,
    project: PathBuf,
    path: std::ffi::OsString,
}

/// Shows the tour with the binaries in a directory.
pub(crate) fn show(workspace: &Workspace, binaries: &Path) -> Outcome {
    host::need_namespaces(Command::new("env"))?;
    let stage = Stage::new(workspace, binaries)?;
    let key = stage.home.join(".ssh/id_ed25519");
    let (key, file) = (key.display().to_string(), stage.home.join("x").display().to_string());
    let keys = stage.home.join(".ssh").display().to_string();
    scene("The project is writable.");
    stage.works(&[
        "agent-sandbox",
        "sh",
        "-c",
        r#"echo "written by the agent" > notes && cat notes"#,
    ])?;
    scene("Keys are not there, and the rest of home is read-only.");
    stage.refused(&["agent-sandbox", "cat", &key])?;
    stage.refused(&["agent-sandbox", "touch", &file])?;
    scene("Git works, except for the commands that destroy work.");
    stage.works(&["agent-sandbox", "git", "status", "--short"])?;
    stage.refused(&["agent-sandbox", "git", "reset", "--hard"])?;
    scene("Every verdict can be explained.");
    stage.works(&["agent-sandbox", "why", &keys])?;
    scene("A program can ask where it runs.");
    stage.refused(&["agent-sandbox", "check"])?;
    stage.works(&["agent-sandbox", "/run/agent-sandbox/agent-sandbox", "check"])?;
    print("\nNow your agent: ./dev run claude\n");
    Ok(())
}

fn scene(text: &str) {
    print(format_args!("\n# {text}\n"));
}

impl Stage {
    fn new(workspace: &Workspace, binaries: &Path) -> Result<Self, Failure> {
        // Below the target directory: /tmp is private to a sandbox.
        let folder = workspace.out.join(format!("tour.{}", std::process::id()));
        workspace.made.record(&Thing::Folder(folder.clone()))?;
        let (home, project) = (folder.join("home"), folder.join("project"));
        for folder in [&home.join(".ssh"), &project] {
            fs::create_dir_all(folder).context(format_args!("create {}", folder.display()))?;
        }
        let key = home.join(".ssh/id_ed25519");
        fs::write(&key, "a made-up private key\n")
            .context(format_args!("write {}", key.display()))?;
        let old = variable("PATH").unwrap_or_default();
        let folders = [binaries.to_owned()].into_iter().chain(std::env::split_paths(&old));
        let path =
            std::env::join_paths(folders).map_err(std::io::Error::other).context("extend PATH")?;
        let stage = Self { home, project, path };
        run(&mut stage.command(&["git", "init", "--quiet", "--initial-branch", "main"]))?;
        let author = ["git", "-c", "user.name=You", "-c", "user.email=you@example.com"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "start"];
        run(stage.command(&author).args(commit))?;
        Ok(stage)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg("--").args(words).current_dir(&self.project);
        command.env("HOME", &self.home).env("PATH", &self.path);
        command
    }

    /// Prints a command as it is typed, then what it says. Returns true when it succeeds.
    fn show(&self, words: &[&str]) -> Result<bool, Failure> {
        let home = self.home.display().to_string();
        let typed: Vec<String> =
            words.iter().map(|word| quoted(&word.replacen(&home, "~", 1))).collect();
        print(format_args!("$ {}\n", typed.join(" ")));
        let script = ["sh", "-c", r#"exec "$@" 2>&1"#, "sh"];
        let mut command = self.command(&script);
        let output = command.args(words).stdin(Stdio::null()).output().context(words.join(" "))?;
        print(String::from_utf8_lossy(&output.stdout));
        Ok(output.status.success())
    }

    fn works(&self, words: &[&str]) -> Outcome {
        if self.show(words)? { Ok(()) } else { Err(Failure::new("this should have worked")) }
    }

    fn refused(&self, words: &[&str]) -> Outcome {
        if self.show(words)? { Err(Failure::new("this should have been refused")) } else { Ok(()) }
    }
}

/// Quotes a word as a shell needs it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./~-".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}
