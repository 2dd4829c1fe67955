//! Command rules: programs that replace a command.

mod block;
mod script;
mod layout;
