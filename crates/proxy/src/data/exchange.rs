//! Record of one request and its response, from admission to the last byte. Dropping it writes the audit line.

use std::sync::Arc;
use std::time::Instant;

use hyper::Method;
use hyper::header::HeaderMap;

use crate::Proxy;
use crate::audit::{Line, redacted};
use crate::session::{Permit, ProxySession};
use crate::telemetry::Parent;
use crate::upload::Progress;
use crate::usage::{Counter, Counting, Tokens};

/// End of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All bytes were forwarded.
    Complete,
    /// The client disconnected.
    ClientGone,
    /// The server closed the connection or was silent for too long.
    Broken,
    /// Nothing was forwarded, or the server did not respond. The code gives the reason.
    Refused(&'static str),
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::Broken => "upstream_broke_off",
            Self::Refused(_) => "refused",
        }
    }
}

/// State of an exchange.
pub(crate) struct Exchange {
    pub proxy: Arc<Proxy>,
    pub session: Option<Arc<ProxySession>>,
    pub permit: Option<Permit>,
    pub method: Method,
    pub path: String,
    pub status: u16,
    pub outcome: Outcome,
    pub upload: Arc<Progress>,
    pub bytes_out: u64,
    pub counter: Counter,
    /// True when a model generates the response, so that missing token counts are estimated.
    pub generates: bool,
    pub streams: bool,
    /// Server-side tools that were removed from the request.
    pub taken_out: Vec<String>,
    /// Trace context of the client, if tracing is on.
    parent: Option<Parent>,
    started: Instant,
    first: Option<Instant>,
}

/// Path suffixes of requests that a model answers.
const GENERATING: [&str; 9] = [
    "/messages",
    "/completions",
    "/responses",
    "/complete",
    "/chat",
    "/generate",
    ":generateContent",
    ":streamGenerateContent",
    "/realtime",
];

impl Exchange {
    pub(super) fn new(proxy: Arc<Proxy>, method: Method, path: &str) -> Self {
        proxy.metrics.begin();
        Self {
            proxy,
            session: None,
            permit: None,
            generates: method == Method::POST && GENERATING.iter().any(|end| path.ends_with(end)),
            method,
            path: path.to_owned(),
            status: 0,
            outcome: Outcome::ClientGone,
            upload: Arc::default(),
            bytes_out: 0,
            counter: Counter::new(Counting::Answer),
            streams: false,
            taken_out: Vec::new(),
            parent: None,
            started: Instant::now(),
            first: None,
        }
    }

    /// Reads the client's trace context, if tracing is on.
    pub(super) fn follow(&mut self, headers: &HeaderMap) {
        self.parent = self.proxy.telemetry.as_ref().and_then(|_| Parent::of(headers));
    }

    /// Records the head of the response.
    pub(super) fn begins(&mut self, status: u16) {
        self.status = status;
        self.first = Some(Instant::now());
    }

    /// Returns the tokens to charge, and whether they are an estimate. A response that was cut off before its token
    /// counts must not be free.
    fn tokens(&self) -> (Tokens, bool) {
        let found = self.counter.tokens();
        let answered = (200..300).contains(&self.status) && self.generates;
        // Counting the tokens of a text uses none.
        if self.path.ends_with("/count_tokens") || (found.is_none() && !answered) {
            return (Tokens::default(), false);
        }
        let whole = self.outcome == Outcome::Complete && found.is_some();
        if whole || !answered {
            return (found.unwrap_or_default(), false);
        }
        let mut tokens = found.unwrap_or_default();
        if tokens.input == 0 {
            tokens.input = self.upload.bytes() / BYTES_PER_TOKEN;
        }
        let each = if self.streams { BYTES_PER_EVENT } else { BYTES_PER_TOKEN };
        tokens.output = tokens.output.max(self.bytes_out / each);
        (tokens, true)
    }
}

/// Average in plain text.
const BYTES_PER_TOKEN: u64 = 4;
/// Average in an event stream, which wraps each piece of text into an event.
const BYTES_PER_EVENT: u64 = 40;

impl Drop for Exchange {
    fn drop(&mut self) {
        drop(self.permit.take());
        let (tokens, estimated) = self.tokens();
        let bytes_in = self.upload.bytes();
        if let Some(session) = &self.session {
            session.add(bytes_in, self.bytes_out, tokens);
        }
        let provider = self.session.as_ref().map_or("none", |session| session.provider.name);
        self.proxy.metrics.end(provider, self.status, bytes_in, self.bytes_out, tokens);
        let milliseconds = |from: Instant, to: Instant| {
            u64::try_from(to.duration_since(from).as_millis()).unwrap_or(u64::MAX)
        };
        let is_token = |text: &str| self.proxy.registry.find(text).is_some();
        let path = redacted(&self.path, is_token);
        let method = redacted(self.method.as_str(), is_token);
        let taken_out: Vec<_> =
            self.taken_out.iter().map(|tool| redacted(tool, is_token).into_owned()).collect();
        let line = Line {
            session: self.session.as_ref().map(|session| session.id.as_str()),
            sandbox: self.session.as_ref().and_then(|session| session.sandbox.as_deref()),
            provider,
            method: &method,
            path: &path,
            status: self.status,
            outcome: self.outcome.word(),
            code: if let Outcome::Refused(code) = self.outcome { Some(code) } else { None },
            taken_out: &taken_out,
            bytes_in,
            bytes_out: self.bytes_out,
            first_byte_ms: self.first.map(|first| milliseconds(self.started, first)),
            ms: milliseconds(self.started, Instant::now()),
            tokens,
            estimated,
        };
        self.proxy.audit.write(&line);
        if let Some(telemetry) = &self.proxy.telemetry {
            telemetry.add(&line, self.started.elapsed(), self.parent.as_ref());
        }
    }
}
