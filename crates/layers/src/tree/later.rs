//! A file of the base that is opened when somebody reads it: the kernel has its content already, and mostly asks no more.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::base::{Base, Content};

/// A file that is open as far as its reader knows.
#[derive(Debug)]
pub(super) struct Later {
    base: Arc<dyn Base>,
    path: Box<Path>,
    /// Its length now: whoever changed it under us is noticed.
    size: u64,
    content: OnceLock<Arc<dyn Content>>,
}

impl Later {
    pub(super) fn open(base: Arc<dyn Base>, path: Box<Path>) -> io::Result<Arc<dyn Content>> {
        let size = base.stat(&path)?.inode.size;
        Ok(Arc::new(Self { base, path, size, content: OnceLock::new() }))
    }

    fn content(&self) -> io::Result<&dyn Content> {
        if let Some(content) = self.content.get() {
            return Ok(&**content);
        }
        let opened = self.base.open(&self.path)?;
        // Whoever came first is kept.
        Ok(&**self.content.get_or_init(|| opened))
    }
}

impl Content for Later {
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
