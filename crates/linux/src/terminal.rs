//! Prompts for secrets.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// Maximum length of a secret.
const LONGEST: usize = 64 << 10;

/// Shows a prompt on the terminal and reads a line without echo. Returns `None` if the user cancels with ^C, ^D or ^Z.
pub fn hidden_line(prompt: &str) -> io::Result<Option<Vec<u8>>> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let line = {
        let _quiet = Quiet::begin(terminal.as_fd())?;
        // After echo is off, because users type as soon as they see the prompt.
        (&terminal).write_all(prompt.as_bytes())?;
        line(&terminal)
    };
    terminal.write_all(b"\n")?;
    line
}

/// Terminal without echo and signals, restored on drop. Keys that would end the program arrive as characters, so that
/// the terminal is always restored.
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
        // `drop` cannot report an error, and the terminal may be gone.
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
