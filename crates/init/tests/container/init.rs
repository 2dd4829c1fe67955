//! `init` as PID 1: what it does with signals and processes, and what it sets up.

mod any_user;
mod as_root;
