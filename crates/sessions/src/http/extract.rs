//! Parts of a request as types that describe themselves.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Shared;
use super::answer::Refused;
use super::openapi::{Describe, Operation};
use super::wire::Problem;

/// Server state. Every call that uses it works on sessions, so the database or a backend may fail.
impl Describe for State<Arc<Shared>> {
    fn describe(operation: &mut Operation<'_>) {
        operation.problems(&[502, 507]);
    }
}

/// Path segment that names a session.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let word = Path::<String>::from_request_parts(parts, state).await;
        word.map(|Path(word)| Self(word)).map_err(|error| invalid(error.body_text()))
    }
}

impl Describe for Named {
    fn describe(operation: &mut Operation<'_>) {
        operation.path("session", "The full name, or a prefix of the id");
        operation.problems(&[404]);
    }
}

/// Query parameters: the fields of a type.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| invalid(error.body_text()))
    }
}

impl<T: JsonSchema> Describe for Parameters<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.query::<T>();
    }
}

/// JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let body = Json::<T>::from_request(request, state).await;
        body.map(|Json(body)| Self(body)).map_err(|error| unread(&error))
    }
}

impl<T: JsonSchema> Describe for Body<T> {
    fn describe(operation: &mut Operation<'_>) {
        let content = operation.json::<T>();
        operation.body(true, &content);
        operation.problems(&[415]);
    }
}

/// Optional JSON body.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let body = Option::<Json<T>>::from_request(request, state)
            .await
            .map_err(|error| unread(&error))?;
        Ok(Self(body.map(|Json(body)| body).unwrap_or_default()))
    }
}

impl<T: JsonSchema> Describe for OptionalBody<T> {
    fn describe(operation: &mut Operation<'_>) {
        let content = operation.json::<T>();
        operation.body(false, &content);
        operation.problems(&[415]);
    }
}

/// Binary body.
pub(super) struct Content(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Content {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let body = Bytes::from_request(request, state).await;
        body.map(Self)
            .map_err(|error| Refused(error.status(), Problem::new("invalid", error.body_text())))
    }
}

impl Describe for Content {
    fn describe(operation: &mut Operation<'_>) {
        operation.body(true, &json!({ "application/octet-stream": { "schema": {} } }));
    }
}

fn invalid(why: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", why))
}

fn unread(error: &JsonRejection) -> Refused {
    Refused(error.status(), Problem::new("invalid", error.body_text()))
}
