//! Responses: a value, or a problem with its status. Each type describes itself for the `OpenAPI`
//! document.

use std::sync::Arc;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, NoContent, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Shared;
use super::openapi::{Describe, Operation};
use super::operator::Operator;
use super::wire::{Failure, Problem};
use crate::error::ControlError;
use crate::service::Service;
use crate::session::{Matching, Session};

/// Problem with its status.
#[derive(Debug)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) Problem);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        problem(self.0, &self.1)
    }
}

/// Returns a problem as a response.
pub(super) fn problem(status: StatusCode, problem: &Problem) -> Response {
    (status, Json(Failure { error: problem.clone() })).into_response()
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
            // A resource of the caller's machine failed, not this server.
            "not_started" | "unreachable" | "backend" | "no_home" | "engine"
            | "engine_unreachable" | "no_engine" | "proxy" | "git" => StatusCode::BAD_GATEWAY,
            "too_slow" => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, problem)
    }
}

/// Response of a handler that can fail.
impl<T: Describe> Describe for Result<T, Refused> {
    fn describe(operation: &mut Operation<'_>) {
        T::describe(operation);
    }
}

impl<T: JsonSchema> Describe for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        let content = operation.json::<T>();
        operation.answer(200, Some(content));
    }
}

impl Describe for NoContent {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer(204, None);
    }
}

/// Session that was brought up, or was up already.
pub(super) enum Created<T> {
    New(T),
    WasUp(T),
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        match self {
            Self::New(value) => (StatusCode::CREATED, Json(value)).into_response(),
            Self::WasUp(value) => Json(value).into_response(),
        }
    }
}

impl<T: JsonSchema> Describe for Created<T> {
    fn describe(operation: &mut Operation<'_>) {
        let content = operation.json::<T>();
        operation.answer_as(201, "The session, created or started", Some(content.clone()));
        operation.answer_as(200, "The session, which was up already", Some(content));
    }
}

/// Binary data.
pub(super) struct Octets(pub(super) Vec<u8>);

impl IntoResponse for Octets {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/octet-stream")], self.0).into_response()
    }
}

impl Describe for Octets {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer(200, Some(json!({ "application/octet-stream": { "schema": {} } })));
    }
}

/// Metrics in the Prometheus text format.
pub(super) struct Exposition(pub(super) String);

impl IntoResponse for Exposition {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], self.0).into_response()
    }
}

impl Describe for Exposition {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer(200, Some(json!({ "text/plain": { "schema": { "type": "string" } } })));
    }
}

/// Value in JSON, or a patch for `git apply`.
pub(super) enum JsonOrPatch<T> {
    Json(T),
    Patch(Vec<u8>),
}

impl<T: Serialize> IntoResponse for JsonOrPatch<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Json(value) => Json(value).into_response(),
            Self::Patch(text) => ([(header::CONTENT_TYPE, "text/x-diff")], text).into_response(),
        }
    }
}

impl<T: JsonSchema> Describe for JsonOrPatch<T> {
    fn describe(operation: &mut Operation<'_>) {
        let mut content = operation.json::<T>();
        content["text/x-diff"] = json!({ "schema": { "type": "string" } });
        operation.answer(200, Some(content));
    }
}

/// Runs blocking work on a thread pool.
pub(super) async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Operator) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let operator = Arc::clone(&shared.operator);
    let done = tokio::task::spawn_blocking(move || work(&operator)).await;
    done.unwrap_or_else(|_| Err(Problem::new("internal", "the call panicked").into()))
}

/// Finds the session that a path names, by its full name or a prefix of its id.
pub(super) fn find(operator: &Operator, word: &str) -> Result<(Service, Session), Refused> {
    let service = operator.service()?;
    let session = service.find(word, Matching::Name)?;
    Ok((service, session))
}
