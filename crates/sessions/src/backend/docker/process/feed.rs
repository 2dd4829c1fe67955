//! Transfer of bytes between a caller and a command: input in frames, output to the caller's descriptors.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use bollard::errors::Error;
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_protocol::attend::Frame;
use sandbox_protocol::multicall::Personality;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::{Input, Output, QUEUE, Target, attendant, begin, beside};

/// Amount of input that is sent before a guard watches for the end of this process. `attend` buffers twice as much unread
/// input, and cannot see the end of the connection behind more.
const UNGUARDED: usize = 1 << 19;

/// Reads input and queues it as frames, with a frame for the end of input.
pub(super) fn read_input(stdin: OwnedFd, frames: mpsc::Sender<Bytes>) {
    std::thread::spawn(move || {
        let mut file = File::from(stdin);
        let mut piece = vec![0; 1 << 16];
        while let Ok(count @ 1..) = file.read(&mut piece) {
            if frames.blocking_send(Frame::input(&piece[..count]).into()).is_err() {
                return;
            }
        }
        let _ = frames.blocking_send(Frame::end().into());
    });
}

/// Forwards frames. Does not shut down the connection at the end of input, because that would signal the end of the
/// caller.
pub(super) async fn write_frames(
    mut queue: mpsc::Receiver<Bytes>,
    mut input: Input,
    target: Arc<Target>,
    id: String,
) {
    let (mut sent, mut guarding) = (0, None);
    while let Some(frame) = queue.recv().await {
        sent += frame.len();
        if sent > UNGUARDED && guarding.is_none() {
            // Input is sent even if the guard cannot be started.
            guarding = Some(guard(&target, &id).await.ok().flatten());
        }
        if input.write_all(&frame).await.is_err() || input.flush().await.is_err() {
            break;
        }
    }
    // The guard treats the end of this task as the end of the caller.
    std::future::pending::<()>().await;
}

/// Starts a process that kills the command when this process ends, and waits until it is ready.
async fn guard(target: &Target, id: &str) -> Result<Option<(Output, Input)>, Error> {
    let Some(pid) = attendant(target, id).await? else { return Ok(None) };
    let config = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        ..beside(target, &[Personality::Guard.word(), &pid.to_string()])
    };
    let (_, mut output, input) = begin(target, config).await?;
    let _ = output.next().await;
    Ok(Some((output, input)))
}

/// Forwards input until its end, then shuts down the connection.
pub(in crate::backend::docker) async fn feed(
    stdin: OwnedFd,
    mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    std::thread::spawn(move || {
        let mut file = File::from(stdin);
        let mut piece = vec![0; 1 << 16];
        while let Ok(count) = file.read(&mut piece) {
            if count == 0 || sender.blocking_send(Bytes::copy_from_slice(&piece[..count])).is_err()
            {
                break;
            }
        }
    });
    while let Some(piece) = receiver.recv().await {
        if input.write_all(&piece).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    let _ = input.shutdown().await;
}

/// Starts a thread that writes the bytes it receives to a descriptor.
pub(in crate::backend::docker) fn sink(to: OwnedFd) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    let thread = std::thread::spawn(move || {
        let mut file = File::from(to);
        while let Some(piece) = receiver.blocking_recv() {
            // The reader is gone. Drop the rest.
            if file.write_all(&piece).is_err() {
                break;
            }
        }
    });
    (sender, thread)
}
