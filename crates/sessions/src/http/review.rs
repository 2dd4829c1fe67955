//! Review over HTTP: the changes of a session, shown, applied, reverted and discarded.
//!
//! `apply --live` has no call here: freezing processes forks, which a process with threads must not.

mod act;

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandbox_layers::review::{Review, ReviewError};
use sandbox_protocol::Hint;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Shared;
use super::answer::{Refused, blocking, find};
use super::extract::{Word, word};
use super::wire::{self, Applied, Discarded, Problem, Reverted};
use crate::session::Session;

/// Form of a diff.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// As data.
    #[default]
    Json,
    /// For `git apply`.
    Patch,
}

/// Parameters of a diff.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    #[serde(default)]
    format: Format,
    path: Option<String>,
}

/// A body that may be left out.
type Body<T> = Result<Option<Json<T>>, JsonRejection>;

/// Shows the changes of a session.
pub(super) async fn diff(
    State(shared): State<Arc<Shared>>,
    name: Word,
    shown: Result<Query<Shown>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(Shown { format, path }) = shown.map_err(|error| {
        Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", error.body_text()))
    })?;
    let paths: Vec<String> = path.into_iter().collect();
    wire::check_paths(&paths)?;
    match format {
        Format::Json => {
            let work = move |call: &mut Call<'_>| act::diff(call, &paths);
            Ok(Json(review(&shared, name, work).await?).into_response())
        }
        Format::Patch => {
            let work = move |call: &mut Call<'_>| act::patch(call, &paths);
            let text = review(&shared, name, work).await?;
            Ok(([(header::CONTENT_TYPE, "text/x-diff")], text).into_response())
        }
    }
}

/// Applies changes of a session to the project.
pub(super) async fn apply(
    State(shared): State<Arc<Shared>>,
    name: Word,
    body: Body<wire::Apply>,
) -> Result<Json<Applied>, Refused> {
    let asked = given(body)?;
    wire::check_paths(&asked.paths)?;
    review(&shared, name, move |call| act::apply(call, &asked)).await.map(Json)
}

/// Reverts the last apply of a session.
pub(super) async fn undo(
    State(shared): State<Arc<Shared>>,
    name: Word,
    body: Body<wire::Undo>,
) -> Result<Json<Reverted>, Refused> {
    let asked = given(body)?;
    review(&shared, name, move |call| act::undo(&call.review, &asked)).await.map(Json)
}

/// Discards changes of a session.
pub(super) async fn discard(
    State(shared): State<Arc<Shared>>,
    name: Word,
    body: Body<wire::Discard>,
) -> Result<Json<Discarded>, Refused> {
    let asked = given(body)?;
    wire::check_paths(&asked.paths)?;
    review(&shared, name, move |call| act::discard(call, &asked)).await.map(Json)
}

fn given<T: DeserializeOwned + Default>(body: Body<T>) -> Result<T, Refused> {
    let body =
        body.map_err(|error| Refused(error.status(), Problem::new("invalid", error.body_text())))?;
    Ok(body.map(|Json(asked)| asked).unwrap_or_default())
}

/// A session that is open for one call.
struct Call<'c> {
    review: Review,
    /// Where relative paths start.
    project: &'c Path,
    shared: &'c Shared,
}

/// Opens a session for review and does the work. One call at a time: two reviews of a session would
/// find it locked by each other.
async fn review<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: Word,
    work: impl FnOnce(&mut Call<'_>) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let name = word(name)?;
    let (turn, all) = (Arc::clone(&shared.reviews).lock_owned().await, Arc::clone(shared));
    blocking(shared, move |operator| {
        // Kept until the work is done, even if the caller breaks off.
        let _turn = turn;
        let (service, session) = find(operator, &name)?;
        let layer = service.layer(&session)?.ok_or_else(|| no_layer(&session))?;
        let review = Review::open(layer)?;
        work(&mut Call { review, project: &session.project, shared: &all })
    })
    .await
}

fn no_layer(session: &Session) -> Refused {
    let message = format!("the session `{}` keeps no changes apart", session.name);
    let hint = Some("bring it up with `\"cow\": true`".into());
    Problem { hint, ..Problem::new("no_layer", message) }.into()
}

impl From<ReviewError> for Refused {
    fn from(error: ReviewError) -> Self {
        let hint = match &error {
            ReviewError::Running(_) | ReviewError::Up(_) => {
                Some("take it down first: POST /v1/sessions/NAME/down".into())
            }
            error => error.hint(),
        };
        Problem { hint, ..Problem::caused(error.code(), &error) }.into()
    }
}
