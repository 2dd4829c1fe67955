//! Everything that knows git: its command line, its configuration, and its repositories.
//!
//! ```text
//! fold           names that a file system takes for the same name
//! obeyed         files of a repository that git obeys, by path alone
//! files          how the trees of a host and of a session are read
//! layout         meaning of the paths of a git directory
//! refs           refs and their logs, as files
//! index          the index, as bytes
//! locate         path → the repository that it belongs to
//! scratch        the real git on a session's objects, without obeying the session
//! changes        a session's changes of a repository: refs with their commits, `HEAD`, index
//! command        verdict on a git command line, by the `@git` rules
//! protect        repositories in reach of a sandbox, and what git obeys in them
//! host_command   git on the host, run for an agent
//! patch          the form of git's patches
//! ```

pub mod fold;
pub mod obeyed;
pub mod files;
pub mod layout;
pub mod refs;
pub mod index;
pub mod locate;
pub mod scratch;
pub mod changes;
pub mod command;
pub mod protect;
pub mod host_command;
pub mod patch;
