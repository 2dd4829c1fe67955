//! `host-command setup`: a user, a list, a forced command. Decided as steps, shown, then taken or taken back.

mod files;
mod step;

use std::io;
use std::path::PathBuf;

use sandbox_core::Host;
use sandbox_core::host_command::{Entry, authorized_line};
use thiserror::Error;

use crate::args::host_command::Setup;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;
use step::Step;

#[derive(Debug, Error)]
pub(super) enum SetupError {
    #[error("only root can prepare the host")]
    NotRoot,
    #[error("{0}")]
    Wrong(String),
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("this step failed: {0}")]
    Step(String, #[source] io::Error),
    #[error("this step failed: {0}: {1}")]
    Said(String, String),
}

impl From<SetupError> for Failed {
    fn from(error: SetupError) -> Self {
        let hint = match &error {
            SetupError::NotRoot => Some("run it with sudo".into()),
            SetupError::Step(..) | SetupError::Said(..) => Some(
                "`agent-sandbox host-command setup --undo --yes` takes back what was done".into(),
            ),
            _ => None,
        };
        Self { error: Box::new(error), hint, code: 1 }
    }
}

/// Shows the steps; takes them, or takes them back, with `--yes`.
pub(super) fn run(setup: &Setup, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut steps = plan(setup)?;
    if setup.undo {
        steps.reverse();
    }
    let verb = if setup.undo { "taken back" } else { "done" };
    for step in &steps {
        io.data(&if setup.undo { step.undo_text() } else { step.text() });
    }
    if !setup.yes {
        io.say(&format!("nothing was {verb}; `--yes` does it"));
        return Ok(0);
    }
    if host.uid != 0 {
        return Err(SetupError::NotRoot.into());
    }
    for step in &steps {
        if setup.undo { step.undo()? } else { step.take()? }
    }
    io.say(&format!("everything was {verb}"));
    if !setup.reload_sshd {
        io.say("sshd has not been told: `systemctl reload ssh`, or `--reload-sshd` next time");
    }
    Ok(0)
}

fn plan(setup: &Setup) -> Result<Vec<Step>, SetupError> {
    let name = &setup.user;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(plain)
        || name.len() > 32
    {
        return Err(SetupError::Wrong(format!("`{name}` is no name for a user of the system")));
    }
    for entry in &setup.allow {
        Entry::parse(entry).map_err(|error| SetupError::Wrong(error.to_string()))?;
    }
    if let Some(program) = setup.sudo.iter().find(|program| !files::is_plain_path(program)) {
        return Err(SetupError::Wrong(format!(
            "`{}` is no absolute path without blanks",
            program.display()
        )));
    }
    let mut steps = vec![
        Step::Link { path: files::SHELL.into(), target: files::BINARY.into() },
        Step::User { name: name.clone(), home: files::home(name), shell: files::SHELL.into() },
        Step::keep(sandbox_core::host_command::HOST_LIST, files::list(&setup.allow), 0o644),
        Step::file("/usr/local/sbin/miclaw-cmd-wrapper", files::WRAPPER.into(), 0o755),
        Step::Sshd { path: files::sshd(name), text: files::sshd_text(name) },
    ];
    if let Some(key) = &setup.key {
        let text =
            std::fs::read_to_string(key).map_err(|error| SetupError::Read(key.clone(), error))?;
        let line = authorized_line(&text, setup.from.as_deref(), setup.expires.as_deref())
            .map_err(SetupError::Wrong)?;
        steps.push(Step::Key { home: files::home(name), line });
    }
    if !setup.sudo.is_empty() {
        steps.push(Step::Sudoers {
            path: files::sudoers(name),
            text: files::sudoers_text(name, &setup.sudo),
        });
    }
    steps.push(Step::CheckSshd { reload: setup.reload_sshd });
    Ok(steps)
}
