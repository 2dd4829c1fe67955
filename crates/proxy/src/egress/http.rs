//! HTTP: `CONNECT` for everything, absolute requests for plain HTTP, and plain requests on port 80 of
//! a name that the name server said is here.

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
use super::{Exit, Stop};
use crate::data::Body;
use crate::error::ERROR_HEADER;
use crate::headers::wants_trailers;
use crate::limits;

/// Headers that are between two neighbours only: RFC 9110, 7.6.1, and what proxies have among them.
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

/// Returns whether a request asks for a way out, and not for a provider of ours. `here` is the address that
/// the client connected to.
pub(crate) fn is_for_exit<B>(request: &Request<B>, here: Option<SocketAddr>) -> bool {
    if request.method() == Method::CONNECT {
        return true;
    }
    match (request.uri().authority(), here) {
        // HTTP/2 always has a scheme and an authority: who is asked decides (RFC 9113, 8.3.1).
        (asked, Some(here)) if request.version() >= Version::HTTP_2 => {
            asked.is_some_and(|asked| !is_here(asked, here))
        }
        _ => request.uri().scheme().is_some(),
    }
}

fn is_here(asked: &Authority, here: SocketAddr) -> bool {
    let name = asked.host().trim_start_matches('[').trim_end_matches(']');
    let host = match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical() == here.ip().to_canonical() || address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    host && asked.port_u16().unwrap_or(80) == here.port()
}

impl Exit {
    /// Answers a request that asks for a way out. `peer` is the port that the program has.
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
        done.unwrap_or_else(|stop| stopped(&stop))
    }

    /// A program that connected to port 80 of a name that the name server said is here.
    pub(super) async fn plain(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let peer = client.peer_addr().ok().map(|peer| peer.port());
        let service = service_fn(move |request: Request<Incoming>| {
            let exit = Arc::clone(&self);
            async move { Ok::<_, Infallible>(exit.direct(request, peer).await) }
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

    /// A request to a server that this one is taken for.
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
            Err(stop) => Err(stop),
        };
        done.unwrap_or_else(|stop| stopped(&stop))
    }

    async fn connect(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Result<Response<Body>, Stop> {
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let asked: HostPort = authority.parse().map_err(|error| malformed(authority, error))?;
        let server = self.reach(&asked, peer).await?;
        let exit = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(client) = hyper::upgrade::on(request).await {
                // Either side may end it as it likes.
                let _ = exit.relay(TokioIo::new(client), server, &asked, peer).await;
            }
        });
        Ok(Response::new(Body::from(Bytes::new())))
    }

    /// Plain HTTP: written anew, so that the server reads what was judged.
    async fn forward(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        peer: Option<u16>,
    ) -> Result<Response<Body>, Stop> {
        if request.uri().scheme_str() != Some("http") {
            return Err(Stop::Malformed("a proxy is asked for https by `CONNECT`".to_owned()));
        }
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let asked =
            HostPort::with_default(authority, 80).map_err(|error| malformed(authority, error))?;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
            && request.body().is_end_stream();
        self.policy.check_request(&asked, reads).map_err(|refusal| self.refuse(refusal, peer))?;
        let server = self.reach(&asked, peer).await?;
        let over = server.over();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let origin = path.parse::<Uri>().map_err(|_| Stop::Malformed("no path".to_owned()))?;
        *request.uri_mut() = origin;
        let trailers = wants_trailers(request.headers(), request.version());
        without_hops(request.headers_mut());
        if trailers {
            request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("te"));
        }
        request.headers_mut().insert(HOST, host_header(&asked)?);
        *request.version_mut() = hyper::Version::HTTP_11;
        send(server, request).await.map_err(|error| {
            if over.is_so() {
                return self.used_up(&asked, peer);
            }
            Stop::Unreachable(asked, io::Error::other(sandbox_linux::error::chain(&error)))
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

/// The URI that a request to a server means. Exactly one `Host` says which server.
fn absolute<B>(request: &Request<B>) -> Result<Uri, Stop> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Stop::Malformed("one `Host` is needed".to_owned()));
    };
    let host = host.to_str().map_err(|_| Stop::Malformed("the `Host` is no text".to_owned()))?;
    let asked = HostPort::with_default(host, 80).map_err(|error| malformed(host, error))?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("http").authority(asked.to_string()).path_and_query(path);
    uri.build().map_err(|error| Stop::Malformed(error.to_string()))
}

fn host_header(asked: &HostPort) -> Result<HeaderValue, Stop> {
    let text = if asked.port == 80 { asked.host.to_string() } else { asked.to_string() };
    HeaderValue::from_str(&text).map_err(|error| Stop::Malformed(error.to_string()))
}

fn malformed(text: &str, error: HostError) -> Stop {
    Stop::Malformed(format!("the host `{}` {error}", text.escape_debug()))
}

/// Takes out what is between two neighbours, also what `Connection` names as such.
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

/// The answer to a request that does not pass.
fn stopped(stop: &Stop) -> Response<Body> {
    let (status, code) = match stop {
        Stop::Refused(_) => (StatusCode::FORBIDDEN, "host-not-allowed"),
        Stop::Unreachable(..) => (StatusCode::BAD_GATEWAY, "host-unreachable"),
        Stop::Malformed(_) => (StatusCode::BAD_REQUEST, "bad-request"),
    };
    let refusal = if let Stop::Refused(refusal) = stop { Some(refusal) } else { None };
    let mut response = Response::new(Body::from(Bytes::from(text(stop, code, refusal))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ERROR_HEADER, HeaderValue::from_static(code));
    // On one line, for programs that show no body; the ellipsis of the command is no ASCII.
    let reason = refusal.map(|refusal| refusal.to_string().replace('…', "..."));
    if let Some(reason) = reason.and_then(|reason| HeaderValue::from_str(&reason).ok()) {
        headers.insert("x-agent-sandbox-reason", reason);
    }
    response
}

fn text(stop: &Stop, code: &str, refusal: Option<&Refusal>) -> String {
    let mut error = serde_json::json!({
        "type": "agent_sandbox", "code": code, "message": stop.to_string(),
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
    fn request_leads_out_unless_it_names_this_listener() {
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
            assert_eq!(is_for_exit(&request, Some(here)), expected, "{method} {uri}");
        }
    }
}
