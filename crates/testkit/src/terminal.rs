//! A command on a terminal of its own: keys in, screen out, job control as for a user.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::{Tape, end, wait_within};
use crate::root::Root;
use crate::run::{Line, Run};

/// The key that interrupts.
pub const CTRL_C: &str = "\x03";
/// The key that ends the input.
pub const CTRL_D: &str = "\x04";
/// The key that stops.
pub const CTRL_Z: &str = "\x1a";
/// The key that sends a line.
pub const ENTER: &str = "\r";

/// A command on a terminal of 24 rows and 80 columns. It is killed when the test lets go of it.
#[derive(Debug)]
pub struct Terminal {
    line: String,
    child: Child,
    keyboard: File,
    screen: Tape,
    _root: Arc<Root>,
}

impl Terminal {
    #[track_caller]
    pub(crate) fn start(line: &Line) -> Self {
        let (ours, theirs) = open();
        let copy = || theirs.try_clone().expect("a descriptor is free");
        let mut command = line.command(&["--ctty"]);
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}\n{line}"));
        let keyboard = File::from(ours);
        let screen = Tape::of(keyboard.try_clone().expect("a descriptor is free"));
        Self { line: line.to_string(), child, keyboard, screen, _root: line.root.clone() }
    }

    /// The process id of the command, which leads the terminal's session.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Types these keys.
    #[track_caller]
    pub fn keys(&mut self, keys: &str) {
        let typed = self.keyboard.write_all(keys.as_bytes());
        typed
            .unwrap_or_else(|error| panic!("cannot type {keys:?}: {error}\n{}", self.transcript()));
    }

    /// Types a line.
    #[track_caller]
    pub fn enter(&mut self, line: &str) {
        self.keys(&format!("{line}{ENTER}"));
    }

    /// Waits until this is written to the screen, after what was waited for before. The terminal echoes
    /// keys, so look for what only the answer has in it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        assert!(self.screen.wait_for(text), "never saw {text:?}\n{}", self.transcript());
    }

    /// Everything written to the screen so far, with its control sequences.
    pub fn output(&self) -> String {
        self.screen.text()
    }

    /// Changes the window's size; the foreground job gets SIGWINCH.
    #[track_caller]
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.keyboard, rows, columns);
    }

    /// Sends a signal to the command alone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot signal: {error}\n{}", self.transcript()));
    }

    /// Waits for the end of the command. What was on the screen is its stdout.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        let status = wait_within(&mut self.child, Tape::patience());
        let status = status.unwrap_or_else(|| panic!("no end\n{}", self.transcript()));
        let closed = self.screen.wait_for_end();
        let run = Run {
            line: self.line.clone(),
            status,
            stdout: self.screen.bytes(),
            stderr: Vec::new(),
        };
        assert!(closed, "something outlived the command and holds its terminal\n{run}");
        run
    }

    fn transcript(&self) -> String {
        format!("{}\n--- screen\n{}\n---", self.line, self.output())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Both ends of a new terminal: the keyboard's and the command's.
fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).expect("`/dev/ptmx` opens");
    grantpt(&ours).expect("the terminal is ours");
    unlockpt(&ours).expect("the terminal is ours");
    let theirs = ioctl_tiocgptpeer(&ours, flags).expect("the terminal has a peer");
    resize(&ours, 24, 80);
    (ours, theirs)
}

#[track_caller]
fn resize(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("the terminal is open");
}
