//! Idle timeout that does not reset a timer for every piece of data.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Idle timeout of one direction of a body.
#[derive(Debug)]
pub(crate) struct Idle {
    limit: Duration,
    /// Created at the first wait.
    timer: Option<Pin<Box<Sleep>>>,
    moved: bool,
}

impl Idle {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, timer: None, moved: false }
    }

    /// Records progress.
    pub(crate) fn moved(&mut self) {
        self.moved = true;
    }

    /// Returns ready after a full period without progress. Call it when no data is available.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        while timer.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.moved) {
                return Poll::Ready(());
            }
            timer.as_mut().reset(Instant::now() + limit);
        }
        Poll::Pending
    }
}
