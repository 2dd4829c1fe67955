//! Visible and writable paths.

mod defaults;
mod rules;
mod globs;
mod links;
mod places;
mod hold;
