//! Descriptions of a plan, for `config show` and `--debug`.

pub mod effective;
pub mod trace;
