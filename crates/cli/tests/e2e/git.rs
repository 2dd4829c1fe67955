//! Git works inside. Settings and hooks that a later git outside would run cannot be changed.

mod work;
mod protect;
mod planted;

pub(crate) use planted::assert_gone;
