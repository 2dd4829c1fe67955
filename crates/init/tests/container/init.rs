//! Tests of `init` as PID 1: signals, processes and set-up.

mod any_user;
mod as_root;
