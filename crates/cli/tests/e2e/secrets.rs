//! Secrets: stored ones, those that the command holds, and those that the proxy holds for it.

mod provider;
mod stored;
#[cfg(feature = "setup")]
mod run;
mod withheld;
mod agents;
#[cfg(feature = "setup")]
mod attacks;
