//! Log of a session.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::Service;
use crate::backend::Listen;
use crate::error::ControlError;
use crate::session::{Session, State};

/// Interval between reads of a followed log.
const PAUSE: Duration = Duration::from_millis(100);

impl Service {
    /// Passes on the log of a session's agent and supervisor, until `each` returns false.
    pub fn log(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), ControlError> {
        if self.logs(session, how, each)? {
            return Ok(());
        }
        let path = self.data_dir().log(&session.id);
        let mut text = read(&self.data_dir().old_log(&session.id), 0)?;
        let present = read(&path, 0)?;
        let at = present.len() as u64;
        text.extend(present);
        let shown = how.tail.map_or(&text[..], |lines| tail(&text, lines));
        if each(shown) && how.follow { self.follow(session, &path, at, each) } else { Ok(()) }
    }

    fn follow(
        &self,
        session: &Session,
        path: &Path,
        mut at: u64,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), ControlError> {
        loop {
            // Observed before the read, so that nothing written before the end is missed.
            let current = self.sessions()?.into_iter().find(|other| other.id == session.id);
            let state = current.map(|current| self.observe(&current)).transpose()?;
            let is_up =
                state.is_some_and(|seen| matches!(seen.state, State::Running | State::Starting));
            if std::fs::metadata(path).is_ok_and(|log| log.len() < at) {
                at = 0;
            }
            let more = read(path, at)?;
            at += more.len() as u64;
            if !more.is_empty() && !each(&more) || !is_up {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn read(path: &Path, from: u64) -> Result<Vec<u8>, ControlError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut text)
    });
    match read {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ControlError::File { what: "read", path: path.to_path_buf(), source })
        }
        _ => Ok(text),
    }
}

/// Returns the last lines of a text.
fn tail(text: &[u8], lines: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    if lines == 0 {
        return &[];
    }
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    breaks.skip(lines - 1).map(|(at, _)| &text[at + 1..]).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn tail_returns_the_last_lines_when_there_are_enough() {
        for (text, lines, expected) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\n", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(tail(text.as_bytes(), lines), expected.as_bytes(), "{text:?} {lines}");
        }
    }
}
