//! Constants and wire formats that two processes of agent-sandbox share, each defined once.
//! The crate has no dependencies, so PID 1 of a container can use it too.

pub mod variable;
pub mod value;
pub mod layout;
pub mod multicall;
pub mod attend;
pub mod rendezvous;
pub mod report;
pub mod exit;
pub mod hint;
pub mod frame;

pub use exit::ExitCode;
pub use hint::Hint;
