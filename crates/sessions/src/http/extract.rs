//! Parts of a request, read into types.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;

use super::answer::Refused;
use super::wire::Problem;

/// A word of a path.
pub(super) type Word = Result<Path<String>, PathRejection>;

/// The word of a path, or why it is none.
pub(super) fn word(word: Word) -> Result<String, Refused> {
    let wrong = |error: PathRejection| {
        Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", error.body_text()))
    };
    word.map(|Path(word)| word).map_err(wrong)
}
