//! What sessions in containers ask of the first process.

mod as_root;
