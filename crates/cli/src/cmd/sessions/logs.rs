//! `logs`: what a session's agent and its supervisor said.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use sandbox_core::Host;
use sandbox_sessions::backend::Listen;
use sandbox_sessions::session::{Session, State};
use sandbox_sessions::{ControlError, Service};

use super::service;
use crate::args::Flags;
use crate::args::sessions::Logs;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows the log of a session, and goes on if asked to.
pub(crate) fn run(logs: &Logs, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, logs.name.as_ref(), flags, host)?;
    let how = Listen { tail: logs.tail, follow: logs.follow };
    if service.logs(&session, how, &mut |text| io.said(text))? {
        return Ok(0);
    }
    let path = service.data_dir().log(&session.id);
    let mut text = read(&service.data_dir().old_log(&session.id), 0)?;
    let present = read(&path, 0)?;
    let mut at = present.len() as u64;
    text.extend(present);
    let shown = logs.tail.map_or(&text[..], |lines| tail(&text, lines));
    if !io.said(shown) || !logs.follow {
        return Ok(0);
    }
    follow(&service, &session, &path, &mut at, io)
}

fn follow(
    service: &Service,
    session: &Session,
    path: &Path,
    at: &mut u64,
    io: &mut Stdio<'_>,
) -> Outcome {
    loop {
        // Looked at before the log: what was said before the end is shown.
        let current = service.sessions()?.into_iter().find(|other| other.id == session.id);
        let is_up = match &current {
            Some(current) => {
                matches!(service.observe(current)?.state, State::Running | State::Starting)
            }
            None => false,
        };
        if std::fs::metadata(path).is_ok_and(|log| log.len() < *at) {
            *at = 0;
        }
        let more = read(path, *at)?;
        *at += more.len() as u64;
        if !more.is_empty() && !io.said(&more) || !is_up {
            return Ok(0);
        }
        std::thread::sleep(PAUSE);
    }
}

fn read(path: &Path, from: u64) -> Result<Vec<u8>, Failed> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut text)
    });
    match read {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ControlError::File { what: "read", path: path.to_path_buf(), source }.into())
        }
        _ => Ok(text),
    }
}

/// The last lines of a text.
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
    fn tail_shows_as_many_lines_as_there_are_at_most() {
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
