//! Arguments that select the role of a process of agent-sandbox.

use std::ffi::OsStr;

/// First argument of the main binary inside a sandbox. The next argument is a command that has a rule, or an internal
/// entry point that begins with `@`.
pub const MULTICALL: &str = "multicall";
/// Internal entry point of the first process inside, which becomes the command.
pub const START: &str = "@start";
/// Internal entry point of a session's server, which starts commands on request.
pub const SERVE: &str = "@session";
/// First argument of the main binary outside a sandbox, for the supervisor of a session.
pub const SUPERVISE: &str = "@supervise";

/// Returns true for an internal entry point. Command names do not begin with `@`.
pub fn is_internal(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"@")
}

/// Role of `agent-sandbox-init`, selected by its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// PID 1 that strips the environment, drops root and becomes the agent.
    Entrypoint,
    /// PID 1 that sets up, starts the agent, forwards signals, reaps and shuts down.
    Init,
    /// Process that runs a command in a running container.
    Enter,
    /// [`Self::Enter`] with a [`Self::Guard`] process.
    Attend,
    /// Process that sends a signal to an entered command.
    Signal,
    /// Process that kills an attended command when the caller exits.
    Guard,
    /// Check of the image from inside.
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

    /// Returns the argument that selects this role.
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

    /// Returns the role that an argument selects.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|personality| personality.word() == word)
    }
}

/// First word of `entrypoint`'s log line when the agent starts.
pub const STARTING: &str = "starting";
/// First word of `init`'s log line when set-up is complete.
pub const READY: &str = "ready";

/// Returns the prefixes of the log lines that report the end of PID 1's set-up.
pub fn ready_lines() -> [String; 2] {
    [(Personality::Init, READY), (Personality::Entrypoint, STARTING)]
        .map(|(personality, text)| format!("[{}] {text}", personality.word()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_internal_is_false_for_commands() {
        assert!([START, SERVE, SUPERVISE].iter().all(|word| is_internal(word.as_ref())));
        assert!(!is_internal("git".as_ref()) && !is_internal("".as_ref()));
    }

    #[test]
    fn personality_round_trips() {
        for personality in Personality::ALL {
            assert_eq!(Personality::of(personality.word()), Some(personality));
        }
        assert_eq!(Personality::of("bash"), None);
        assert_eq!(ready_lines(), ["[init] ready", "[entrypoint] starting"]);
    }
}
