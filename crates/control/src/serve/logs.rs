//! The log of a session as events, one for each line.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;

use super::Shared;
use super::answer::{Refused, blocking, find};
use super::routes::{Word, word};
use super::wire::Problem;
use crate::session::State as SessionState;

/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(200);
/// How much is read at a time.
const STEP: u64 = 256 << 10;
/// A line that is longer is passed on in pieces: a program that never ends one must not fill the memory.
const LONGEST: usize = 64 << 10;

/// How.
#[derive(Debug, Deserialize)]
pub(super) struct How {
    /// Whether to go on until the session ends.
    #[serde(default)]
    follow: bool,
}

struct Reader {
    shared: Arc<Shared>,
    name: String,
    path: PathBuf,
    at: u64,
    rest: Vec<u8>,
    lines: std::collections::VecDeque<String>,
    follow: bool,
    _place: tokio::sync::OwnedSemaphorePermit,
}

/// Streams the log.
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    name: Word,
    how: Result<Query<How>, QueryRejection>,
) -> Result<Response, Refused> {
    let name = word(name)?;
    let Query(how) = how.map_err(|error| {
        Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", error.body_text()))
    })?;
    let place = Arc::clone(&shared.room).try_acquire_owned();
    let place = place.map_err(|_| Problem::new("busy", "too many streams at a time"))?;
    let (id, path) = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        Ok((session.id.as_str().to_owned(), service.place().log(&session.id)))
    })
    .await?;
    let reader = Reader {
        shared,
        name: id,
        path,
        at: 0,
        rest: Vec::new(),
        lines: std::collections::VecDeque::new(),
        follow: how.follow,
        _place: place,
    };
    let events = unfold(reader, |mut reader| async {
        let line = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Event::default().data(line)), reader))
    });
    Ok(Sse::new(events).into_response())
}

impl Reader {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            // Looked at before the log: what was said before the end is shown.
            let is_up = self.follow && self.is_up().await;
            let new = self.read();
            if new > 0 {
                continue;
            }
            if !is_up {
                let last = std::mem::take(&mut self.rest);
                return (!last.is_empty()).then(|| shown(&last));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn is_up(&self) -> bool {
        let name = self.name.clone();
        let state = blocking(&self.shared, move |operator| {
            let (service, session) = find(operator, &name)?;
            Ok(service.observe(&session)?.state)
        });
        matches!(state.await, Ok(SessionState::Running | SessionState::Starting))
    }

    /// Reads what is new; returns how much.
    fn read(&mut self) -> usize {
        let mut text = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            if file.metadata()?.len() < self.at {
                self.at = 0;
            }
            file.seek(SeekFrom::Start(self.at))?;
            file.take(STEP).read_to_end(&mut text)
        });
        // A log that cannot be read says nothing.
        let read = read.unwrap_or(0);
        self.at += read as u64;
        self.rest.append(&mut text);
        self.lines.extend(lines(&mut self.rest));
        read
    }
}

/// Takes whole lines out of a text, and what is too long for one.
fn lines(text: &mut Vec<u8>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let left = &text[start..];
        let end = left.iter().take(LONGEST).position(|byte| *byte == b'\n');
        match end {
            Some(end) => {
                lines.push(shown(&left[..end]));
                start += end + 1;
            }
            None if left.len() >= LONGEST => {
                lines.push(shown(&left[..LONGEST]));
                start += LONGEST;
            }
            None => break,
        }
    }
    text.drain(..start);
    lines
}

/// An event has no place for the characters that end it.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).replace(['\r', '\n', '\0'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_also_where_nobody_ends_them() {
        let mut text = b"one\ntw\ro\nrest".to_vec();
        assert_eq!(lines(&mut text), ["one", "tw o"]);
        assert_eq!(text, b"rest");
        let mut text = vec![b'x'; 2 * LONGEST + 5];
        assert_eq!(lines(&mut text).len(), 2);
        assert_eq!(text, b"xxxxx");
        text.push(b'\n');
        assert_eq!(lines(&mut text), ["xxxxx"]);
        assert!(text.is_empty());
    }
}
