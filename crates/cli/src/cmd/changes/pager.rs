//! Pager for long output on a terminal.

use std::io::Write;
use std::process::{Child, Stdio as Pipes};

use sandbox_policy::Host;

use crate::ui::Stdio;

/// Destination of long text.
pub(crate) enum Pager {
    /// Pager process.
    Running(Box<Child>),
    /// Standard output.
    None,
}

impl Pager {
    /// Starts `$PAGER`, else `less`, if stdout is a terminal. Without either, text goes to stdout.
    pub(crate) fn start(host: &Host, io: &Stdio<'_>) -> Self {
        if !io.terminal {
            return Self::None;
        }
        let asked = host.env.get(std::ffi::OsStr::new("PAGER")).cloned();
        let command = match asked {
            Some(none) if none.is_empty() || none == "cat" => return Self::None,
            Some(command) => command,
            None => "less -R".into(),
        };
        let mut pager = sandbox_linux::process::command("/bin/sh");
        pager.arg("-c").arg(&command).stdin(Pipes::piped());
        if host.var("LESS").is_none() {
            pager.env("LESS", "FRX");
        }
        pager.spawn().map_or(Self::None, |child| Self::Running(Box::new(child)))
    }

    /// Shows text. Returns false when the pager has exited.
    pub(crate) fn show(&mut self, text: &str, io: &mut Stdio<'_>) -> bool {
        match self {
            Self::None => {
                io.data(text);
                true
            }
            Self::Running(child) => {
                child.stdin.as_mut().is_some_and(|pipe| pipe.write_all(text.as_bytes()).is_ok())
            }
        }
    }

    /// Waits until the pager exits.
    pub(crate) fn finish(self) {
        if let Self::Running(mut child) = self {
            drop(child.stdin.take());
            // The pager's exit status has no meaning for the command.
            let _ = child.wait();
        }
    }
}
