//! Tests of features of PID 1 that container sessions use.

mod as_root;
