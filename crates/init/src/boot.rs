//! Decisions of `entrypoint`, made from the environment, its arguments and `/etc/passwd` before anything is changed.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox_protocol::Hint;
use sandbox_protocol::layout::WORKSPACE;
use sandbox_protocol::variable::{
    AGENT_COMMAND, AGENT_REQUIRE_USER, AGENT_USER, AGENT_WORKDIR, CONTROL_PLANE_URL, SESSION_ID,
    SESSION_TOKEN,
};
use thiserror::Error;

use crate::arguments::{ArgumentsError, CommandLine, command_line};
use crate::environment::Environment;
use crate::log::shown;
use crate::user::{self, User, UserError};

const USER: &str = "agent";

/// Input of a decision.
pub(crate) struct Situation<'s> {
    pub(crate) environment: &'s Environment,
    pub(crate) words: &'s [OsString],
    pub(crate) uid: u32,
    pub(crate) passwd: &'s [u8],
    /// Uid of PID 1, if the agent runs as uid 0.
    pub(crate) init_uid: Option<u32>,
}

/// The decision.
pub(crate) struct Boot {
    pub(crate) command: CommandLine,
    pub(crate) workdir: PathBuf,
    pub(crate) identity: Identity,
    /// True if a missing user or directory is an error.
    pub(crate) strict: bool,
    /// The environment of the agent.
    pub(crate) environment: Environment,
    /// Log line that says which of the session's variables are set. It never contains their values.
    pub(crate) session: String,
}

/// User of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Root becomes this user.
    Become(User),
    /// The user does not change, for this reason.
    Stay(Reason),
}

/// Reason why the user does not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Only root can change the user, and this process has this uid.
    NotRoot(u32),
    /// The user does not exist.
    NoUser(UserError),
    /// Uid 0 maps to the user who created the container.
    Callers,
    /// The requested user is root.
    RootWanted,
}

/// Failure to start.
#[derive(Debug, Error)]
pub(crate) enum BootError {
    #[error("no agent command given")]
    NoCommand,
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error("the agent's user is required, but {0}")]
    NoUser(UserError),
    #[error("the agent's user is required, but it is root")]
    Root,
    #[error("the agent's user is required, but the container runs as uid {uid}, not as `{wanted}`")]
    OtherUser { uid: u32, wanted: String },
}

impl Hint for BootError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCommand => format!("set {AGENT_COMMAND}, or pass the command as arguments"),
            Self::Arguments(error) => return error.hint(),
            Self::NoUser(_) | Self::Root => {
                format!(
                    "set {AGENT_USER} to a user of the image, or to numeric ids such as 1000:1000"
                )
            }
            Self::OtherUser { .. } => {
                format!("start the container as that user or as root, or change {AGENT_USER}")
            }
        })
    }
}

/// Makes all decisions before the first change.
pub(crate) fn decide(situation: &Situation<'_>) -> Result<Boot, BootError> {
    let environment = situation.environment;
    let command = command_line(environment, environment.word(AGENT_COMMAND), situation.words)?;
    let strict = environment.is_on(AGENT_REQUIRE_USER);
    let identity = identity(situation, strict)?;
    let workdir = environment.word(AGENT_WORKDIR).unwrap_or_else(|| WORKSPACE.into());
    let mut passed = environment.stripped();
    let becomes = match &identity {
        Identity::Become(user) => Some(user.clone()),
        Identity::Stay(Reason::NotRoot(uid)) => Some(user::numbered(situation.passwd, *uid)),
        Identity::Stay(_) => None,
    };
    if let Some(user) = becomes {
        follow(&mut passed, &user, &user::numbered(situation.passwd, 0));
    }
    Ok(Boot {
        command: command.ok_or(BootError::NoCommand)?,
        workdir: workdir.into(),
        identity,
        strict,
        environment: passed,
        session: session(environment),
    })
}

fn identity(situation: &Situation<'_>, strict: bool) -> Result<Identity, BootError> {
    let wanted = situation.environment.word(AGENT_USER).unwrap_or_else(|| USER.into());
    let wanted = wanted.to_string_lossy();
    let found = user::find(situation.passwd, &wanted);
    if strict {
        match &found {
            Err(error) => return Err(BootError::NoUser(error.clone())),
            Ok(user) if user.uid == 0 && situation.init_uid.is_none() => {
                return Err(BootError::Root);
            }
            Ok(user) if situation.uid != 0 && situation.uid != user.uid => {
                return Err(BootError::OtherUser { uid: situation.uid, wanted: shown(&*wanted) });
            }
            Ok(_) => {}
        }
    }
    Ok(match found {
        _ if situation.uid != 0 => Identity::Stay(Reason::NotRoot(situation.uid)),
        Err(error) => Identity::Stay(Reason::NoUser(error)),
        Ok(user) if user.uid == 0 && situation.init_uid.is_some() => {
            Identity::Stay(Reason::Callers)
        }
        Ok(user) if user.uid == 0 => Identity::Stay(Reason::RootWanted),
        Ok(user) => Identity::Become(user),
    })
}

/// Sets the user's variables if they are missing or are still those of root. Other values were chosen by the operator
/// and do not change.
pub(crate) fn follow(environment: &mut Environment, user: &User, root: &User) {
    use std::os::unix::ffi::OsStrExt;
    let number = OsString::from(user.uid.to_string());
    let name = user.name.as_ref().unwrap_or(&number);
    let roots = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
    for (variable, value, of_root) in [
        ("HOME", user.home.as_os_str(), vec![roots(&root.home), b"/root".to_vec()]),
        ("USER", name, vec![b"root".to_vec()]),
        ("LOGNAME", name, vec![b"root".to_vec()]),
        ("SHELL", user.shell.as_os_str(), vec![roots(&root.shell)]),
    ] {
        let now = environment.set(variable);
        if now.is_none_or(|now| of_root.iter().any(|of_root| of_root == now)) {
            environment.put(variable, value.as_bytes());
        }
    }
}

fn session(environment: &Environment) -> String {
    let state = |name| if environment.set(name).is_some() { "set" } else { "not set" };
    format!(
        "session id {}, control plane url {}, session token {}",
        state(SESSION_ID),
        state(CONTROL_PLANE_URL),
        state(SESSION_TOKEN)
    )
}

#[cfg(test)]
pub(crate) mod tests;
