//! Where a path rule really reaches: through `..`, globs and symlinks.
//!
//! Whatever cannot be told counts as outside: then the user is asked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::config::base_dirs::BaseDirs;
use crate::config::{Access, Config};

/// Directory entries that a glob is followed through before the user is asked instead.
const MAX_ENTRIES: usize = 20_000;

/// Why a project's `rw` or `ro` rule opens something, if it does.
pub(super) fn opens(
    before: &Config,
    access: Access,
    pattern: &str,
    dirs: &BaseDirs,
) -> Option<&'static str> {
    let Some(path) = dirs.absolute(pattern, &dirs.cwd) else {
        return Some("in a home that is not known");
    };
    if is_outside(&path, dirs) || is_glob(pattern) && glob_leaves(&path, dirs) {
        return Some("outside the project");
    }
    // A home has secrets in it, whether or not it is also the project.
    if dirs.home.as_ref().is_some_and(|home| home.starts_with(&dirs.cwd)) {
        return Some("in a project that holds the home");
    }
    let (fixed, _) = split(&path);
    if access == Access::Rw && in_git(&real(&fixed)?, &dirs.cwd) {
        return Some("in the repository's own files");
    }
    let stricter = before.paths.iter().filter(|rule| rule.value.access > access);
    stricter
        .filter_map(|rule| dirs.absolute(&rule.value.pattern, &dirs.cwd))
        .any(|guarded| may_overrule(&path, &guarded))
        .then_some("below a stricter rule of yours")
}

/// Whether a path, or where its links lead, lies outside the project.
pub(in crate::config) fn is_outside(path: &Path, dirs: &BaseDirs) -> bool {
    let (fixed, rest) = split(path);
    let climbs = rest.components().any(|part| part == Component::ParentDir);
    // A name with brackets is a literal one where it exists.
    let literal = real(path).is_none_or(|path| !path.starts_with(&dirs.cwd));
    climbs || literal || real(&fixed).is_none_or(|path| !path.starts_with(&dirs.cwd))
}

/// The part before the first glob, and the rest.
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

/// The path with every link followed, also where its end does not exist; `None` if that cannot be told.
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
                    // A link that leads nowhere leads somewhere as soon as somebody makes it.
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

/// Whether a glob matches a link that leads out of the project.
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
        // A directory that cannot be listed has no matches, as for the rule itself.
        let Ok(entries) = fs::read_dir(dir) else { return false };
        for entry in entries.flatten() {
            if self.left == 0 {
                return true;
            }
            self.left -= 1;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { return true };
            let matched = part.matches(Path::new(&entry.file_name()));
            // `**` crosses directories, not links; its last one matches links too.
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

/// Whether a real path lies in a git directory, whatever that is called.
fn in_git(path: &Path, cwd: &Path) -> bool {
    let inside = path.ancestors().take_while(|dir| dir.starts_with(cwd));
    inside.into_iter().any(|dir| {
        let is_git = |name: &str| dir.join(name).symlink_metadata().is_ok();
        dir.file_name().is_some_and(|name| name == ".git")
            || is_git("HEAD") && is_git("objects") && is_git("refs")
    })
}

/// Whether a rule for `path` could beat a stricter one for `guarded`: by being longer, or by
/// being exact where the other is a glob. Where a glob is involved, a common root is enough.
fn may_overrule(path: &Path, guarded: &Path) -> bool {
    let ((path, path_rest), (guarded, guarded_rest)) = (split(path), split(guarded));
    let (Some(path), Some(guarded)) = (real(&path), real(&guarded)) else { return true };
    let globs = !path_rest.as_os_str().is_empty() || !guarded_rest.as_os_str().is_empty();
    path.starts_with(&guarded) || globs && guarded.starts_with(&path)
}
