//! Pseudo-random numbers that a seed reproduces.

pub(crate) use testkit::{Dice, seeds};
