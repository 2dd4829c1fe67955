//! Secrets: what is stored, what the command holds, and what the proxy holds for it.

mod provider;
mod stored;
mod run;
mod withheld;
mod agents;
mod attacks;
