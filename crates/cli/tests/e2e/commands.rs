//! Command rules: what stands in the place of a command.

mod block;
mod script;
mod layout;
