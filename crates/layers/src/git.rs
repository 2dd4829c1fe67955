//! Changes of git repositories in a layer: read as refs and commits, applied as one unit.
//!
//! ```text
//! sources     layer over host → the trees that the git crate reads
//! sort        changes → files, and one `Repository` for each git directory
//! repository  a repository: its new commits, and the scratch repositories that git inspects them in
//! plan        the pack, refs, `HEAD` and index of one repository → steps of an apply
//! ```
//! Everything in a session's repository is hostile. Git runs in a scratch repository with the session's objects only.
//! Objects are never removed from the host, so no ref on the host can lose its target.

mod sources;
mod repository;
mod sort;
mod plan;

pub use repository::{InspectError, Repository};
pub(crate) use sort::{Sorted, sort};
