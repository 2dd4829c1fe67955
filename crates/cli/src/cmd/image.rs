//! `image`: images to run agents in, from the binaries that are installed here.

mod build;
mod context;
mod docker;
mod dockerfile;
mod elf;

pub(crate) use build::run as build;
