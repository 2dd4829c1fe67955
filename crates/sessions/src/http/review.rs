//! Review over HTTP: diff, apply, undo and discard.
//!
//! `apply --live` is not offered: freezing processes forks, which is not safe in a process with threads.

mod act;

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use sandbox_layers::review::{DiffReport, Review, ReviewError};
use sandbox_protocol::Hint;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Shared;
use super::answer::{JsonOrPatch, Refused, blocking, find};
use super::extract::{Named, OptionalBody, Parameters};
use super::wire::{self, Applied, Discarded, Problem, Reverted};
use crate::session::Session;

/// Form of a diff.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// JSON.
    #[default]
    Json,
    /// Patch for `git apply`.
    Patch,
}

/// Query of a diff.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DiffOptions {
    /// `json` (default) or `patch`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    format: Format,
    /// Limits the diff to this path and everything below it. Relative paths start at the project.
    path: Option<String>,
}

/// Shows the changes of a session.
pub(super) async fn diff(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(DiffOptions { format, path }): Parameters<DiffOptions>,
) -> Result<JsonOrPatch<DiffReport>, Refused> {
    let paths: Vec<String> = path.into_iter().collect();
    wire::check_paths(&paths)?;
    match format {
        Format::Json => {
            let work = move |call: &mut Call<'_>| act::diff(call, &paths);
            review(&shared, name, work).await.map(JsonOrPatch::Json)
        }
        Format::Patch => {
            let work = move |call: &mut Call<'_>| act::patch(call, &paths);
            review(&shared, name, work).await.map(JsonOrPatch::Patch)
        }
    }
}

/// Applies changes of a session to the project.
pub(super) async fn apply(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    OptionalBody(options): OptionalBody<wire::Apply>,
) -> Result<Json<Applied>, Refused> {
    wire::check_paths(&options.paths)?;
    review(&shared, name, move |call| act::apply(call, &options)).await.map(Json)
}

/// Reverts the last apply of a session.
pub(super) async fn undo(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    OptionalBody(options): OptionalBody<wire::Undo>,
) -> Result<Json<Reverted>, Refused> {
    review(&shared, name, move |call| act::undo(&call.review, &options)).await.map(Json)
}

/// Discards changes of a session.
pub(super) async fn discard(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    OptionalBody(options): OptionalBody<wire::Discard>,
) -> Result<Json<Discarded>, Refused> {
    wire::check_paths(&options.paths)?;
    review(&shared, name, move |call| act::discard(call, &options)).await.map(Json)
}

/// Session that is open for one call.
struct Call<'c> {
    review: Review,
    /// Base of relative paths.
    project: &'c Path,
    shared: &'c Shared,
}

/// Opens a session for review and does the work. Calls are serialised, because a session that is
/// under review is locked.
async fn review<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: String,
    work: impl FnOnce(&mut Call<'_>) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let (turn, all) = (Arc::clone(&shared.reviews).lock_owned().await, Arc::clone(shared));
    blocking(shared, move |operator| {
        // Held until the work is done, even if the caller disconnects.
        let _turn = turn;
        let (service, session) = find(operator, &name)?;
        let layer = service.layer(&session)?.ok_or_else(|| no_layer(&session))?;
        let review = Review::open(layer)?;
        work(&mut Call { review, project: &session.project, shared: &all })
    })
    .await
}

fn no_layer(session: &Session) -> Refused {
    let message = format!("session `{}` has no copy-on-write layer", session.name);
    let hint = Some("create it with `\"cow\": true`".into());
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
