//! The AgentFS database: its tables as that tool writes them, and the few of ours beside them.

pub mod schema;
