//! HTTP connections, with limits on their number and on the time of a request.

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

/// Maximum number of connections to one address. Further ones wait.
const MOST: usize = 512;
/// Time limit for the header of a request, on a new or idle connection.
const HEAD: Duration = Duration::from_secs(10);
/// Time limit for the body.
const BODY: Duration = Duration::from_secs(20);
/// Maximum size of the body.
pub(super) const LONGEST: usize = 1 << 20;

/// Accepts connections until the future is dropped.
pub(super) async fn serve(mut listener: impl Listener, routes: Router) {
    let connections = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let (io, _) = listener.accept().await;
        let routes = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // There is no one left to report a broken connection to.
            let _ = builder.serve_connection(TokioIo::new(io), routes).with_upgrades().await;
            drop(permit);
        });
    }
}

/// Reads the whole body before the request is handled.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let read = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    match tokio::time::timeout(BODY, read).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let wrong = Problem::new("too_large", "the body is larger than 1 MiB");
            problem(error.status(), &wrong)
        }
        Ok(Err(error)) => problem(error.status(), &Problem::new("invalid", error.body_text())),
        Err(_) => {
            let wrong = Problem::new("too_slow", "timed out while reading the body");
            problem(StatusCode::REQUEST_TIMEOUT, &wrong)
        }
    }
}
