//! A plan in words: `config show`, and the steps that `--debug` tells.

pub mod effective;
pub mod trace;
