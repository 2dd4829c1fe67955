//! Directories that relative paths and `~` are based on: the effective working directory and the home.

use std::path::{Component, Path, PathBuf};

use super::PathRule;
use super::file::{Invalid, unmarked};
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

    /// Returns true when the pattern of a rule is a spelling of this path.
    pub fn is_same(&self, rule: &PathRule, path: &str) -> bool {
        self.spelling_of(rule) == self.spelling(path)
    }

    /// Normalizes the pattern of a rule, without `!`.
    pub(super) fn spelling_of(&self, rule: &PathRule) -> PathBuf {
        self.spelling_in(unmarked(&rule.pattern), rule.base(&self.cwd))
    }

    /// Normalizes a pattern, for comparisons only. The result may not be a path that exists.
    pub(super) fn spelling(&self, pattern: &str) -> PathBuf {
        self.spelling_in(pattern, &self.cwd)
    }

    fn spelling_in(&self, pattern: &str, base: &Path) -> PathBuf {
        let path = self.absolute(pattern, base).unwrap_or_else(|| pattern.into());
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
