//! Host commands: what an agent in a container may have run on the host.
//!
//! A request is a list of words. [`mod@line`] reads one that came as text (over SSH), [`wire`] one that came by a socket.
//! [`judge()`] finds the [`Entry`] that allows it, passes it through the rules of known [`tool`]s, and says what is to be
//! run; [`argument`] tells which words are paths, [`place`] what they are on the host. Nothing here runs anything, and
//! no shell ever reads what the agent sent.

pub mod line;
mod entry;
mod list;
pub mod tool;
mod git;
mod judge;
pub mod argument;
pub mod place;
pub mod repository;
pub mod digest;
mod drift;
pub mod wire;
mod key;
mod bridge;
pub mod route;

pub use bridge::{Around, Bridge, BridgeError, BridgeKey, BridgeMount, Relay};
pub use drift::{Drift, drift};
pub use entry::{Args, Entry, EntryError, Paths};
pub use judge::{Allowed, Denial, judge};
pub use key::{PublicKey, authorized_line};
pub use list::{HOST_LIST, HostList, HostMount, ListError};
pub use tool::{Warning, warnings};

#[cfg(test)]
mod tests;
