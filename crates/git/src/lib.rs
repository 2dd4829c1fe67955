//! Everything that knows git: its command line, its configuration, and its repositories.
//!
//! ```text
//! command   what a git command line does, and whether the `@git` rules let it pass
//! protect   repositories in reach of a sandbox, and what in them git obeys
//! obeyed    which files of a repository git obeys, by path alone
//! fold      names that a file system takes for the same name
//! ```

pub mod command;
pub mod protect;
pub mod obeyed;
pub mod fold;
