//! Policy, plan and enforcement of agent-sandbox: what was asked → what it means → what will be
//! done → doing it. Synchronous; prints nothing.
//!
//! ```no_run
//! use sandbox_core::{Host, config::Request, plan::plan};
//!
//! let host = Host::read();
//! let request = Request { command: vec!["make".into()], ..Request::default() };
//! let plan = plan(&host, &request)?;
//! for mount in &plan.mounts {
//!     println!("{:?} {} ({})", mount.view, mount.target.display(), mount.origin);
//! }
//! # Ok::<(), sandbox_core::plan::PlanError>(())
//! ```

pub mod host;
pub mod config;
pub mod preset;
pub mod path;
pub mod specificity;
pub mod wrapper;
pub mod plan;
pub mod backend;
pub mod watch;
pub mod exec;
pub mod guard;

pub use host::Host;
