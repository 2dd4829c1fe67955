//! Preloading: the content of a small file is pushed into the kernel's page cache when the file is
//! opened, which saves a read request.
//!
//! The file must have no other opener, and opening or truncating it waits until the push is done.
//! So the pushed content is current, and the kernel has no pages that it could overwrite.

use std::sync::{MutexGuard, PoisonError};

use super::content::SMALL;
use super::node::{Body, Node};
use super::{State, Tree};

impl Tree {
    /// Reads the content of a file that was just opened for reading, if it should be preloaded. The
    /// caller must call [`Self::end_preload`] afterwards.
    pub(crate) fn preload(&self, id: u64, buffer: &mut Vec<u8>) -> Option<usize> {
        let size = {
            let mut state = self.lock();
            let node = state.node_mut(id).ok().filter(|node| can_preload(node))?;
            (node.preloading, node.preloaded) = (true, true);
            usize::try_from(node.inode.size).ok()?
        };
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        match self.read(id, 0, &mut buffer[..size]) {
            Ok(length) if length == size => Some(size),
            _ => {
                self.end_preload(id);
                None
            }
        }
    }

    /// Ends the preload of a file.
    pub(crate) fn end_preload(&self, id: u64) {
        if let Ok(node) = self.lock().node_mut(id) {
            node.preloading = false;
        }
        self.preloading.notify_all();
    }

    /// Locks the state while the file is not being preloaded.
    pub(super) fn lock_after_preload(&self, id: u64) -> MutexGuard<'_, State> {
        let state = self.lock();
        let busy = |state: &mut State| state.nodes.get(&id).is_some_and(|node| node.preloading);
        self.preloading.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true when a file has one opener and was not preloaded yet.
fn can_preload(node: &Node) -> bool {
    let small = (1..=SMALL).contains(&node.inode.size);
    let held = matches!(node.body, Body::Base(_) | Body::Stored);
    node.opens == 1 && !node.preloaded && small && held
}
