//! Policy, plan and enforcement of agent-sandbox.
#![cfg_attr(not(target_os = "linux"), doc = "")]
#[cfg(not(target_os = "linux"))]
compile_error!("agent-sandbox runs on Linux only: its walls are Linux namespaces");

pub mod host;
pub mod config;
pub mod wrapper;

pub use host::Host;
