//! The kernel's engine: a stack of upper directories over the base, as overlayfs writes them.
//!
//! A whiteout is a character device 0/0, or an empty file with the attribute
//! `user.overlay.whiteout`; a directory with `user.overlay.opaque=y` hides what lies below it.
//! Everything here was written from inside a sandbox: it is read by descriptor, and no link in it
//! is ever followed.

mod upper;
mod stack;
mod copy;

pub use copy::flatten;
pub use stack::Stack;
