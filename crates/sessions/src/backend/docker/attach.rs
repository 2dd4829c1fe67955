//! Attaching to the terminal of a container's agent. The engine owns it and relays input and output.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, ResizeContainerTTYOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use sandbox_linux::pty::Size;
use sandbox_protocol::exit::{ExitCode, by_signal};
use tokio::sync::mpsc;

use super::process::{self, Notes, Order};
use crate::backend::{Connection, EndOfInput, Ended};

/// Detach keys of the engine. Ours are handled before input reaches it, so these are set to a sequence that is unlikely
/// in input.
const ENGINES_KEYS: &str = "ctrl-^,ctrl-_,ctrl-^,ctrl-_";
/// Time after which a caller that does not read output is detached. The engine would block the agent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Attaches, and returns as soon as output is relayed.
pub(super) fn start(docker: Docker, container: String, size: Size) -> io::Result<Connection> {
    let (typed, stdin) = process::pipe()?;
    let (stdout, shown) = process::pipe()?;
    let process = process::attended(move |inbox, notes| {
        Box::pin(watch(Attached { docker, container }, size, [typed, shown], inbox, notes))
    })?;
    let end_of_input = EndOfInput::Closed;
    Ok(Connection { stdin: Some(stdin), stdout: Some(stdout), stderr: None, end_of_input, process })
}

struct Attached {
    docker: Docker,
    container: String,
}

async fn watch(
    agent: Attached,
    size: Size,
    [typed, shown]: [OwnedFd; 2],
    mut inbox: mpsc::UnboundedReceiver<Order>,
    notes: Notes,
) -> Ended {
    // Wait for the end before attaching, so that no end is missed. The engine may restart the agent at once.
    let end = tokio::spawn(code(agent.docker.clone(), agent.container.clone()));
    let AttachContainerResults { mut output, input } = match agent.attach().await {
        Ok(attached) => attached,
        Err(error) => {
            let ended = process::lost(&error);
            notes.started(Err(error));
            return ended;
        }
    };
    notes.started(Ok(()));
    // Full-screen programs redraw when the size changes.
    agent.resize(Size { rows: size.rows.saturating_add(1), ..size }).await;
    agent.resize(size).await;
    let typing = tokio::spawn(process::feed(typed, input));
    let (shown, thread) = process::sink(shown);
    let left = loop {
        tokio::select! {
            piece = output.next() => match piece {
                None => break None,
                Some(Err(error)) => break Some(process::lost(&error)),
                Some(Ok(piece)) => {
                    let shown = shown.send_timeout(piece.into_bytes(), PATIENCE).await;
                    if shown.is_err() {
                        let why = "detached, because the agent's output was not read";
                        break Some(Ended { code: ExitCode::Setup.code(), why: Some(why.into()) });
                    }
                }
            },
            order = inbox.recv() => match order {
                Some(Order::Resize(size)) => agent.resize(size).await,
                // Detach. The agent keeps running.
                Some(Order::Signal(signal)) => {
                    return Ended { code: by_signal(signal), why: None };
                }
                None => return Ended { code: 0, why: None },
            },
        }
    };
    typing.abort();
    drop(shown);
    if let Some(left) = left {
        return left;
    }
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    let code = tokio::time::timeout(PATIENCE, end).await.ok().and_then(Result::ok).flatten();
    Ended { code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255), why: None }
}

/// Waits for the agent to end, and returns its exit code.
async fn code(docker: Docker, container: String) -> Option<i64> {
    let next = WaitContainerOptionsBuilder::default().condition("next-exit").build();
    let answer = docker.wait_container(&container, Some(next)).next().await?;
    match answer {
        Ok(answer) => Some(answer.status_code),
        Err(Error::DockerContainerWaitError { code, .. }) => Some(code),
        Err(_) => None,
    }
}

impl Attached {
    async fn attach(&self) -> Result<AttachContainerResults, Error> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .detach_keys(ENGINES_KEYS)
            .build();
        self.docker.attach_container(&self.container, Some(options)).await
    }

    async fn resize(&self, size: Size) {
        let (rows, columns) = (i32::from(size.rows), i32::from(size.columns));
        let options = ResizeContainerTTYOptionsBuilder::default().h(rows).w(columns).build();
        // The agent may have just ended.
        let _ = self.docker.resize_container_tty(&self.container, options).await;
    }
}
