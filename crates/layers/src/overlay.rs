//! Overlay engine: a stack of upper directories over the base, in the format of the kernel's overlayfs (overlayfs.rst).
//!
//! A whiteout is a character device 0/0, or an empty file with the attribute `user.overlay.whiteout`. A directory with
//! `user.overlay.opaque=y` hides the base's directory. Everything here was written from inside a sandbox, so it is read
//! by descriptor and no link is ever followed.

mod upper;
mod stack;
mod copy;

pub use copy::flatten;
pub use stack::Stack;
