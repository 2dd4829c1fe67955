//! Connections: so many at a time, and each has to say soon what it wants.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

use super::answer::problem;
use super::wire::Problem;

/// Connections to one address at a time; who comes after that waits.
const MOST: usize = 512;
/// How long a request may take to begin, on a connection that is new or idle.
const HEAD: Duration = Duration::from_secs(10);
/// How long its body may take.
const BODY: Duration = Duration::from_secs(20);
/// How long its body may be.
pub(super) const LONGEST: usize = 1 << 20;

/// Serves whoever comes. Ends with whoever waits for it.
pub(super) async fn serve(mut listener: impl Listener, routes: Router) {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (io, _) = listener.accept().await;
        let routes = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // Who breaks off, or says nothing, is told nothing.
            let _ = builder.serve_connection(TokioIo::new(io), routes).with_upgrades().await;
            drop(permit);
        });
    }
}

/// Reads the whole body of a request before anything is done about it.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let read = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    match tokio::time::timeout(BODY, read).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let wrong = Problem::new("too_large", "the body is longer than a megabyte");
            problem(error.status(), &wrong)
        }
        Ok(Err(error)) => problem(error.status(), &Problem::new("invalid", error.body_text())),
        Err(_) => {
            let wrong = Problem::new("too_slow", "the body takes too long");
            problem(StatusCode::REQUEST_TIMEOUT, &wrong)
        }
    }
}
