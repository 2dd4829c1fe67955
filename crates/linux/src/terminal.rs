//! Asking for what must not be seen.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// No secret that somebody types or pastes is longer.
const LONGEST: usize = 64 << 10;

/// Shows a prompt on the terminal and reads a line that does not appear there. `None` when the user
/// gives up by ^C, ^D or ^Z.
pub fn hidden_line(prompt: &str) -> io::Result<Option<Vec<u8>>> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let line = {
        let _quiet = Quiet::begin(terminal.as_fd())?;
        // Not before: whoever sees the prompt begins to type.
        (&terminal).write_all(prompt.as_bytes())?;
        line(&terminal)
    };
    terminal.write_all(b"\n")?;
    line
}

/// A terminal that shows nothing and sends no signals, until this is dropped. Keys that would end the
/// program come as characters: it must not end before the terminal is as it was.
struct Quiet<'t> {
    terminal: BorrowedFd<'t>,
    before: Termios,
}

impl<'t> Quiet<'t> {
    fn begin(terminal: BorrowedFd<'t>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes -=
            LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // There is nobody to tell if the terminal is gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

fn line(mut terminal: &File) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut key = [0];
    loop {
        if terminal.read(&mut key)? == 0 {
            return Ok(None);
        }
        match key[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            // ^C, ^D, ^Z, ^\
            0x03 | 0x04 | 0x1a | 0x1c => return Ok(None),
            // Backspace, ^U
            0x08 | 0x7f => drop(line.pop()),
            0x15 => line.clear(),
            byte if line.len() < LONGEST => line.push(byte),
            _ => return Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
}
