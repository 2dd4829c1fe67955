//! Every row of the contract of `entrypoint`, and every edge of it.

mod any_user;
mod as_root;
