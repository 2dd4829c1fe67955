//! Log of a session as server-sent events, one per line.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::Shared;
use super::answer::{Refused, blocking, find};
use super::extract::{Named, Parameters};
use super::openapi::{Describe, Operation};
use super::wire::Problem;
use crate::backend::Listen;
use crate::service::Service;
use crate::session::{Session, State as SessionState};

/// Interval between reads of a followed log.
const PAUSE: Duration = Duration::from_millis(200);
/// Size of a read.
const STEP: u64 = 256 << 10;
/// Maximum length of a line. Longer ones are split, so that endless output cannot fill the memory.
const LONGEST: usize = 64 << 10;
/// Number of buffered pieces of a backend's log.
const QUEUE: usize = 16;
/// Interval between attempts to queue a piece.
const RETRY: Duration = Duration::from_millis(5);

/// Query of a log call.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct LogOptions {
    /// Continue until the session ends.
    #[serde(default)]
    follow: bool,
}

struct Reader {
    source: Source,
    rest: Vec<u8>,
    lines: VecDeque<String>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

/// Source of log lines.
enum Source {
    /// The session's own log file.
    File(Followed),
    /// A backend that stores the log.
    Backend(mpsc::Receiver<Vec<u8>>),
}

/// Response with server-sent events.
pub(super) struct EventStream(Response);

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Describe for EventStream {
    fn describe(operation: &mut Operation<'_>) {
        let content = json!({ "text/event-stream": { "schema": { "type": "string" } } });
        operation.answer(200, Some(content));
        operation.problems(&[429]);
    }
}

/// Streams the log.
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(LogOptions { follow }): Parameters<LogOptions>,
) -> Result<EventStream, Refused> {
    let permit = Arc::clone(&shared.streams).try_acquire_owned();
    let permit = permit.map_err(|_| Problem::new("busy", "too many concurrent streams"))?;
    let found = blocking(&shared, move |operator| find(operator, &name)).await;
    let source = source(found?, follow, &shared);
    let reader = Reader { source, rest: Vec::new(), lines: VecDeque::new(), _permit: permit };
    let events = unfold(reader, |mut reader| async {
        let line = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Event::default().data(line)), reader))
    });
    Ok(EventStream(Sse::new(events).into_response()))
}

fn source((service, session): (Service, Session), follow: bool, shared: &Arc<Shared>) -> Source {
    if !service.backend_keeps_log(&session) {
        let path = service.data_dir().log(&session.id);
        let (name, shared) = (session.id.as_str().to_owned(), Arc::clone(shared));
        return Source::File(Followed { shared, name, path, at: 0, follow });
    }
    let (sender, receiver) = mpsc::channel(QUEUE);
    // The thread ends with the log, or soon after its reader.
    std::thread::spawn(move || {
        let mut each = |text: &[u8]| pass(&sender, text);
        match service.logs(&session, Listen { tail: None, follow }, &mut each) {
            Ok(true) => {}
            // The container is gone. Its log was saved.
            Ok(false) => {
                let kept = std::fs::read(service.data_dir().log(&session.id)).unwrap_or_default();
                let _ = kept.chunks(LONGEST).all(|piece| pass(&sender, piece));
            }
            Err(error) => {
                pass(&sender, format!("{error}\n").as_bytes());
            }
        }
    });
    Source::Backend(receiver)
}

/// Queues a piece as soon as there is capacity. Returns false if the reader is gone.
fn pass(sender: &mpsc::Sender<Vec<u8>>, text: &[u8]) -> bool {
    let mut piece = text.to_vec();
    loop {
        match sender.try_send(piece) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            // `blocking_send` would panic: this is called from within the runtime of the Docker
            // client.
            Err(TrySendError::Full(again)) => piece = again,
        }
        std::thread::sleep(RETRY);
    }
}

impl Reader {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let more = match &mut self.source {
                Source::File(followed) => followed.more().await,
                Source::Backend(receiver) => receiver.recv().await,
            };
            let Some(text) = more else {
                let last = std::mem::take(&mut self.rest);
                return (!last.is_empty()).then(|| shown(&last));
            };
            self.rest.extend(text);
            self.lines.extend(lines(&mut self.rest));
        }
    }
}

/// File that may grow.
struct Followed {
    shared: Arc<Shared>,
    name: String,
    path: PathBuf,
    at: u64,
    follow: bool,
}

impl Followed {
    /// Returns new text, or `None` at the end.
    async fn more(&mut self) -> Option<Vec<u8>> {
        loop {
            // Observed before the read, so that nothing written before the end is missed.
            let is_up = self.follow && self.is_up().await;
            let new = self.read();
            if !new.is_empty() {
                return Some(new);
            }
            if !is_up {
                return None;
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

    fn read(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            if file.metadata()?.len() < self.at {
                self.at = 0;
            }
            file.seek(SeekFrom::Start(self.at))?;
            file.take(STEP).read_to_end(&mut text)
        });
        // A log that cannot be read counts as empty.
        self.at += read.unwrap_or(0) as u64;
        text
    }
}

/// Removes whole lines and overlong pieces from a text.
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

/// Decodes a line. Line breaks and NUL would end or corrupt the event.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).replace(['\r', '\n', '\0'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_splits_text_without_line_breaks() {
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
