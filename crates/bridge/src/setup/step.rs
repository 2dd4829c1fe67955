//! Steps of a set-up. Each can be repeated, and undone even if it was not carried out.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{Durability, Mode, Replace};

use super::SetupError;

/// Change to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    User {
        name: String,
        home: PathBuf,
        shell: PathBuf,
    },
    /// File that only this program writes.
    File {
        path: PathBuf,
        text: String,
        mode: u32,
    },
    /// File that the administrator may change once it exists.
    Keep {
        path: PathBuf,
        text: String,
        mode: u32,
    },
    Key {
        home: PathBuf,
        line: String,
    },
    Sudoers {
        path: PathBuf,
        text: String,
    },
    /// Configuration of sshd, which sshd must accept.
    Sshd {
        path: PathBuf,
        text: String,
    },
    CheckSshd {
        reload: bool,
    },
}

impl Step {
    pub(super) fn file(path: impl Into<PathBuf>, text: String, mode: u32) -> Self {
        Self::File { path: path.into(), text, mode }
    }

    pub(super) fn keep(path: impl Into<PathBuf>, text: String, mode: u32) -> Self {
        Self::Keep { path: path.into(), text, mode }
    }

    /// Describes the complete action.
    pub(super) fn text(&self) -> String {
        let block = |what: String, text: &str| {
            let lines = text.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n");
            format!("{what}\n{}", lines.collect::<String>())
        };
        match self {
            Self::Link { path, target } => {
                format!("link {} to {}\n", path.display(), target.display())
            }
            Self::User { name, .. } => {
                format!("add the user {name}: {}\n", self.useradd().join(" "))
            }
            Self::File { path, text, mode } => {
                block(format!("write {}, mode {mode:o}:", path.display()), text)
            }
            Self::Keep { path, text, mode } => {
                block(format!("write {}, mode {mode:o}, unless it exists:", path.display()), text)
            }
            Self::Key { home, line } => {
                block(format!("add to {}:", home.join(".ssh/authorized_keys").display()), line)
            }
            Self::Sudoers { path, text } => block(
                format!("write {}, mode 440, after visudo has checked it:", path.display()),
                text,
            ),
            Self::Sshd { path, text } => block(
                format!("write {}, mode 644, and remove it if sshd rejects it:", path.display()),
                text,
            ),
            Self::CheckSshd { reload: true } => {
                "check the configuration of sshd, and reload it\n".into()
            }
            Self::CheckSshd { reload: false } => "check the configuration of sshd\n".into(),
        }
    }

    /// Describes the undo action.
    pub(super) fn undo_text(&self) -> String {
        match self {
            Self::Link { path, .. }
            | Self::File { path, .. }
            | Self::Sshd { path, .. }
            | Self::Sudoers { path, .. } => {
                format!("remove {}\n", path.display())
            }
            Self::Keep { path, .. } => {
                format!("remove {}, unless it was changed\n", path.display())
            }
            Self::User { name, home, .. } => {
                format!("remove the user {name} and {}\n", home.display())
            }
            Self::Key { home, .. } => {
                format!("remove {}\n", home.join(".ssh/authorized_keys").display())
            }
            Self::CheckSshd { .. } => self.text(),
        }
    }

    pub(super) fn take(&self) -> Result<(), SetupError> {
        match self {
            Self::Link { path, target } => self.wrap(relink(path, target)),
            Self::User { name, home, .. } => {
                if !user_exists(name) {
                    self.run(&self.useradd())?;
                }
                // sshd requires that only root or the user can write here (`StrictModes`). It belongs to root, so that
                // no command can add a key. The user's writable directory is below it.
                self.wrap(make_dir(home, 0o755))?;
                self.wrap(make_state(home, name))
            }
            Self::Keep { path, .. } if path.is_file() => Ok(()),
            Self::File { path, text, mode } | Self::Keep { path, text, mode } => {
                self.wrap(write(path, text, *mode))
            }
            Self::Key { home, line } => self.wrap(add_key(home, line)),
            Self::Sudoers { path, text } => self.sudoers(path, text),
            Self::Sshd { path, text } => self.sshd(path, text),
            Self::CheckSshd { reload } => self.check_sshd(*reload),
        }
    }

    pub(super) fn undo(&self) -> Result<(), SetupError> {
        match self {
            Self::Link { path, .. }
            | Self::File { path, .. }
            | Self::Sshd { path, .. }
            | Self::Sudoers { path, .. } => self.wrap(remove(path)),
            Self::Keep { path, text, .. } => {
                let same = fs::read_to_string(path).is_ok_and(|now| now == *text);
                if same { self.wrap(remove(path)) } else { Ok(()) }
            }
            Self::User { name, home, .. } => {
                if user_exists(name) {
                    self.run(&["userdel".into(), name.clone()])?;
                }
                self.wrap(gone(fs::remove_dir_all(home)))
            }
            Self::Key { home, .. } => self.wrap(remove(&home.join(".ssh/authorized_keys"))),
            Self::CheckSshd { reload } => self.check_sshd(*reload),
        }
    }

    fn useradd(&self) -> Vec<String> {
        let Self::User { name, home, shell } = self else { return Vec::new() };
        let (home, shell) = (home.display().to_string(), shell.display().to_string());
        // `*` is not a valid password hash but also not a lock (`!`). sshd refuses locked users: sshd(8).
        let words =
            ["useradd", "--system", "--no-create-home", "--home-dir", &home, "--shell", &shell];
        words.into_iter().chain(["--password", "*", name]).map(str::to_owned).collect()
    }

    /// Checks the file before it is installed, because sudo refuses to run with an invalid one.
    fn sudoers(&self, path: &Path, text: &str) -> Result<(), SetupError> {
        let draft = path.with_extension("draft");
        self.wrap(write(&draft, text, 0o440))?;
        let checked =
            self.run(&["visudo".into(), "-c".into(), "-f".into(), draft.display().to_string()]);
        match checked {
            Ok(()) => self.wrap(fs::rename(&draft, path)),
            Err(error) => {
                self.wrap(remove(&draft))?;
                Err(error)
            }
        }
    }

    /// Removes the file again if sshd rejects it, because sshd could not restart with it.
    fn sshd(&self, path: &Path, text: &str) -> Result<(), SetupError> {
        self.wrap(write(path, text, 0o644))?;
        self.check_sshd(false).or_else(|error| self.wrap(remove(path)).and(Err(error)))
    }

    fn check_sshd(&self, reload: bool) -> Result<(), SetupError> {
        self.run(&["/usr/sbin/sshd".into(), "-t".into()])?;
        if reload { self.run(&["systemctl".into(), "reload".into(), "ssh".into()]) } else { Ok(()) }
    }

    fn run(&self, words: &[String]) -> Result<(), SetupError> {
        let output =
            self.wrap(sandbox_linux::process::command(&words[0]).args(&words[1..]).output())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(SetupError::Said(words.join(" "), said))
    }

    fn wrap<T>(&self, done: io::Result<T>) -> Result<T, SetupError> {
        let text = self.text();
        done.map_err(|error| {
            SetupError::Step(text.lines().next().unwrap_or_default().into(), error)
        })
    }
}

fn user_exists(name: &str) -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(name))
}

/// Creates the directory for locks and the audit log.
fn make_state(home: &Path, name: &str) -> io::Result<()> {
    let state = home.join(".local/state/agent-sandbox/host-commands");
    make_dir(&state, 0o700)?;
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let id = |at| line.and_then(|line| line.split(':').nth(at)?.parse().ok());
    chown(&state, id(2), id(3))
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let way = Replace { mode: Mode::Exact(mode), ..Replace::private(Durability::Cached) };
    way.write(path, text.as_bytes())
}

fn relink(path: &Path, target: &Path) -> io::Result<()> {
    gone(fs::remove_file(path))?;
    symlink(target, path)
}

fn add_key(home: &Path, line: &str) -> io::Result<()> {
    let dir = home.join(".ssh");
    make_dir(&dir, 0o755)?;
    let file = dir.join("authorized_keys");
    let old = fs::read_to_string(&file).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    })?;
    if old.lines().any(|known| known == line.trim_end()) {
        return Ok(());
    }
    write(&file, &format!("{old}{line}"), 0o644)
}

fn remove(path: &Path) -> io::Result<()> {
    gone(fs::remove_file(path))
}

/// Treats a missing file as removed.
fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
