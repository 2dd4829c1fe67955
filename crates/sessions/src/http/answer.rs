//! Answers: a value, or a problem with its status.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::operator::Operator;
use super::wire::Problem;
use crate::error::ControlError;
use crate::service::Service;
use crate::session::{Matching, Session};

/// A problem and its status.
#[derive(Debug)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) Problem);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        problem(self.0, &self.1)
    }
}

/// A problem as an answer.
pub(super) fn problem(status: StatusCode, problem: &Problem) -> Response {
    (status, Json(serde_json::json!({ "error": problem }))).into_response()
}

impl From<ControlError> for Refused {
    fn from(error: ControlError) -> Self {
        Problem::from(error).into()
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let status = match problem.code.as_str() {
            "not_found" => StatusCode::NOT_FOUND,
            "invalid" | "invalid_name" | "ambiguous" => StatusCode::BAD_REQUEST,
            "name_taken" | "not_up" | "differs" | "unapplied" | "other_version" | "in_use"
            | "no_layer" | "held" | "conflict" | "many_deletions" | "raced" | "half_done"
            | "no_apply" | "changed" => StatusCode::CONFLICT,
            "refused" | "untrusted" | "no_backend" | "unsupported" | "no_image" => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            "busy" | "too_many" => StatusCode::TOO_MANY_REQUESTS,
            "storage" => StatusCode::INSUFFICIENT_STORAGE,
            // Something that was asked for could not be made: the caller's machine, not this program.
            "not_started" | "unreachable" | "backend" | "no_home" | "engine"
            | "engine_unreachable" | "no_engine" | "proxy" | "git" => StatusCode::BAD_GATEWAY,
            "too_slow" => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, problem)
    }
}

/// Carries something out on a thread where it may wait.
pub(super) async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Operator) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let operator = Arc::clone(&shared.operator);
    let done = tokio::task::spawn_blocking(move || work(&operator)).await;
    done.unwrap_or_else(|_| Err(Problem::new("internal", "the work was not finished").into()))
}

/// The session that is meant by a word in a path: its whole name, or the beginning of its id.
pub(super) fn find(operator: &Operator, word: &str) -> Result<(Service, Session), Refused> {
    let service = operator.service()?;
    let session = service.find(word, Matching::Name)?;
    Ok((service, session))
}
