//! Git inside works; what a later git outside would obey cannot be changed.

mod work;
mod protect;
mod planted;

pub(crate) use planted::assert_gone;
