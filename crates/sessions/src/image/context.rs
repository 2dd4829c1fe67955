//! Build context: a Dockerfile and a few files, streamed to `docker build`. Nothing is written to disk, so a killed
//! build leaves nothing behind.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Script that prepares the base image.
const PREPARE: &str = include_str!("../../../../image/prepare");

/// Files of a build.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) dockerfile: String,
    /// Names in the context, and paths of the programs.
    pub(super) programs: Vec<(&'static str, PathBuf)>,
}

impl Context {
    /// Writes the context as a tar archive.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(to);
        for (name, text) in [("Dockerfile", self.dockerfile.as_str()), ("prepare", PREPARE)] {
            let mut header = header(text.len() as u64);
            archive.append_data(&mut header, name, text.as_bytes())?;
        }
        for (name, path) in &self.programs {
            let file = File::open(path)?;
            let mut header = header(file.metadata()?.len());
            archive.append_data(&mut header, name, file)?;
        }
        archive.into_inner()?.flush()
    }
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o755);
    header.set_mtime(1); // reproducible layers
    header
}
