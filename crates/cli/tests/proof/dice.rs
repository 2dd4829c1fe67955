//! Numbers that look random and come back with their seed.

pub(crate) use testkit::{Dice, seeds};
