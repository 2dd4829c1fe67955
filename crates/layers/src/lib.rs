//! Copy-on-write layers: an agent's changes, stored separately from the files it was given.
//!
//! There are two implementations, the kernel's overlayfs and an AgentFS database served over FUSE.
//! Both are read through one trait, [`Layer`], so that reviewing, applying and discarding changes
//! is written once.
#![cfg(target_os = "linux")]

mod path;
pub mod store;
pub mod change;
pub mod tree;
pub mod fuse;
pub mod mount;
pub mod database;
pub mod transfer;
pub mod overlay;
pub mod folder;
pub mod session;
pub mod host;
pub mod diff;
mod repository;
pub mod apply;
pub mod git;
pub mod review;

pub use change::{Layer, LayerEntry, LayerError, Meta, Node};
pub use path::RelPath;
