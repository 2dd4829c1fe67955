//! Routes of the API. Each call is registered once, with its handler and its description.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{NoContent, Response};
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::{self, Access};
use super::answer::{Created, Exposition, Refused, blocking, find};
use super::extract::{Body, Named, Parameters};
use super::openapi::{Description, Doc, Signature};
use super::wire::{Create, Health, Problem, SessionView, Sessions, Usage};
use super::{Shared, exec, files, listen, logs, review};
use crate::service::{Brought, Differing, Seen, Service};
use crate::session::State as SessionState;

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;

/// Registers all calls.
#[rustfmt::skip]
fn calls() -> Calls {
    Calls::new()
        .call(GET, "/v1/health", health, Doc::new("health", "Show the server's version", "The version"))
        .call(GET, "/v1/openapi.json", describe, Doc::new("describe", "Show this description", "The description"))
        .call(GET, "/metrics", metrics, Doc::new("metrics", "Metrics in the text format of Prometheus", "The metrics"))
        .call(GET, "/v1/sessions", list, Doc::new("list", "List sessions, the oldest first", "The sessions"))
        .call(POST, "/v1/sessions", create, Doc::new("create",
            "Create or start a session. Repeating the request returns the same session; 409 when it is up with different settings", "")
            .fails(&[409, 422, 429]))
        .call(GET, "/v1/sessions/{session}", show, Doc::new("show", "Show a session", "The session"))
        .call(DELETE, "/v1/sessions/{session}", remove, Doc::new("remove",
            "Remove a session with its log and its changes; 409 when it has changes that were not applied",
            "The session was removed").fails(&[409]))
        .call(POST, "/v1/sessions/{session}/down", down, Doc::new("down",
            "Stop a session; its log and its changes stay", "The stopped session"))
        .call(POST, "/v1/sessions/{session}/restart", restart, Doc::new("restart",
            "Stop a session and start it again", "The session").fails(&[422]))
        .call(GET, "/v1/sessions/{session}/usage", usage, Doc::new("usage",
            "Show the current usage of a session", "The usage").fails(&[422]))
        .call(GET, "/v1/sessions/{session}/logs", logs::stream, Doc::new("logs",
            "Stream the log, one event per line", "The lines"))
        .call(GET, "/v1/sessions/{session}/exec", exec::open, Doc::new("exec",
            "Run a command over a WebSocket: the first message is an `Exec`. Then binary messages are input, and text messages are `Control`. Output arrives as binary messages: a byte 1 (stdout) or 2 (stderr), then the data. The last message is an `Exit`",
            "A WebSocket"))
        .call(GET, "/v1/sessions/{session}/files", files::read, Doc::new("readFile",
            "Read a file inside a session", "The content").fails(&[409, 504]))
        .call(PUT, "/v1/sessions/{session}/files", files::write, Doc::new("writeFile",
            "Write a file inside a session", "The file was written").fails(&[409, 504]))
        .call(GET, "/v1/sessions/{session}/diff", review::diff, Doc::new("diff",
            "Show what a session changed, as data or as a patch for `git apply`; the session must have a copy-on-write layer",
            "The changes").fails(&[409, 422]))
        .call(POST, "/v1/sessions/{session}/apply", review::apply, Doc::new("apply",
            "Apply a session's changes to the project; 409 with a list when some can run code later or conflict with the host; 409 when the session is up",
            "The changes that were applied").fails(&[409, 422]))
        .call(POST, "/v1/sessions/{session}/undo", review::undo, Doc::new("undo",
            "Revert the last apply; 409 with a list when files changed since", "The changes that were reverted").fails(&[409, 422]))
        .call(POST, "/v1/sessions/{session}/discard", review::discard, Doc::new("discard",
            "Discard a session's changes", "The changes that were discarded").fails(&[409, 422]))
}

/// Router and `OpenAPI` document under construction.
struct Calls {
    router: Router<Arc<Shared>>,
    description: Description,
}

impl Calls {
    fn new() -> Self {
        Self { router: Router::new(), description: Description::new() }
    }

    fn call<H, T, P>(mut self, method: MethodFilter, path: &str, handler: H, doc: Doc) -> Self
    where
        H: Handler<T, Arc<Shared>> + Signature<P>,
        T: 'static,
    {
        let names = [(GET, "get"), (POST, "post"), (PUT, "put"), (DELETE, "delete")];
        let name = names.iter().find(|(filter, _)| *filter == method).map_or("", |(_, name)| name);
        self.description.add(name, path, &doc, &handler);
        self.router = self.router.route(path, on(method, handler));
        self
    }
}

/// Returns the `OpenAPI` document.
pub fn document() -> Value {
    calls().description.document()
}

/// Returns the router, with access control.
pub(super) fn all(shared: Arc<Shared>, access: Access) -> Router {
    calls()
        .router
        .fallback(async || no_such("unknown path"))
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
    let wrong = Problem::new("method_not_allowed", "method not allowed");
    Refused(StatusCode::METHOD_NOT_ALLOWED, wrong)
}

async fn health() -> Json<Health> {
    Json(Health { version: env!("CARGO_PKG_VERSION").to_owned() })
}

async fn describe() -> Json<Map<String, Value>> {
    let Value::Object(document) = document() else { return Json(Map::new()) };
    Json(document)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Exposition, Refused> {
    let seen = blocking(&shared, |operator| Ok(operator.service()?.list()?)).await?;
    let of = |state| seen.iter().filter(|seen| seen.observed.state == state).count();
    let states = [SessionState::Running, SessionState::Stopped, SessionState::Killed];
    let text = shared.metrics.text(&states.map(|state| (state.as_str(), of(state))));
    Ok(Exposition(text))
}

async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Sessions>, Refused> {
    let seen = blocking(&shared, |operator| Ok(operator.service()?.list()?)).await?;
    Ok(Json(Sessions { sessions: seen.into_iter().map(SessionView::from).collect() }))
}

async fn create(
    State(shared): State<Arc<Shared>>,
    Body(create): Body<Create>,
) -> Result<Created<SessionView>, Refused> {
    super::wire::check_env(&create.env)?;
    let most = shared.sessions;
    let (seen, brought) = blocking(&shared, move |operator| {
        let new = operator.prepare(&create)?;
        let mut service = operator.service()?;
        if !service.is_within_limit(&new, most)? {
            let mut wrong =
                Problem::new("too_many", format!("the limit of {most} sessions is reached"));
            wrong.hint =
                Some("remove some, or restart the server with a larger `--max-sessions`".into());
            return Err(wrong.into());
        }
        let differing = if create.recreate { Differing::Recreate } else { Differing::Refuse };
        let (session, brought) = service.up(&new, differing)?;
        operator.warn(&service);
        let observed = service.observe(&session)?;
        Ok((Seen { session, observed }, brought))
    })
    .await?;
    let session = SessionView::from(seen);
    Ok(if brought == Brought::WasUp { Created::WasUp(session) } else { Created::New(session) })
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
) -> Result<Json<SessionView>, Refused> {
    let seen = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        let observed = service.observe(&session)?;
        Ok(Seen { session, observed })
    })
    .await?;
    Ok(Json(seen.into()))
}

/// Query of a removal.
#[derive(Debug, Deserialize, JsonSchema)]
struct Removal {
    /// Discard changes that were not applied.
    #[serde(default)]
    discard: bool,
}

async fn remove(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(Removal { discard }): Parameters<Removal>,
) -> Result<NoContent, Refused> {
    blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        if !discard {
            check_applied(&service, &session)?;
            // Checked again once no process can change anything.
            service.down(&session)?;
            check_applied(&service, &session)?;
        }
        service.remove(&session)?;
        Ok(service.remove_layer(&session)?)
    })
    .await?;
    Ok(NoContent)
}

/// Refuses to lose changes that were not applied.
fn check_applied(service: &Service, session: &crate::session::Session) -> Result<(), Refused> {
    let Some(work) = service.unapplied(session)? else { return Ok(()) };
    let message = format!("session `{}` has changes that were not applied ({work})", session.name);
    let mut wrong = Problem::new("unapplied", message);
    wrong.hint = Some("apply them, or discard them with `?discard=true`".into());
    Err(wrong.into())
}

async fn down(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
) -> Result<Json<SessionView>, Refused> {
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

async fn restart(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
) -> Result<Json<SessionView>, Refused> {
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

async fn usage(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
) -> Result<Json<Usage>, Refused> {
    let used = blocking(&shared, move |operator| {
        let (service, session) = find(operator, &name)?;
        service.used(&session)?.ok_or_else(|| {
            let mut unknown = Problem::new("unsupported", "the usage of the session is unknown");
            unknown.hint = Some("the container engine has no cgroups to measure it".into());
            Refused::from(unknown)
        })
    })
    .await?;
    let sandbox_linux::process::Used { processes, memory, cpu } = used;
    Ok(Json(Usage { processes, memory_bytes: memory, cpu_seconds: cpu }))
}
