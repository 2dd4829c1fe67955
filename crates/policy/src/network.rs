//! Decisions about the hosts that a sandbox may reach: one strict parser, patterns matched label by label, and
//! verdicts. Does no I/O except for the journal of refused hosts. Used by the configuration, by `why`, and by the
//! proxy.
//!
//! ```
//! use sandbox_policy::network::{EgressPolicy, HostPort, HostRule, Verdict};
//!
//! let rule = HostRule::new("*.github.com:443".parse()?, "flag --allow-host");
//! let policy = EgressPolicy { allowed: vec![rule], ..EgressPolicy::default() };
//! let asked: HostPort = "api.github.com:443".parse()?;
//! assert!(matches!(policy.judge(&asked), Verdict::Allowed(_)));
//! assert!("api.github.com\0.evil.io:443".parse::<HostPort>().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod host;
mod pattern;
mod address;
mod policy;
mod variables;
pub mod hello;
pub mod dns;
pub mod blocked;
#[cfg(test)]
mod tests;

pub use address::{AddressClass, class};
pub use host::{HostError, HostName, HostPort};
pub use pattern::{HostPattern, PatternError};
pub use policy::{EgressPolicy, HostRule, Refusal, UploadLimit, Verdict, allow_command};
pub use variables::proxy_variables;

/// Port of the proxy inside a sandbox that has an allow list.
pub const PROXY_PORT: u16 = 3128;

/// `/etc/resolv.conf` of such a sandbox, with its only name server.
pub const RESOLVER_CONFIGURATION: &str =
    "# Name server of the sandbox. It resolves only allowed hosts.\nnameserver 127.0.0.1\n";
