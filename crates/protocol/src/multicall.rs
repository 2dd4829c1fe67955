//! Words by which one process tells another of ours what to be.

use std::ffi::OsStr;

/// First argument of the main binary inside a sandbox: the next word is a ruled command, or an internal entry that
/// begins with `@`.
pub const MULTICALL: &str = "multicall";
/// Internal entry of the first process inside: becomes the command.
pub const START: &str = "@start";
/// Internal entry of a session's server: starts commands on request.
pub const SERVE: &str = "@session";
/// First argument of the main binary outside a sandbox: supervises a session.
pub const SUPERVISE: &str = "@supervise";

/// Returns true for an internal entry. No command's name begins with `@`.
pub fn is_internal(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"@")
}

/// Role of `agent-sandbox-init`, chosen by its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// PID 1 that strips the environment, drops root and becomes the agent.
    Entrypoint,
    /// PID 1 that sets up, starts the agent, forwards signals, reaps and shuts down.
    Init,
    /// One more command in a running container.
    Enter,
    /// [`Self::Enter`], with a process beside the command that kills it when the caller is gone.
    Attend,
    /// Signal to a command that has entered.
    Signal,
    /// Process that kills an attended command when the caller is gone.
    Guard,
    /// Inspection of the image from inside.
    Check,
}

impl Personality {
    /// All roles.
    pub const ALL: [Self; 7] = [
        Self::Entrypoint,
        Self::Init,
        Self::Enter,
        Self::Attend,
        Self::Signal,
        Self::Guard,
        Self::Check,
    ];

    /// Returns the argument that chooses it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Entrypoint => "entrypoint",
            Self::Init => "init",
            Self::Enter => "enter",
            Self::Attend => "attend",
            Self::Signal => "signal",
            Self::Guard => "guard",
            Self::Check => "check",
        }
    }

    /// Returns the one that an argument chooses.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|personality| personality.word() == word)
    }
}

/// First word of the log line of `entrypoint` when the agent starts.
pub const STARTING: &str = "starting";
/// First word of the log line of `init` when everything is set up.
pub const READY: &str = "ready";

/// Returns the beginnings of the log lines by which PID 1 says that it is done with the set-up.
pub fn ready_lines() -> [String; 2] {
    [(Personality::Init, READY), (Personality::Entrypoint, STARTING)]
        .map(|(personality, text)| format!("[{}] {text}", personality.word()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_entries_are_told_from_commands() {
        assert!([START, SERVE, SUPERVISE].iter().all(|word| is_internal(word.as_ref())));
        assert!(!is_internal("git".as_ref()) && !is_internal("".as_ref()));
    }

    #[test]
    fn personality_is_found_by_its_word() {
        for personality in Personality::ALL {
            assert_eq!(Personality::of(personality.word()), Some(personality));
        }
        assert_eq!(Personality::of("bash"), None);
        assert_eq!(ready_lines(), ["[init] ready", "[entrypoint] starting"]);
    }
}
