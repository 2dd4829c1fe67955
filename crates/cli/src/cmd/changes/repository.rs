//! Repositories that a session changed, in words: refs with their commits instead of files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sandbox_layers::git::{Meanwhile, RefChange, Repository, Value, short};
use sandbox_layers::review::{OpenRoot, Selected};

use super::shown_path;
use crate::ui::{Stdio, Tone, visible};

/// A repository with the root that it lies in.
pub(crate) struct Shown<'r> {
    root: &'r OpenRoot,
    pub(crate) repository: &'r Repository,
}

impl<'r> Shown<'r> {
    /// The repositories of a root that are meant.
    pub(crate) fn of(root: &'r OpenRoot, selected: &Selected) -> Vec<Self> {
        let meant = selected.repositories(root).into_iter();
        meant.map(|repository| Self { root, repository }).collect()
    }

    /// Its git directory, as the user would type it.
    pub(crate) fn name(&self, here: &Path) -> String {
        shown_path(self.root, &self.repository.dir, here)
    }

    fn path(&self, inner: impl AsRef<Path>, here: &Path) -> String {
        shown_path(self.root, &self.repository.dir.join(inner), here)
    }

    /// One row for each ref, for `HEAD` and for the index: letter, path, words.
    pub(crate) fn rows(&self, here: &Path) -> Vec<[String; 3]> {
        let repository = self.repository;
        if !repository.gone.is_empty() {
            return vec![["D".into(), self.name(here), "the repository".into()]];
        }
        let refs = repository.refs.iter().map(|change| {
            let words = visible(&Repository::words(change));
            [letter(change).to_string(), self.path(&change.name, here), words]
        });
        let checkouts = repository.checkouts.iter().flat_map(|checkout| {
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
                [letter.to_owned(), self.path(checkout.prefix.join(name), here), visible(&words)]
            })
        });
        let invalid = repository
            .invalid
            .iter()
            .map(|(inner, why)| ["!".to_owned(), self.path(inner, here), visible(why)]);
        refs.chain(checkouts).chain(invalid).collect()
    }

    /// Refs that bring files that run code later, and why.
    pub(crate) fn held(&self, here: &Path) -> Vec<(String, String)> {
        let refs =
            self.repository.refs.iter().flat_map(|change| {
                change.held.iter().map(|held| (PathBuf::from(&change.name), held))
            });
        let indexes = self.repository.checkouts.iter().flat_map(|checkout| {
            let held = checkout.index.iter().flat_map(|index| &index.held);
            held.map(|held| (checkout.prefix.join("index"), held))
        });
        let words = |(inner, held): (PathBuf, &sandbox_layers::git::Held)| {
            (self.path(inner, here), visible(&held.words()))
        };
        refs.chain(indexes).map(words).collect()
    }

    /// All about it, line by line, safe for a terminal.
    pub(crate) fn plain(&self, here: &Path) -> Vec<String> {
        self.lines(here, None)
    }

    fn lines(&self, here: &Path, most: Option<usize>) -> Vec<String> {
        let new = if self.repository.is_new { "new repository" } else { "repository" };
        let mut lines = vec![format!("{new} {}", self.name(here))];
        let mut rows = self.rows(here).into_iter();
        for change in &self.repository.refs {
            let Some([letter, path, words]) = rows.next() else { break };
            let meanwhile = if change.host == Meanwhile::Changed {
                "  (changed on the host meanwhile)"
            } else {
                ""
            };
            lines.push(format!("  {letter} {path}  {words}{meanwhile}"));
            let named = change.commits.iter().take(most.unwrap_or(usize::MAX));
            let before = lines.len();
            lines.extend(
                named.map(|one| format!("      {} {}", short(&one.id), visible(&one.subject))),
            );
            let more = change.count - (lines.len() - before);
            if more > 0 {
                lines.push(format!("      … and {more} more; `diff --json` lists up to 1000"));
            }
            let held = change.held.iter().map(|held| visible(&held.words()));
            lines.extend(held.map(|held| format!("      runs code later: {held}")));
            lines.extend(
                change.refused.iter().map(|why| format!("      refused: {}", visible(why))),
            );
        }
        lines.extend(rows.map(|[letter, path, words]| format!("  {letter} {path}  {words}")));
        lines.extend(
            self.repository.refused.iter().map(|why| format!("  refused: {}", visible(why))),
        );
        lines
    }

    /// Joins the lines into one text, with the repository in bold.
    pub(crate) fn text(&self, here: &Path, most: Option<usize>, io: &Stdio<'_>) -> String {
        let mut text = String::new();
        for (at, line) in self.lines(here, most).iter().enumerate() {
            let line = if at == 0 { io.tone(Tone::Strong, line) } else { line.clone() };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

fn letter(change: &RefChange) -> char {
    match (&change.before, &change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        _ => 'M',
    }
}

fn value(value: Option<&Value>) -> &str {
    match value {
        None => "nothing",
        Some(Value::Id(id)) => short(id),
        Some(Value::Symbolic(name)) => name,
    }
}
