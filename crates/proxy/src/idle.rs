//! Notices that nothing moves any more, without touching a timer for everything that does.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// One direction of a body.
#[derive(Debug)]
pub(crate) struct Idle {
    limit: Duration,
    /// Made when something is waited for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    moved: bool,
}

impl Idle {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, timer: None, moved: false }
    }

    /// Something came.
    pub(crate) fn moved(&mut self) {
        self.moved = true;
    }

    /// Ready when nothing came for the whole time. Called when there is nothing now.
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
