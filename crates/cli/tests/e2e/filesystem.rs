//! What is seen and what can be changed.

mod defaults;
mod rules;
mod globs;
mod links;
mod places;
mod hold;
