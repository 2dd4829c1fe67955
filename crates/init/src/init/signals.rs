//! Signals to PID 1.

/// Signal numbers, which are the same on all supported architectures: signal(7).
pub(crate) const HUP: i32 = 1;
pub(crate) const INT: i32 = 2;
pub(crate) const QUIT: i32 = 3;
pub(crate) const KILL: i32 = 9;
pub(crate) const USR1: i32 = 10;
pub(crate) const USR2: i32 = 12;
pub(crate) const TERM: i32 = 15;
pub(crate) const CHLD: i32 = 17;
pub(crate) const CONT: i32 = 18;
pub(crate) const TSTP: i32 = 20;
pub(crate) const TTOU: i32 = 22;
pub(crate) const WINCH: i32 = 28;

/// Handled signals. The kernel delivers no others to PID 1, except SIGKILL and SIGSTOP from outside: `pid_namespaces(7)`.
pub(crate) const HANDLED: [i32; 10] = [HUP, INT, QUIT, USR1, USR2, TERM, CHLD, CONT, TSTP, WINCH];

/// Action for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Forward the signal and start the grace period.
    End,
    /// Forward the signal.
    Forward,
    /// Reap children.
    Reap,
}

/// Returns the action for a signal.
pub(crate) fn action(signal: i32) -> Action {
    match signal {
        TERM | INT | QUIT => Action::End,
        CHLD => Action::Reap,
        _ => Action::Forward,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_is_the_documented_one_for_every_signal() {
        for signal in HANDLED {
            let expected = match signal {
                TERM | INT | QUIT => Action::End,
                CHLD => Action::Reap,
                HUP | USR1 | USR2 | WINCH | CONT | TSTP => Action::Forward,
                other => panic!("{other} is not documented"),
            };
            assert_eq!(action(signal), expected, "{signal}");
        }
    }
}
