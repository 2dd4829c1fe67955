//! Agent settings that are replaced for one run. The user's file on the host is not modified.
//!
//! Only an existing file can be covered by a mount. A missing one is replaced by a placeholder for the time of the run.
//! Runs share it and the last one removes it, because unlinking a file detaches the mounts on it in every namespace.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sandbox_core::plan::{BaseView, Decided, View};
use sandbox_core::wrapper::{Cover, CoverBy};

/// Settings of an agent.
pub(super) struct Settings {
    /// The file.
    pub file: PathBuf,
    /// Content of a placeholder. It has no effect on an agent on the host.
    pub placeholder: &'static str,
}

/// Placeholder file in use by this run. The last run that uses it removes it.
pub(crate) struct Placeholder {
    path: PathBuf,
    text: &'static str,
    /// Holds a lock that is shared with other runs.
    file: File,
}

impl Settings {
    /// Covers the file with the text that `change` returns. Settings that it cannot change are left alone.
    pub(super) fn cover(
        &self,
        decided: &Decided,
        covers: &mut Vec<Cover>,
        change: impl Fn(&str) -> Option<String>,
    ) -> Option<Placeholder> {
        let held = self.hold(decided);
        let target =
            fs::canonicalize(&self.file).ok().filter(|target| is_shown(decided, target))?;
        let text = fs::read_to_string(&target).ok().and_then(|text| change(&text))?;
        covers.retain(|cover| cover.target != target);
        covers.push(Cover { target, how: CoverBy::Shim(text) });
        held
    }

    /// Creates a placeholder where there is no file, or shares one that another run created.
    fn hold(&self, decided: &Decided) -> Option<Placeholder> {
        let dir = self.file.parent().filter(|dir| dir.is_dir() && is_shown(decided, dir))?;
        let path = fs::canonicalize(dir).ok()?.join(self.file.file_name()?);
        loop {
            match self.make(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Without settings the agent reports what it needs.
                Err(_) => return None,
                Ok(()) => {}
            }
            let file = OpenOptions::new().read(true).open(&path).ok()?;
            file.lock_shared().ok()?;
            let placeholder = Placeholder { path: path.clone(), text: self.placeholder, file };
            if placeholder.is_there() {
                return placeholder.is_unused().then_some(placeholder);
            }
            // The last run that used it has just removed it.
        }
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        // Written before it gets its name, because another run compares the content.
        let name = format!(".agent-sandbox-{}", sandbox_linux::process::pid());
        let draft = path.with_file_name(name);
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(true).mode(0o600).open(&draft);
        let made = made
            .and_then(|mut file| file.write_all(self.placeholder.as_bytes()))
            .and_then(|()| fs::hard_link(&draft, path));
        let _ = fs::remove_file(&draft);
        made
    }
}

impl Placeholder {
    /// Returns true when the path leads to the locked file.
    fn is_there(&self) -> bool {
        let identity = |about: fs::Metadata| (about.dev(), about.ino());
        let there = fs::symlink_metadata(&self.path).ok().map(identity);
        there.is_some() && there == self.file.metadata().ok().map(identity)
    }

    /// Returns true when no agent has written to it.
    fn is_unused(&self) -> bool {
        let mut text = String::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(self.text.len() as u64 + 1).read_to_string(&mut text));
        read.is_ok() && text == self.text
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        // Another run may be using it and then removes it.
        if self.file.try_lock().is_ok() && self.is_there() && self.is_unused() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns true when a path has the same content inside as outside.
fn is_shown(decided: &Decided, path: &Path) -> bool {
    let above = decided.mounts().iter().filter(|mount| path.starts_with(&mount.target));
    let nearest = above.max_by_key(|mount| mount.target.as_os_str().len());
    nearest.map_or_else(
        || BaseView::of(path, decided.config().tmp.value) == BaseView::Host,
        |mount| !matches!(mount.view, View::EmptyDir | View::EmptyFile),
    )
}
