//! Base file that is opened on its first read. The kernel has its content cached and rarely reads
//! it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::base::{Base, Content};

/// File that looks open but is opened on demand.
#[derive(Debug)]
pub(super) struct Lazy {
    base: Arc<dyn Base>,
    path: Box<Path>,
    /// Length at opening, which reveals a later change of the base.
    size: u64,
    content: OnceLock<Arc<dyn Content>>,
}

impl Lazy {
    pub(super) fn open(base: Arc<dyn Base>, path: Box<Path>) -> io::Result<Arc<dyn Content>> {
        let size = base.stat(&path)?.inode.size;
        Ok(Arc::new(Self { base, path, size, content: OnceLock::new() }))
    }

    fn content(&self) -> io::Result<&dyn Content> {
        if let Some(content) = self.content.get() {
            return Ok(&**content);
        }
        let opened = self.base.open(&self.path)?;
        // Keep the first of two concurrent opens.
        Ok(&**self.content.get_or_init(|| opened))
    }
}

impl Content for Lazy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.content()?.read_at(buffer, offset)
    }

    fn file(&self) -> Option<&File> {
        self.content().ok()?.file()
    }

    fn size(&self) -> u64 {
        self.size
    }
}
