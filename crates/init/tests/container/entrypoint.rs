//! Tests of every rule and edge case of `entrypoint`.

mod any_user;
mod as_root;
