//! Threads that copy bytes between a client and its command, one for each stream.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use sandbox_protocol::frame::{self, Frame, Kind, LONGEST, WINDOW};

use super::Event;

/// Broker's end of a client's socket. The lock keeps frames from different threads whole.
#[derive(Debug, Clone)]
pub(crate) struct Client(Arc<Mutex<UnixStream>>);

impl Client {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    pub(crate) fn send(&self, kind: Kind, body: &[u8]) -> io::Result<()> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *socket, kind, body)
    }

    /// Returns one of the two output streams.
    pub(crate) fn stream(&self, kind: Kind) -> Stream {
        Stream { client: self.clone(), kind }
    }
}

/// Output stream to a client.
#[derive(Debug)]
pub(crate) struct Stream {
    client: Client,
    kind: Kind,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(LONGEST)];
        self.client.send(self.kind, part)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counter and limit of a command's output.
#[derive(Debug)]
pub(crate) struct Meter {
    pub printed: AtomicU64,
    pub limit: u64,
}

/// Copies a command's output. Beyond the limit, discards it and reports the event.
pub(crate) fn output(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    meter: Arc<Meter>,
    events: Sender<Event>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; LONGEST];
        let mut open = true;
        loop {
            let length = match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let before = meter.printed.fetch_add(length as u64, Ordering::Relaxed);
            let room = meter.limit.saturating_sub(before);
            let passed = usize::try_from(room).unwrap_or(usize::MAX).min(length);
            if passed < length {
                let _ = events.send(Event::Flood);
            }
            // The reader of the client's socket notices that the client has gone. Until then, keep draining the output.
            open = open && to.write_all(&buffer[..passed]).and_then(|()| to.flush()).is_ok();
        }
    })
}

/// Reads a client's frames: input for the command, signals, and the end of the connection.
pub(crate) fn input(
    mut socket: UnixStream,
    client: Client,
    stdin: ChildStdin,
    events: Sender<Event>,
) {
    let (sender, receiver) = mpsc::channel();
    let granted = Arc::new(AtomicU64::new(WINDOW as u64));
    let account = granted.clone();
    thread::spawn(move || feed(stdin, &receiver, &client, &account));
    thread::spawn(move || {
        let mut sender = Some(sender);
        while let Ok(Some(frame)) = frame::read(&mut socket) {
            if !take(frame, &mut sender, &granted, &events) {
                break;
            }
        }
        let _ = events.send(Event::Gone);
    });
}

/// Handles one frame; returns false for one that no valid client sends.
fn take(
    Frame { kind, body }: Frame,
    sender: &mut Option<Sender<Vec<u8>>>,
    granted: &AtomicU64,
    events: &Sender<Event>,
) -> bool {
    match (kind, sender.as_ref()) {
        (Kind::Input, Some(input)) => {
            let length = body.len() as u64;
            let within = granted
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(length));
            within.is_ok() && input.send(body).is_ok()
        }
        (Kind::InputEnd, _) => {
            *sender = None;
            true
        }
        (Kind::Signal, _) => body
            .first()
            .is_some_and(|signal| events.send(Event::Signal(i32::from(*signal))).is_ok()),
        _ => false,
    }
}

/// Writes input to the command and grants the client more. A command that does not read its input is not an error.
fn feed(mut stdin: ChildStdin, input: &Receiver<Vec<u8>>, client: &Client, granted: &AtomicU64) {
    let mut open = true;
    let mut waiting = VecDeque::new();
    while let Ok(first) = input.recv() {
        waiting.push_back(first);
        waiting.extend(input.try_iter());
        while let Some(bytes) = waiting.pop_front() {
            open = open && stdin.write_all(&bytes).is_ok();
            granted.fetch_add(bytes.len() as u64, Ordering::AcqRel);
            let more = u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes();
            let _ = client.send(Kind::Grant, &more);
        }
    }
}
