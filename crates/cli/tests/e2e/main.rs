//! The real binary on a real kernel, one module per topic.

mod attacks;
