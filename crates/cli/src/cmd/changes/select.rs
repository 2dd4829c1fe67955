//! Which paths were meant: words of the command line → paths below the roots of a session.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use sandbox_core::Host;
use sandbox_cowfs::RelPath;
use sandbox_cowfs::apply::Wish;
use sandbox_cowfs::session::Selector;

use super::{ChangesError, OpenRoot, directory, sessions};
use crate::args::Flags;
use crate::run::Failed;

/// What was asked for in each root.
pub(crate) struct Selected {
    /// Nothing was named: everything is meant.
    all: bool,
    /// Roots that were named as a whole, or paths below one.
    named: Vec<(usize, Option<RelPath>)>,
}

impl Selected {
    /// Finds the root of each word.
    pub(crate) fn of(
        words: &[OsString],
        roots: &[OpenRoot],
        session: &str,
        flags: &Flags,
        host: &Host,
    ) -> Result<Self, Failed> {
        let directory = directory(flags, host);
        let mut named = Vec::new();
        for word in words {
            let path = plain(&directory.join(word));
            let inside = roots.iter().filter_map(|root| {
                path.strip_prefix(root.host.path()).ok().map(|rest| (root.number, rest))
            });
            // The deepest root that holds it.
            let found = inside.min_by_key(|(_, rest)| rest.components().count());
            let Some((root, rest)) = found else {
                let session = session.to_owned();
                return Err(ChangesError::Elsewhere { path, session }.into());
            };
            named.push((root, RelPath::new(rest)));
        }
        Ok(Self { all: words.is_empty(), named })
    }

    /// What an apply to a root is to take; nothing where none of it is meant.
    pub(crate) fn wish(&self, root: usize) -> Option<Wish> {
        let here = || self.named.iter().filter(|(number, _)| *number == root);
        if !self.all && here().count() == 0 {
            return None;
        }
        let whole = self.all || here().any(|(_, path)| path.is_none());
        let paths = here().filter_map(|(_, path)| path.clone()).collect();
        Some(Wish { paths, whole, ..Wish::default() })
    }

    /// The paths that were named; for a root that was named as a whole, everything that changed at
    /// its top.
    pub(crate) fn tops(&self, roots: &[OpenRoot]) -> Vec<(usize, RelPath)> {
        let mut tops = Vec::new();
        for (number, path) in &self.named {
            if let Some(path) = path {
                tops.push((*number, path.clone()));
                continue;
            }
            let root = roots.iter().find(|root| root.number == *number);
            let changed = root.into_iter().flat_map(|root| &root.changes.list);
            let first = changed.filter_map(|change| change.path.as_path().iter().next());
            tops.extend(first.filter_map(|name| Some((*number, RelPath::new(name)?))));
        }
        tops.sort();
        tops.dedup();
        tops
    }

    /// Whether a path is meant.
    pub(crate) fn has(&self, root: usize, path: &RelPath) -> bool {
        let below = |(number, top): &(usize, Option<RelPath>)| {
            *number == root
                && top.as_ref().is_none_or(|top| path.as_path().starts_with(top.as_path()))
        };
        self.all || self.named.iter().any(below)
    }
}

/// The same path without `.` and `..`, which are not asked of the filesystem: what is named may be
/// gone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Takes the first word for a session where there is one of that name.
pub(crate) fn session_word<'w>(
    words: &'w [OsString],
    flags: &Flags,
    host: &Host,
) -> Result<(Option<&'w str>, &'w [OsString]), Failed> {
    let Some(word) =
        words.first().and_then(|word| word.to_str()).filter(|_| flags.session.is_none())
    else {
        return Ok((None, words));
    };
    let found = sessions(host)?.find(&Selector::named(directory(flags, host), word));
    let exact = found.is_ok_and(|found| {
        let record = found.record();
        OsStr::new(&record.name) == word || record.id == word
    });
    Ok(if exact { (Some(word), &words[1..]) } else { (None, words) })
}
