//! Repositories on the host, as their files say: refs, the index, and which paths belong to them.

mod index;
mod layout;
mod refs;

pub(crate) use index::{Entry, Index};
pub(crate) use layout::{belongs, checkout, dot_git, is_object, on_host};
pub use refs::Value;
pub(crate) use refs::{
    MAX_REFS, as_name, host_file, is_id, is_lock, of_host, packed, packed_value, packed_without,
    without,
};

/// The name of no object, in logs.
pub(crate) const NO_OBJECT: &str = "0000000000000000000000000000000000000000";
