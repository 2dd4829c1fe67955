//! The real target of a path rule, through `..`, globs and symlinks.
//!
//! A target that cannot be determined counts as outside the project, so the user is asked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::catalog::secret;
use crate::config::base_dirs::BaseDirs;
use crate::config::{Access, Config, PathRule};

/// Maximum number of directory entries that a glob is checked against. Beyond it, the user is asked.
const MAX_ENTRIES: usize = 20_000;

/// Returns the reason why a project's `rw` or `ro` rule widens the policy, if it does.
pub(super) fn opens(before: &Config, rule: &PathRule, dirs: &BaseDirs) -> Option<&'static str> {
    let PathRule { access, pattern, .. } = rule;
    let (access, absolute) =
        (*access, |rule: &PathRule| dirs.absolute(&rule.pattern, rule.base(&dirs.cwd)));
    let Some(path) = absolute(rule) else {
        return Some("in an unknown home directory");
    };
    let visible = visible_base(rule, dirs);
    let project = visible.as_ref().unwrap_or(dirs);
    if is_outside(&path, project) || is_glob(pattern) && glob_leaves(&path, project) {
        return Some("outside the project");
    }
    if visible.is_some() && preset_hides(&path, dirs) {
        return Some("below a path that a preset hides");
    }
    // A home directory contains secrets, even if it is also the project.
    if dirs.home.as_ref().is_some_and(|home| home.starts_with(&dirs.cwd)) {
        return Some("in a project that contains the home directory");
    }
    let (fixed, _) = split(&path);
    if access == Access::Rw && in_git(&real(&fixed)?, &dirs.cwd) {
        return Some("inside the git directory");
    }
    let stricter = before.paths.iter().filter(|rule| rule.value.access > access);
    stricter
        .filter_map(|rule| absolute(&rule.value))
        .any(|guarded| may_overrule(&path, &guarded))
        .then_some("below a stricter rule of your configuration")
}

/// Returns the directory of a file above the working directory, in which an `ro` rule opens nothing, because everything
/// there is readable by default. Hidden directories of the home directory do not count: they hold the user's state.
fn visible_base(rule: &PathRule, dirs: &BaseDirs) -> Option<BaseDirs> {
    let base = rule.base.as_deref().filter(|_| rule.access == Access::Ro)?;
    let home = dirs.home.as_deref().and_then(real);
    let in_home = home.as_ref().and_then(|home| base.strip_prefix(home).ok());
    let shown = match in_home {
        Some(below) => below.iter().all(|name| !name.as_encoded_bytes().starts_with(b".")),
        None => !["/tmp", "/run", "/dev", "/proc"].iter().any(|private| base.starts_with(private)),
    };
    shown.then(|| BaseDirs { cwd: base.to_path_buf(), home: dirs.home.clone() })
}

/// Returns true when a rule for a path could show something that a preset hides.
fn preset_hides(path: &Path, dirs: &BaseDirs) -> bool {
    let hidden = secret::USER.iter().flat_map(|group| group.paths);
    hidden
        .chain(secret::SYSTEM)
        .chain(secret::SOCKETS)
        .filter_map(|pattern| dirs.absolute(pattern, &dirs.cwd))
        .any(|hidden| may_overrule(path, &hidden))
}

/// Returns true when a path or the target of its links is outside the project.
pub(in crate::config) fn is_outside(path: &Path, dirs: &BaseDirs) -> bool {
    let (fixed, rest) = split(path);
    let climbs = rest.components().any(|part| part == Component::ParentDir);
    // If a file with exactly this name exists, brackets in it are literal.
    let literal = real(path).is_none_or(|path| !path.starts_with(&dirs.cwd));
    climbs || literal || real(&fixed).is_none_or(|path| !path.starts_with(&dirs.cwd))
}

/// Splits a path before the first component with a wildcard.
fn split(path: &Path) -> (PathBuf, PathBuf) {
    let mut parts = path.components().peekable();
    let mut fixed = PathBuf::new();
    while let Some(part) = parts.next_if(|part| !is_glob(&part.as_os_str().to_string_lossy())) {
        fixed.push(part);
    }
    (fixed, parts.collect())
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// Follows every link of a path, even if the end of the path does not exist. Returns `None` if the target cannot be
/// determined.
fn real(path: &Path) -> Option<PathBuf> {
    let mut here = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                here.pop();
            }
            Component::CurDir => {}
            other => {
                let next = here.join(other);
                here = match fs::canonicalize(&next) {
                    Ok(real) => real,
                    // The target of a dangling link may be created later.
                    Err(_) if next.is_symlink() => return None,
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NotFound | ErrorKind::NotADirectory
                        ) =>
                    {
                        next
                    }
                    Err(_) => return None,
                };
            }
        }
    }
    Some(here)
}

/// Returns true when a glob matches a link to outside the project.
fn glob_leaves(path: &Path, dirs: &BaseDirs) -> bool {
    let (fixed, rest) = split(path);
    let parts: Option<Vec<_>> = rest.components().map(Part::new).collect();
    let (Some(parts), Some(fixed)) = (parts, real(&fixed)) else { return true };
    let mut walk = Walk { dirs, left: MAX_ENTRIES };
    walk.leaves(&fixed, &parts)
}

/// One component of a glob.
enum Part {
    /// `**`: any number of directories.
    Any,
    One(GlobMatcher),
}

impl Part {
    fn new(part: Component<'_>) -> Option<Self> {
        let text = part.as_os_str().to_str()?;
        if text == "**" {
            return Some(Self::Any);
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?;
        Some(Self::One(glob.compile_matcher()))
    }

    fn matches(&self, name: &Path) -> bool {
        match self {
            Self::Any => true,
            Self::One(glob) => glob.is_match(name),
        }
    }
}

struct Walk<'a> {
    dirs: &'a BaseDirs,
    left: usize,
}

impl Walk<'_> {
    fn leaves(&mut self, dir: &Path, parts: &[Part]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return false };
        let deeper = matches!(part, Part::Any);
        if deeper && !rest.is_empty() && self.leaves(dir, rest) {
            return true;
        }
        // The rule itself has no matches in an unreadable directory either.
        let Ok(entries) = fs::read_dir(dir) else { return false };
        for entry in entries.flatten() {
            if self.left == 0 {
                return true;
            }
            self.left -= 1;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { return true };
            let matched = part.matches(Path::new(&entry.file_name()));
            // `**` does not follow links, but at the end of a glob it matches them.
            let through = matched && !(deeper && kind.is_symlink() && !rest.is_empty());
            if through && kind.is_symlink() && self.is_outside(&path) {
                return true;
            }
            let next = if deeper { parts } else { rest };
            if through && path.is_dir() && self.leaves(&path, next) {
                return true;
            }
        }
        false
    }

    fn is_outside(&self, link: &Path) -> bool {
        real(link).is_none_or(|target| !target.starts_with(&self.dirs.cwd))
    }
}

/// Returns true when a real path is inside a git directory of any name.
fn in_git(path: &Path, cwd: &Path) -> bool {
    let inside = path.ancestors().take_while(|dir| dir.starts_with(cwd));
    inside.into_iter().any(|dir| {
        let is_git = |name: &str| dir.join(name).symlink_metadata().is_ok();
        dir.file_name().is_some_and(|name| name == ".git")
            || is_git("HEAD") && is_git("objects") && is_git("refs")
    })
}

/// Returns true when a rule for `path` could override a stricter one for `guarded`: because it is longer, or because it
/// is exact and the other is a glob. With a glob, a common root is enough.
fn may_overrule(path: &Path, guarded: &Path) -> bool {
    let ((path, path_rest), (guarded, guarded_rest)) = (split(path), split(guarded));
    let (Some(path), Some(guarded)) = (real(&path), real(&guarded)) else { return true };
    let globs = !path_rest.as_os_str().is_empty() || !guarded_rest.as_os_str().is_empty();
    path.starts_with(&guarded) || globs && guarded.starts_with(&path)
}
