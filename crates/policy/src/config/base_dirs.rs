//! Directories that relative paths and `~` are based on: the effective working directory and the home.

use std::path::{Component, Path, PathBuf};

use super::file::Invalid;
use crate::text::shown;

/// Directories that relative paths and `~` are based on.
#[derive(Debug, Clone)]
pub struct BaseDirs {
    /// The effective working directory: absolute, with symlinks resolved.
    pub cwd: PathBuf,
    /// The home directory, if there is one.
    pub home: Option<PathBuf>,
}

impl BaseDirs {
    /// Returns the absolute path, otherwise as written. Returns `None` for `~` without a home directory.
    pub(super) fn absolute(&self, text: &str, base: &Path) -> Option<PathBuf> {
        match text.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => {
                Some(self.home.as_ref()?.join(rest.trim_start_matches('/')))
            }
            // `~user` is a file with that name, as in all lists of paths.
            _ => Some(base.join(text)),
        }
    }

    /// Returns the absolute path of a file. Fails for `~` without a home directory.
    pub(super) fn expand(&self, text: &str, base: &Path) -> Result<PathBuf, Invalid> {
        let path = self.absolute(text, base).ok_or_else(|| {
            Invalid::new(format!("{} needs a home directory, and `HOME` is not set", shown(text)))
        })?;
        Ok(without_dots(&path))
    }

    /// Returns true when a pattern is a spelling of this path.
    pub fn is_same(&self, pattern: &str, path: &str) -> bool {
        self.spelling(pattern) == self.spelling(path)
    }

    /// Normalizes a pattern, for comparisons only. The result may not be a path that exists.
    pub(super) fn spelling(&self, pattern: &str) -> PathBuf {
        let path = self.absolute(pattern, &self.cwd).unwrap_or_else(|| pattern.into());
        without_dots(&path)
    }
}

/// Removes `.` and `..` lexically, as path rules do.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_one_when_the_paths_are() {
        let dirs = BaseDirs { cwd: "/home/u/p".into(), home: Some("/home/u".into()) };
        for (pattern, expected) in [
            ("src", "/home/u/p/src"),
            ("./src/", "/home/u/p/src"),
            ("/home/u/p//src", "/home/u/p/src"),
            ("~/p/src", "/home/u/p/src"),
            ("../p/src", "/home/u/p/src"),
            ("~", "/home/u"),
            ("~//x", "/home/u/x"),
            ("~root/x", "/home/u/p/~root/x"),
            ("**/*.key", "/home/u/p/**/*.key"),
        ] {
            assert_eq!(dirs.spelling(pattern), Path::new(expected), "{pattern}");
        }
        let shared = dirs.expand("../shared", Path::new("/home/u/p")).unwrap();
        assert_eq!(shared, Path::new("/home/u/shared"));
        let homeless = BaseDirs { home: None, ..dirs };
        assert_eq!(homeless.spelling("~/x"), Path::new("~/x"));
        assert!(homeless.expand("~/x", Path::new("/")).is_err());
    }
}
