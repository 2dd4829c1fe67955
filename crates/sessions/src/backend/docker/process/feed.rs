//! Bytes between a caller and a command: input in frames, output to wherever the caller wants it.

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

/// Input that is sent before a guard watches for the end of this process. `attend` holds twice as much of what the
/// command does not read, and sees no end behind more than that.
const UNGUARDED: usize = 1 << 19;

/// Reads the input until its end, which the command is told of.
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

/// Passes frames on. The connection is not shut down at the end of the input: that would be the end of the caller.
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
            // Without a guard the input is sent all the same.
            guarding = Some(guard(&target, &id).await.ok().flatten());
        }
        if input.write_all(&frame).await.is_err() || input.flush().await.is_err() {
            break;
        }
    }
    // The guard takes the end of this for the end of the caller.
    std::future::pending::<()>().await;
}

/// Starts a process that kills the command when this one is gone, and waits until it watches.
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

/// Passes the input on until its end, which the command is told of.
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

/// A thread that writes what it is sent.
pub(in crate::backend::docker) fn sink(to: OwnedFd) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    let thread = std::thread::spawn(move || {
        let mut file = File::from(to);
        while let Some(piece) = receiver.blocking_recv() {
            // The reader has gone: the rest is dropped.
            if file.write_all(&piece).is_err() {
                break;
            }
        }
    });
    (sender, thread)
}
