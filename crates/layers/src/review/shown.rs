//! Paths and repositories of a review as text, escaped for a terminal. A repository is shown by its refs and commits
//! instead of its files.

use std::path::{Path, PathBuf};

use sandbox_git::changes::{Held, HostChange, RefChange};
use sandbox_git::refs::{RefValue, short};
use sandbox_linux::escape::{name, one_line};

use super::open::OpenRoot;
use super::select::Selected;
use crate::diff::Change;
use crate::git::Repository;

/// Returns the path of a change as the user would type it: relative to the working directory if below it, else
/// absolute.
pub fn shown(root: &OpenRoot, change: &Change, directory: &Path) -> String {
    shown_path(root, change.path.as_path(), directory)
}

/// Returns any path below a root in the format of [`shown`].
fn shown_path(root: &OpenRoot, path: &Path, directory: &Path) -> String {
    let full = root.host.path().join(path);
    name(full.strip_prefix(directory).unwrap_or(&full))
}

/// Repository with its root.
pub struct Shown<'r> {
    root: &'r OpenRoot,
    /// The repository.
    pub repository: &'r Repository,
}

impl<'r> Shown<'r> {
    /// Returns the selected repositories of a root.
    pub fn of(root: &'r OpenRoot, selected: &Selected) -> Vec<Self> {
        let meant = selected.repositories(root).into_iter();
        meant.map(|repository| Self { root, repository }).collect()
    }

    /// Returns its git directory, as the user would type it.
    pub fn name(&self, here: &Path) -> String {
        shown_path(self.root, &self.repository.dir, here)
    }

    fn path(&self, inner: impl AsRef<Path>, here: &Path) -> String {
        shown_path(self.root, &self.repository.dir.join(inner), here)
    }

    /// Returns one row for each ref, for `HEAD` and for the index: letter, path, description.
    pub fn rows(&self, here: &Path) -> Vec<[String; 3]> {
        let repository = self.repository;
        if !repository.gone.is_empty() {
            return vec![["D".into(), self.name(here), "the repository".into()]];
        }
        let refs = repository.changes.refs.iter().map(|change| {
            let words = one_line(&change.describe());
            [letter(change).to_string(), self.path(&change.name, here), words]
        });
        let checkouts = repository.changes.checkouts.iter().flat_map(|checkout| {
            let head = checkout.head.as_ref().map(|change| {
                let words =
                    format!("{} -> {}", value(change.before.as_ref()), value(Some(&change.after)));
                ("HEAD", if change.before.is_some() { "M" } else { "A" }, words)
            });
            let index = checkout.index.as_ref().map(|change| {
                let entries = if change.count == 1 { "entry" } else { "entries" };
                ("index", "M", format!("{} {entries}", change.count))
            });
            head.into_iter().chain(index).map(|(name, letter, words)| {
                [letter.to_owned(), self.path(checkout.prefix.join(name), here), one_line(&words)]
            })
        });
        let invalid = repository
            .changes
            .invalid
            .iter()
            .map(|(inner, why)| ["!".to_owned(), self.path(inner, here), one_line(why)]);
        refs.chain(checkouts).chain(invalid).collect()
    }

    /// Returns the refs that add files that run code later, each with the reason.
    pub fn held(&self, here: &Path) -> Vec<(String, String)> {
        let refs =
            self.repository.changes.refs.iter().flat_map(|change| {
                change.held.iter().map(|held| (PathBuf::from(&change.name), held))
            });
        let indexes = self.repository.changes.checkouts.iter().flat_map(|checkout| {
            let held = checkout.index.iter().flat_map(|index| &index.held);
            held.map(|held| (checkout.prefix.join("index"), held))
        });
        let words =
            |(inner, held): (PathBuf, &Held)| (self.path(inner, here), one_line(&held.describe()));
        refs.chain(indexes).map(words).collect()
    }

    /// Describes the repository line by line, with at most `most` commits of each ref.
    pub fn lines(&self, here: &Path, most: Option<usize>) -> Vec<String> {
        let new = if self.repository.is_new { "new repository" } else { "repository" };
        let mut lines = vec![format!("{new} {}", self.name(here))];
        let mut rows = self.rows(here).into_iter();
        for change in &self.repository.changes.refs {
            let Some([letter, path, words]) = rows.next() else { break };
            let meanwhile = if change.host == HostChange::Changed {
                "  (changed on the host meanwhile)"
            } else {
                ""
            };
            lines.push(format!("  {letter} {path}  {words}{meanwhile}"));
            let named = change.commits.iter().take(most.unwrap_or(usize::MAX));
            let before = lines.len();
            lines.extend(
                named.map(|one| format!("      {} {}", short(&one.id), one_line(&one.subject))),
            );
            let more = change.count - (lines.len() - before);
            if more > 0 {
                lines.push(format!("      … and {more} more; `diff --json` lists up to 1000"));
            }
            let held = change.held.iter().map(|held| one_line(&held.describe()));
            lines.extend(held.map(|held| format!("      runs code later: {held}")));
            lines.extend(
                change.refused.iter().map(|why| format!("      refused: {}", one_line(why))),
            );
        }
        lines.extend(rows.map(|[letter, path, words]| format!("  {letter} {path}  {words}")));
        lines.extend(
            self.repository
                .changes
                .refused
                .iter()
                .map(|why| format!("  refused: {}", one_line(why))),
        );
        lines
    }
}

fn letter(change: &RefChange) -> char {
    match (&change.before, &change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        _ => 'M',
    }
}

fn value(value: Option<&RefValue>) -> &str {
    value.map_or("nothing", RefValue::short)
}
