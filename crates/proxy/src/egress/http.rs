//! HTTP egress: `CONNECT`, absolute-form requests, and plain requests to port 80 of a name that the sandbox's DNS
//! server resolved to the proxy.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use sandbox_policy::network::{HostError, HostPort, Refusal};
use tokio::net::TcpStream;

use super::meter::Metered;
use super::{EgressError, EgressProxy};
use crate::data::Body;
use crate::error::ERROR_HEADER;
use crate::headers::wants_trailers;
use crate::limits;

/// Hop-by-hop headers (RFC 9110, 7.6.1) and headers for proxies.
const HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Returns true when a request is for another host, not for a provider of the proxy. `here` is the address that the
/// client connected to.
pub(crate) fn is_for_egress<B>(request: &Request<B>, here: Option<SocketAddr>) -> bool {
    if request.method() == Method::CONNECT {
        return true;
    }
    match (request.uri().authority(), here) {
        // HTTP/2 requests always have a scheme and an authority (RFC 9113, 8.3.1), so the host decides.
        (target, Some(here)) if request.version() >= Version::HTTP_2 => {
            target.is_some_and(|target| !is_here(target, here))
        }
        _ => request.uri().scheme().is_some(),
    }
}

fn is_here(target: &Authority, here: SocketAddr) -> bool {
    let name = target.host().trim_start_matches('[').trim_end_matches(']');
    let host = match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical() == here.ip().to_canonical() || address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    host && target.port_u16().unwrap_or(80) == here.port()
}

impl EgressProxy {
    /// Answers a request for another host. `peer` is the client's port.
    pub(crate) async fn http(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Response<Body> {
        let done = if request.method() == Method::CONNECT {
            self.connect(request, peer).await
        } else {
            self.forward(request, peer).await
        };
        done.unwrap_or_else(|error| error_response(&error))
    }

    /// Serves a connection to port 80 of a name that the sandbox's DNS server resolved to the proxy.
    pub(super) async fn plain(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let peer = client.peer_addr().ok().map(|peer| peer.port());
        let service = service_fn(move |request: Request<Incoming>| {
            let egress = Arc::clone(&self);
            async move { Ok::<_, Infallible>(egress.direct(request, peer).await) }
        });
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEAD_TIMEOUT)
            .max_header_size(limits::HEADERS)
            .max_buf_size(limits::BUFFER)
            .serve_connection(TokioIo::new(client), service)
            .await
            .map_err(io::Error::other)
    }

    /// Answers a request in origin form, from its `Host` header.
    async fn direct(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Response<Body> {
        let done = match absolute(&request) {
            Ok(uri) => {
                *request.uri_mut() = uri;
                self.forward(request, peer).await
            }
            Err(error) => Err(error),
        };
        done.unwrap_or_else(|error| error_response(&error))
    }

    async fn connect(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Result<Response<Body>, EgressError> {
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let target: HostPort = authority.parse().map_err(|error| malformed(authority, error))?;
        let server = self.reach(&target, peer).await?;
        let egress = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(client) = hyper::upgrade::on(request).await {
                // Either side may close the tunnel at any time.
                let _ = egress.relay(TokioIo::new(client), server, &target, peer).await;
            }
        });
        Ok(Response::new(Body::from(Bytes::new())))
    }

    /// Forwards a plain HTTP request. It is rebuilt, so that the server reads what the policy checked.
    async fn forward(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Result<Response<Body>, EgressError> {
        if request.uri().scheme_str() != Some("http") {
            return Err(EgressError::Malformed("use `CONNECT` for https".to_owned()));
        }
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let target =
            HostPort::with_default(authority, 80).map_err(|error| malformed(authority, error))?;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
            && request.body().is_end_stream();
        self.policy.check_request(&target, reads).map_err(|refusal| self.refuse(refusal, peer))?;
        let server = self.reach(&target, peer).await?;
        let over = server.over();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let origin =
            path.parse::<Uri>().map_err(|_| EgressError::Malformed("invalid path".to_owned()))?;
        *request.uri_mut() = origin;
        let trailers = wants_trailers(request.headers(), request.version());
        without_hops(request.headers_mut());
        if trailers {
            request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("te"));
        }
        request.headers_mut().insert(HOST, host_header(&target)?);
        *request.version_mut() = hyper::Version::HTTP_11;
        send(server, request).await.map_err(|error| {
            if over.is_set() {
                return self.used_up(&target, peer);
            }
            EgressError::Unreachable(target, io::Error::other(sandbox_linux::error::chain(&error)))
        })
    }
}

async fn send(server: Metered, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(server)).await?;
    tokio::spawn(connection);
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    without_hops(&mut head.headers);
    Ok(Response::from_parts(head, Body::Passed(body)))
}

/// Returns the absolute URI of a request in origin form, which needs exactly one `Host`.
fn absolute<B>(request: &Request<B>) -> Result<Uri, EgressError> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(EgressError::Malformed(
            "the request needs exactly one `Host` header".to_owned(),
        ));
    };
    let host = host
        .to_str()
        .map_err(|_| EgressError::Malformed("the `Host` header is not valid text".to_owned()))?;
    let target = HostPort::with_default(host, 80).map_err(|error| malformed(host, error))?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("http").authority(target.to_string()).path_and_query(path);
    uri.build().map_err(|error| EgressError::Malformed(error.to_string()))
}

fn host_header(target: &HostPort) -> Result<HeaderValue, EgressError> {
    let text = if target.port == 80 { target.host.to_string() } else { target.to_string() };
    HeaderValue::from_str(&text).map_err(|error| EgressError::Malformed(error.to_string()))
}

fn malformed(text: &str, error: HostError) -> EgressError {
    EgressError::Malformed(format!("the host `{}` {error}", text.escape_debug()))
}

/// Removes hop-by-hop headers, including those that `Connection` lists.
fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all("connection")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP {
        headers.remove(name);
    }
}

/// Returns the error response for a request that was not forwarded.
fn error_response(error: &EgressError) -> Response<Body> {
    let (status, code) = match error {
        EgressError::Refused(_) => (StatusCode::FORBIDDEN, "host-not-allowed"),
        EgressError::Unreachable(..) => (StatusCode::BAD_GATEWAY, "host-unreachable"),
        EgressError::Malformed(_) => (StatusCode::BAD_REQUEST, "bad-request"),
    };
    let refusal = if let EgressError::Refused(refusal) = error { Some(refusal) } else { None };
    let mut response = Response::new(Body::from(Bytes::from(text(error, code, refusal))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ERROR_HEADER, HeaderValue::from_static(code));
    // For programs that show headers but no body. The ellipsis in the command is not ASCII.
    let reason = refusal.map(|refusal| refusal.to_string().replace('…', "..."));
    if let Some(reason) = reason.and_then(|reason| HeaderValue::from_str(&reason).ok()) {
        headers.insert("x-agent-sandbox-reason", reason);
    }
    response
}

fn text(error: &EgressError, code: &str, refusal: Option<&Refusal>) -> String {
    let mut error = serde_json::json!({
        "type": "agent_sandbox", "code": code, "message": error.to_string(),
    });
    if let Some(Refusal { host, port, rule, allow_with }) = refusal {
        error["host"] = serde_json::json!(host);
        error["port"] = serde_json::json!(port);
        error["rule"] = serde_json::json!(rule);
        error["allow_with"] = serde_json::json!(allow_with);
    }
    format!("{}\n", serde_json::json!({ "type": "error", "error": error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_for_egress_unless_it_names_this_listener() {
        let here: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let (old, new) = (Version::HTTP_11, Version::HTTP_2);
        for (method, uri, version, expected) in [
            ("GET", "/v1/models", old, false),
            ("GET", "http://127.0.0.1:8080/v1/models", old, true),
            ("GET", "http://a.example/", old, true),
            ("CONNECT", "a.example:443", old, true),
            ("CONNECT", "127.0.0.1:8080", new, true),
            ("POST", "http://127.0.0.1:8080/v1/messages", new, false),
            ("POST", "http://localhost:8080/v1/messages", new, false),
            ("POST", "http://LOCALHOST:8080/v1/messages", new, false),
            ("POST", "http://[::1]:8080/v1/messages", new, false),
            ("POST", "http://[::ffff:127.0.0.1]:8080/v1/messages", new, false),
            ("POST", "/v1/messages", new, false),
            ("POST", "http://127.0.0.1:8081/v1/messages", new, true),
            ("POST", "http://127.0.0.1/v1/messages", new, true),
            ("POST", "http://a.example:8080/v1/messages", new, true),
            ("POST", "http://127.0.0.1.a.example:8080/", new, true),
            ("POST", "http://localhost.a.example:8080/", new, true),
        ] {
            let request = Request::builder().method(method).uri(uri).version(version);
            let request = request.body(()).unwrap();
            assert_eq!(is_for_egress(&request, Some(here)), expected, "{method} {uri}");
        }
    }
}
