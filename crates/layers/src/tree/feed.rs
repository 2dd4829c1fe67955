//! Small files whose content the kernel is given when they are opened, before it asks for it: that
//! saves a request for each file that is read.
//!
//! Nobody else has such a file open meanwhile, and whoever wants to open or cut it waits. So what is
//! given is true, and the kernel holds none of the pages that it is given for.

use std::sync::{MutexGuard, PoisonError};

use super::content::SMALL;
use super::node::{Body, Node};
use super::{State, Tree};

impl Tree {
    /// The content of a file that was just opened for reading, if the kernel should be given it.
    /// Then [`Self::fed`] must be called.
    pub(crate) fn feed(&self, id: u64, buffer: &mut Vec<u8>) -> Option<usize> {
        let size = {
            let mut state = self.lock();
            let node = state.node_mut(id).ok().filter(|node| is_hungry(node))?;
            (node.feeding, node.fed) = (true, true);
            usize::try_from(node.inode.size).ok()?
        };
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        match self.read(id, 0, &mut buffer[..size]) {
            Ok(length) if length == size => Some(size),
            _ => {
                self.fed(id);
                None
            }
        }
    }

    /// The kernel has what it was given.
    pub(crate) fn fed(&self, id: u64) {
        if let Ok(node) = self.lock().node_mut(id) {
            node.feeding = false;
        }
        self.feeding.notify_all();
    }

    /// The lock, at a time when the kernel is not being given a file.
    pub(super) fn lock_fed(&self, id: u64) -> MutexGuard<'_, State> {
        let state = self.lock();
        let busy = |state: &mut State| state.nodes.get(&id).is_some_and(|node| node.feeding);
        self.feeding.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true when nobody else has a file open, and the kernel has nothing of it yet.
fn is_hungry(node: &Node) -> bool {
    let small = (1..=SMALL).contains(&node.inode.size);
    let held = matches!(node.body, Body::Base(_) | Body::Stored);
    node.opens == 1 && !node.fed && small && held
}
