//! Everything that depends on git: its command line, its configuration, and its repositories.
//!
//! ```text
//! fold           names that a filesystem treats as equal
//! obeyed         files of a git directory that git runs or takes settings from
//! files          interface to the trees of a host and of a session
//! layout         meaning of the paths of a git directory
//! refs           refs and their logs, as files
//! index          the index, as bytes
//! locate         path → its repository
//! scratch        the real git on a session's objects, without the session's settings
//! changes        a session's changes to a repository: refs with their commits, `HEAD`, index
//! command        verdict on a git command line, by the `@git` rules
//! protect        repositories in reach of a sandbox, and the files in them that git uses
//! tracked        files whose content is in the index
//! host_command   git on the host, run for an agent
//! patch          git's patch format
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
pub mod tracked;
pub mod host_command;
pub mod patch;
