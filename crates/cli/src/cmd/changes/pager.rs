//! Showing more than a screen: through the user's pager, and only on a terminal.

use std::io::Write;
use std::process::{Child, Stdio as Pipes};

use sandbox_policy::Host;

use crate::ui::Stdio;

/// Where long text goes.
pub(crate) enum Pager {
    /// A process that shows it.
    Running(Box<Child>),
    /// Nobody between us and stdout.
    None,
}

impl Pager {
    /// Starts `$PAGER`, else `less`, on a terminal. Without either, the text is just printed.
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

    /// Shows text; false when nobody looks any more.
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

    /// Waits until the user has seen enough.
    pub(crate) fn finish(self) {
        if let Self::Running(mut child) = self {
            drop(child.stdin.take());
            // It was there to be looked at; how it ends says nothing.
            let _ = child.wait();
        }
    }
}
