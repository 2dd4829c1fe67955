//! Upload limits. An allowed host that accepts uploads from any account could be used to exfiltrate data, and a limit
//! bounds the amount.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that may still be sent to the hosts of one entry in this run.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Reserves up to `wanted` bytes. Returns the number reserved.
    fn take(&self, wanted: usize) -> usize {
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let rest = |left: u64| Some(left.saturating_sub(wanted));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        usize::try_from(wanted.min(before.unwrap_or_default())).unwrap_or(usize::MAX)
    }

    fn give_back(&self, unused: usize) {
        self.0.fetch_add(unused as u64, Ordering::Relaxed);
    }
}

/// Connection to a server that charges writes to a budget.
#[derive(Debug)]
pub(super) struct Metered {
    stream: TcpStream,
    budget: Option<Arc<Budget>>,
    over: Over,
}

/// Flag that outlives a connection: set when it ended because its budget was used up.
#[derive(Debug, Clone, Default)]
pub(super) struct Over(Arc<AtomicBool>);

impl Over {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metered {
    pub(super) fn new(stream: TcpStream, budget: Option<Arc<Budget>>) -> Self {
        Self { stream, budget, over: Over::default() }
    }

    pub(super) fn over(&self) -> Over {
        self.over.clone()
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(budget) = self.budget.clone() else {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        };
        let granted = budget.take(bytes.len());
        if granted == 0 && !bytes.is_empty() {
            self.over.0.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, &bytes[..granted]);
        let used = if let Poll::Ready(Ok(used)) = written { used } else { 0 };
        budget.give_back(granted - used);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_grants_at_most_what_is_left() {
        let budget = Budget::new(10);
        assert_eq!((budget.take(6), budget.take(6), budget.take(6)), (6, 4, 0));
        assert!(budget.is_used_up());
        budget.give_back(3);
        assert!(!budget.is_used_up());
        assert_eq!(budget.take(usize::MAX), 3);
    }

    #[test]
    fn concurrent_takes_share_the_budget() {
        let budget = Budget::new(1000);
        let taken: usize = std::thread::scope(|scope| {
            let each = || (0..200).map(|_| budget.take(7)).sum::<usize>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }
}
