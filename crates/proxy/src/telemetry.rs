//! OpenTelemetry export, configured with the standard variables. Each exchange becomes a span with the fields of the
//! audit log. Spans are sent in batches as OTLP/HTTP JSON and never delay a request.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use thiserror::Error;

use crate::audit::Line;
use crate::upload::Upload;
use crate::upstream::{CallError, DialError, Dialer, NotSent, Pool, Target};

/// Limit of queued spans. Further ones are dropped and are only in the audit log.
const MOST: usize = 4096;
/// Time limit of an export.
const PATIENCE: Duration = Duration::from_secs(10);
const TRACEPARENT: &str = "traceparent";

/// Exporter with its queue of spans.
#[derive(Debug)]
pub(crate) struct Telemetry {
    target: Arc<Target>,
    path: Uri,
    headers: HeaderMap,
    resource: Value,
    waiting: Mutex<Vec<Value>>,
    random: SystemRandom,
    pool: Pool,
}

/// Failure to export spans.
#[derive(Debug, Error)]
pub(crate) enum TelemetryError {
    #[error("invalid collector URL `{0}`")]
    Endpoint(String),
    #[error("unsupported OTLP protocol `{0}`; use `http/json`")]
    Protocol(String),
    #[error("invalid header `{0}` for the collector")]
    Header(String),
    #[error("cannot reach the collector")]
    Dial(#[from] DialError),
    #[error("the collector did not respond")]
    Send(#[source] CallError),
    #[error("the collector closed a new connection immediately")]
    Closed,
    #[error("the collector timed out")]
    Slow,
    #[error("the collector responded with HTTP {0}")]
    Refused(u16),
}

/// Client's span, from its `traceparent` header (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    trace: String,
    span: String,
}

impl Parent {
    /// Parses the header. Returns `None` when it is missing or invalid.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parts = headers.get(TRACEPARENT)?.to_str().ok()?.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let is_id = |text: &str, length: usize| {
            let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == length && text.bytes().all(digit) && text.bytes().any(|byte| byte != b'0')
        };
        let good = version == "00" && is_id(trace, 32) && is_id(span, 16);
        good.then(|| Self { trace: trace.to_owned(), span: span.to_owned() })
    }
}

impl Telemetry {
    /// Creates an exporter from environment variables. Returns `None` when tracing is not configured.
    pub(crate) fn of(var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TelemetryError> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let url =
            match (var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), var("OTEL_EXPORTER_OTLP_ENDPOINT")) {
                (Some(whole), _) => whole,
                (None, Some(base)) => format!("{}/v1/traces", base.trim_end_matches('/')),
                (None, None) => return Ok(None),
            };
        let off = var("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if off || var("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none") {
            return Ok(None);
        }
        let protocol = var("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| var("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(other) = protocol.filter(|protocol| protocol != "http/json") {
            return Err(TelemetryError::Protocol(other));
        }
        let target = Target::named(&url).map_err(|_| TelemetryError::Endpoint(url.clone()))?;
        let path = Uri::try_from(if target.base.is_empty() { "/" } else { &target.base });
        let extra =
            var("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| var("OTEL_EXPORTER_OTLP_HEADERS"));
        Ok(Some(Self {
            headers: headers(&target, &extra.unwrap_or_default())?,
            path: path.map_err(|_| TelemetryError::Endpoint(url.clone()))?,
            target: Arc::new(target),
            resource: resource(var("OTEL_SERVICE_NAME"), var("OTEL_RESOURCE_ATTRIBUTES")),
            waiting: Mutex::default(),
            random: SystemRandom::new(),
            pool: Pool::new(Arc::default()),
        }))
    }

    /// Queues the span of an exchange that ends now.
    pub(crate) fn add(&self, line: &Line<'_>, took: Duration, parent: Option<&Parent>) {
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let span = span(line, end.saturating_sub(took), end, &self.id(8), parent, || self.id(16));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.push(span);
        }
    }

    fn id(&self, bytes: usize) -> String {
        let mut id = [0; 16];
        // Cannot fail here: tokens need random numbers as well, so the proxy would not have started.
        let _ = self.random.fill(&mut id);
        sandbox_linux::hex::encode(&id[..bytes])
    }

    /// Sends the queued spans. Spans that cannot be sent are dropped, but are in the audit log.
    pub(crate) async fn flush(&self) -> Result<(), TelemetryError> {
        let spans =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if spans.is_empty() {
            return Ok(());
        }
        let scope = json!({ "name": "agent-sandbox", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{ "resource": self.resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }] });
        match tokio::time::timeout(PATIENCE, self.send(&Bytes::from(body.to_string()))).await {
            Ok(done) => done,
            Err(_) => Err(TelemetryError::Slow),
        }
    }

    async fn send(&self, body: &Bytes) -> Result<(), TelemetryError> {
        let request = || {
            let mut request = Request::new(Upload::memory(body.clone(), Arc::default()));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = self.path.clone();
            *request.headers_mut() = self.headers.clone();
            request
        };
        let lease = match self.pool.reuse(&self.target) {
            Some(lease) => lease,
            None => self.pool.open_http1(&self.target, Dialer { timeout: PATIENCE }).await?,
        };
        let answer = lease.send(request()).await.map_err(|error| match error {
            NotSent::Failed(error) => TelemetryError::Send(error),
            NotSent::Unused(_) => TelemetryError::Closed,
        })?;
        let (head, mut reply) = answer.into_parts();
        while let Some(Ok(_)) = poll_fn(|cx| reply.poll_frame(cx)).await {}
        if let Some(connection) = reply.into_connection() {
            self.pool.give_back(&self.target, connection);
        }
        if head.status.is_success() {
            Ok(())
        } else {
            Err(TelemetryError::Refused(head.status.as_u16()))
        }
    }
}

/// Parses `name=value,name=value` and adds the headers that every request needs.
fn headers(target: &Target, extra: &str) -> Result<HeaderMap, TelemetryError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let host = HeaderValue::try_from(target.authority());
    headers.insert(HOST, host.map_err(|_| TelemetryError::Endpoint(target.url()))?);
    for pair in extra.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let wrong =
            || TelemetryError::Header(pair.split('=').next().unwrap_or_default().to_owned());
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn resource(service: Option<String>, attributes: Option<String>) -> Value {
    let attributes = attributes.unwrap_or_default();
    let pairs = attributes.split(',').filter_map(|pair| pair.split_once('='));
    let service = service.unwrap_or_else(|| "agent-sandbox-proxy".to_owned());
    let own = std::iter::once(text("service.name", &service));
    json!({ "attributes": own.chain(pairs.map(|(name, value)| text(name.trim(), value.trim()))).collect::<Vec<_>>() })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// OTLP's numbers for spans of kind server and for status error.
const SERVER: u8 = 2;
const ERROR: u8 = 2;

fn span(
    line: &Line<'_>,
    start: Duration,
    end: Duration,
    id: &str,
    parent: Option<&Parent>,
    new_trace: impl FnOnce() -> String,
) -> Value {
    let mut attributes = vec![
        text("http.request.method", line.method),
        text("url.path", line.path),
        number("http.response.status_code", line.status.into()),
        text("gen_ai.provider.name", line.provider),
        number("gen_ai.usage.input_tokens", line.tokens.input),
        number("gen_ai.usage.output_tokens", line.tokens.output),
        number("http.request.body.size", line.bytes_in),
        number("http.response.body.size", line.bytes_out),
        text("agent_sandbox.outcome", line.outcome),
    ];
    attributes.extend(line.session.map(|session| text("agent_sandbox.session", session)));
    attributes.extend(line.sandbox.map(|sandbox| text("agent_sandbox.sandbox", sandbox)));
    attributes.extend(line.code.map(|code| text("error.type", code)));
    let failed = line.status >= 500 || line.outcome == "upstream_broke_off";
    json!({
        "traceId": parent.map_or_else(new_trace, |parent| parent.trace.clone()),
        "spanId": id,
        "parentSpanId": parent.map_or("", |parent| &parent.span),
        "name": format!("{} {}", line.method, line.path),
        "kind": SERVER,
        "startTimeUnixNano": start.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
        "attributes": attributes,
        "status": if failed { json!({ "code": ERROR }) } else { json!({}) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_follows_the_otel_variables() {
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let of = |set: &[(&str, &str)]| {
            Telemetry::of(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
            .map(|made| made.map(|made| format!("{}{}", made.target.authority(), made.path)))
            .map_err(|error| error.to_string())
        };
        let to = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(BASE, "")]), Ok(None));
        assert_eq!(of(&[(BASE, "http://127.0.0.1:4318")]), to("127.0.0.1:4318/v1/traces"));
        assert_eq!(of(&[(BASE, "http://127.0.0.1:4318/x/")]), to("127.0.0.1:4318/x/v1/traces"));
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/spans");
        assert_eq!(of(&[(BASE, "http://x"), whole]), to("127.0.0.1:9/spans"));
        assert_eq!(of(&[whole, ("OTEL_SDK_DISABLED", "true")]), Ok(None));
        assert_eq!(of(&[whole, ("OTEL_TRACES_EXPORTER", "none")]), Ok(None));
        assert!(
            of(&[whole, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err().contains("grpc")
        );
        assert!(of(&[(BASE, "not a url")]).unwrap_err().contains("invalid collector URL"));
        let secret = ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, x y=hidden");
        let error = of(&[whole, secret]).unwrap_err();
        assert!(error.contains("x y") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn parent_is_read_from_a_valid_traceparent() {
        let of = |text: &str| {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static(TRACEPARENT),
                HeaderValue::from_str(text).unwrap(),
            )]);
            Parent::of(&headers).is_some()
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        assert!(of(&format!("00-{trace}-{span}-01")));
        for wrong in [
            format!("01-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "g".repeat(16)),
            format!("00-{trace}"),
            "\"}injected".to_owned(),
        ] {
            assert!(!of(&wrong), "{wrong}");
        }
    }
}
