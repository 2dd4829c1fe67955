//! Which call does what.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::access::{self, Access};
use super::answer::{Refused, blocking, find};
use super::extract::{Word, word};
use super::wire::{Create, Health, Problem, Session, Sessions, Usage};
use super::{Shared, exec, files, listen, logs, openapi, review};
use crate::service::{Brought, Differing, Seen, Service};
use crate::session::State as SessionState;

/// Every call there is, for callers of one kind.
pub(super) fn all(shared: Arc<Shared>, access: Access) -> Router {
    let one = "/v1/sessions/{session}";
    Router::new()
        .route("/v1/health", get(health))
        .route("/v1/openapi.json", get(async || Json(openapi::document())))
        .route("/metrics", get(metrics))
        .route("/v1/sessions", get(list).post(create))
        .route(one, get(show).delete(remove))
        .route(&format!("{one}/down"), post(down))
        .route(&format!("{one}/restart"), post(restart))
        .route(&format!("{one}/usage"), get(usage))
        .route(&format!("{one}/logs"), get(logs::stream))
        .route(&format!("{one}/exec"), get(exec::open))
        .route(&format!("{one}/files"), get(files::read).put(files::write))
        .route(&format!("{one}/diff"), get(review::diff))
        .route(&format!("{one}/apply"), post(review::apply))
        .route(&format!("{one}/undo"), post(review::undo))
        .route(&format!("{one}/discard"), post(review::discard))
        .fallback(async || no_such("there is no such call"))
        .method_not_allowed_fallback(async || not_allowed())
        .layer(middleware::from_fn(listen::whole))
        .layer(DefaultBodyLimit::max(listen::LONGEST))
        .layer(middleware::from_fn_with_state(Arc::new(access), access::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), count))
        .with_state(shared)
}

async fn count(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    shared.metrics.answered(response.status().as_u16());
    response
}

fn no_such(message: &str) -> Refused {
    Refused(StatusCode::NOT_FOUND, Problem::new("not_found", message))
}

fn not_allowed() -> Refused {
    let wrong = Problem::new("method_not_allowed", "this call has other methods");
    Refused(StatusCode::METHOD_NOT_ALLOWED, wrong)
}

async fn health() -> Json<Health> {
    Json(Health { version: env!("CARGO_PKG_VERSION").to_owned() })
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, Refused> {
    let seen = blocking(&shared, |operator| Ok(operator.service()?.list()?)).await?;
    let of = |state| seen.iter().filter(|seen| seen.observed.state == state).count();
    let states = [SessionState::Running, SessionState::Stopped, SessionState::Killed];
    let text = shared.metrics.text(&states.map(|state| (state.as_str(), of(state))));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Sessions>, Refused> {
    let seen = blocking(&shared, |operator| Ok(operator.service()?.list()?)).await?;
    Ok(Json(Sessions { sessions: seen.into_iter().map(Session::from).collect() }))
}

async fn create(
    State(shared): State<Arc<Shared>>,
    body: Result<Json<Create>, JsonRejection>,
) -> Result<(StatusCode, Json<Session>), Refused> {
    let Json(create) =
        body.map_err(|error| Refused(error.status(), Problem::new("invalid", error.body_text())))?;
    super::wire::check_env(&create.env)?;
    let most = shared.sessions;
    let (seen, brought) = blocking(&shared, move |operator| {
        let new = operator.prepare(&create)?;
        let mut service = operator.service()?;
        if !service.has_room(&new, most)? {
            let mut wrong = Problem::new("too_many", format!("there are {most} sessions already"));
            wrong.hint = Some("remove some, or serve with a larger `--max-sessions`".into());
            return Err(wrong.into());
        }
        let differing = if create.recreate { Differing::Recreate } else { Differing::Refuse };
        let (session, brought) = service.up(&new, differing)?;
        operator.warn(&service);
        let observed = service.observe(&session)?;
        Ok((Seen { session, observed }, brought))
    })
    .await?;
    let status = if brought == Brought::WasUp { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(seen.into())))
}

async fn show(State(shared): State<Arc<Shared>>, name: Word) -> Result<Json<Session>, Refused> {
    let name = word(name)?;
    let seen = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        let observed = service.observe(&session)?;
        Ok(Seen { session, observed })
    })
    .await?;
    Ok(Json(seen.into()))
}

/// How a session is removed.
#[derive(Debug, Deserialize)]
struct Removal {
    /// With work that was not applied.
    #[serde(default)]
    discard: bool,
}

async fn remove(
    State(shared): State<Arc<Shared>>,
    name: Word,
    how: Result<Query<Removal>, QueryRejection>,
) -> Result<StatusCode, Refused> {
    let name = word(name)?;
    let Query(Removal { discard }) = how.map_err(|error| {
        Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", error.body_text()))
    })?;
    blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        if !discard {
            applied(&service, &session)?;
            // Once more when nothing runs in it that could change anything.
            service.down(&session)?;
            applied(&service, &session)?;
        }
        service.remove(&session)?;
        Ok(service.remove_layer(&session)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses to lose work that was not applied.
fn applied(service: &Service, session: &crate::session::Session) -> Result<(), Refused> {
    let Some(work) = service.unapplied(session)? else { return Ok(()) };
    let message = format!("the session `{}` has work that was not applied ({work})", session.name);
    let mut wrong = Problem::new("unapplied", message);
    wrong.hint = Some("apply it, or remove it with the session: `?discard=true`".into());
    Err(wrong.into())
}

async fn down(State(shared): State<Arc<Shared>>, name: Word) -> Result<Json<Session>, Refused> {
    let name = word(name)?;
    let seen = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        service.down(&session)?;
        operator.warn(&service);
        let (service, session) = find(operator, session.id.as_str())?;
        let observed = service.observe(&session)?;
        Ok(Seen { session, observed })
    })
    .await?;
    Ok(Json(seen.into()))
}

async fn restart(State(shared): State<Arc<Shared>>, name: Word) -> Result<Json<Session>, Refused> {
    let name = word(name)?;
    let seen = blocking(&shared, move |operator| {
        let (mut service, session) = find(operator, &name)?;
        let new = operator.prepare_again(&session)?;
        service.down(&session)?;
        let (session, _) = service.up(&new, Differing::Recreate)?;
        operator.warn(&service);
        let observed = service.observe(&session)?;
        Ok(Seen { session, observed })
    })
    .await?;
    Ok(Json(seen.into()))
}

async fn usage(State(shared): State<Arc<Shared>>, name: Word) -> Result<Json<Usage>, Refused> {
    let name = word(name)?;
    let used = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        service.used(&session)?.ok_or_else(|| {
            let mut unknown = Problem::new("unsupported", "what the session uses is not known");
            unknown.hint = Some("the engine counts it by cgroups, and has none".into());
            Refused::from(unknown)
        })
    })
    .await?;
    let sandbox_linux::process::Used { processes, memory, cpu } = used;
    Ok(Json(Usage { processes, memory_bytes: memory, cpu_seconds: cpu }))
}
