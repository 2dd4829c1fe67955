//! Secrets: stored ones, those that the command holds, and those that the proxy holds for it.

mod provider;
mod stored;
mod run;
mod withheld;
mod agents;
mod attacks;
