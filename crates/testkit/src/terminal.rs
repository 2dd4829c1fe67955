//! Commands on a pseudo-terminal, with keys, a screen and job control.

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

/// Sends SIGINT.
pub const CTRL_C: &str = "\x03";
/// Ends the input.
pub const CTRL_D: &str = "\x04";
/// Sends SIGTSTP.
pub const CTRL_Z: &str = "\x1a";
/// Ends a line.
pub const ENTER: &str = "\r";

/// Command on a terminal of 24 rows and 80 columns. It is killed when the value is dropped.
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
        let copy = || theirs.try_clone().expect("cannot duplicate a descriptor");
        let mut command = line.command(&["--ctty"]);
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}\n{line}"));
        let keyboard = File::from(ours);
        let screen = Tape::of(keyboard.try_clone().expect("cannot duplicate a descriptor"));
        Self { line: line.to_string(), child, keyboard, screen, _root: line.root.clone() }
    }

    /// Returns the process ID of the command, which is the terminal's session leader.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Types keys.
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

    /// Waits for a text on the screen, after the text of the last wait. The terminal echoes keys, so wait for a text that only
    /// the command writes.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        assert!(self.screen.wait_for(text), "never saw {text:?}\n{}", self.transcript());
    }

    /// As an interactive shell: starts `exec`, a command line up to the program, with a program that it suspends,
    /// continues and interrupts by keys.
    #[track_caller]
    pub fn suspends_and_continues(&mut self, exec: &str) {
        self.enter(&format!(
            "{exec} sh -c 'trap \"echo con''tinued\" CONT; sleep 999 & echo be''gan; wait; wait'"
        ));
        self.wait_for("began");
        self.keys(CTRL_Z);
        self.wait_for("Stopped");
        self.enter("stty -a | grep -o ' icanon'; echo host-$((40 + 2))");
        self.wait_for(" icanon");
        self.wait_for("host-42");
        self.enter("fg");
        self.wait_for("continued");
        self.keys(CTRL_C);
        self.wait_for("bash-");
        self.enter("echo code-$?");
        self.wait_for("code-130");
    }

    /// Returns everything written to the screen, with control sequences.
    pub fn output(&self) -> String {
        self.screen.text()
    }

    /// Resizes the window. The foreground job gets SIGWINCH.
    #[track_caller]
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.keyboard, rows, columns);
    }

    /// Sends a signal to the command, but not to its group.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot signal: {error}\n{}", self.transcript()));
    }

    /// Waits for the command to exit. The screen becomes its stdout.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        let status = wait_within(&mut self.child, Tape::patience());
        let status = status.unwrap_or_else(|| panic!("still running\n{}", self.transcript()));
        let closed = self.screen.wait_for_end();
        let run = Run {
            line: self.line.clone(),
            status,
            stdout: self.screen.bytes(),
            stderr: Vec::new(),
        };
        assert!(closed, "another process outlived the command and holds its terminal\n{run}");
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

/// Opens a pseudo-terminal. Returns the controlling side and the command's.
fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).expect("cannot open `/dev/ptmx`");
    grantpt(&ours).expect("cannot use the terminal");
    unlockpt(&ours).expect("cannot use the terminal");
    let theirs = ioctl_tiocgptpeer(&ours, flags).expect("cannot open the terminal's peer");
    resize(&ours, 24, 80);
    (ours, theirs)
}

#[track_caller]
fn resize(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("cannot resize the terminal");
}
