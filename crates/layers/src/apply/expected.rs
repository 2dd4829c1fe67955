//! Expected state of a path. A path in any other state is never replaced.

use super::step::Original;
use crate::diff::{Digest, Origin, Past};
use crate::host::Kind;

/// State that the host must have for a step to replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// The origin of the layer's entry.
    Origin,
    /// Nothing.
    Nothing,
    /// A file with this content.
    Content(Digest),
}

impl Expected {
    /// Returns true when the host has this state.
    pub(super) fn is(self, found: Option<&Original>, origin: &Origin) -> bool {
        match (self, found) {
            (Self::Nothing, found) => found.is_none(),
            (Self::Content(digest), found) => found.is_some_and(|was| was.digest == Some(digest)),
            (Self::Origin, None) => matches!(origin, Origin::Absent | Origin::Perhaps),
            (Self::Origin, Some(was)) => {
                matches!(origin, Origin::There(past) if is_past(was, past))
            }
        }
    }
}

/// Compares by the stamp, else by the content.
fn is_past(was: &Original, past: &Past) -> bool {
    let content = was.digest.or_else(|| was.target.as_ref().map(|to| Digest::of(&to.0)));
    let same = content.is_some() && content == past.digest;
    let executable = was.kind != Kind::File || past.executable == (was.mode & 0o100 != 0);
    was.kind == past.kind
        && (was.kind == Kind::Dir || was.stamp == past.stamp || (same && executable))
}
