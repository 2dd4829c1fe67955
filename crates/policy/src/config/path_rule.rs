//! Path rules as written, each with the directory that its relative path is based on.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::Access;
use super::file::unmarked;

/// A line of `filesystem.ro`, `.rw` or `.exclude`. It is not resolved yet, and removals by `!` are already applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathRule {
    /// The access.
    pub access: Access,
    /// The path or glob, as written.
    pub pattern: String,
    /// The directory that a relative pattern is based on, if it is not the working directory.
    #[serde(skip)]
    pub base: Option<Arc<Path>>,
}

impl PathRule {
    /// Creates a rule whose relative pattern is based on the working directory.
    pub fn new(access: Access, pattern: impl Into<String>) -> Self {
        Self { access, pattern: pattern.into(), base: None }
    }

    /// Returns the directory that a relative pattern is based on.
    pub fn base<'a>(&'a self, cwd: &'a Path) -> &'a Path {
        self.base.as_deref().unwrap_or(cwd)
    }

    /// Returns the pattern as a flag has to spell it: absolute if it is relative to another directory than the working
    /// directory.
    pub fn spelled(&self) -> String {
        let pattern = unmarked(&self.pattern);
        let relative = !pattern.starts_with('/') && pattern != "~" && !pattern.starts_with("~/");
        match &self.base {
            Some(base) if relative => {
                let mark = if pattern.len() < self.pattern.len() { "!" } else { "" };
                let path = if pattern == "." { base.to_path_buf() } else { base.join(pattern) };
                format!("{mark}{}", path.display())
            }
            _ => self.pattern.clone(),
        }
    }
}
