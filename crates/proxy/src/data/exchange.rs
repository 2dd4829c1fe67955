//! One request and its answer, from the moment it is let in to the last byte. Dropping it writes it down.

use std::sync::Arc;
use std::time::Instant;

use hyper::Method;
use hyper::header::HeaderMap;

use crate::Proxy;
use crate::audit::{Line, redacted};
use crate::session::{Permit, Session};
use crate::telemetry::Parent;
use crate::upload::Progress;
use crate::usage::{Counter, Counting, Tokens};

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every byte went through.
    Complete,
    /// The client did not want the rest.
    ClientGone,
    /// The server broke off, or was silent for too long.
    Broken,
    /// Nothing was forwarded, or no answer came; the code says why.
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

/// What is known about it so far.
pub(crate) struct Exchange {
    pub proxy: Arc<Proxy>,
    pub session: Option<Arc<Session>>,
    pub permit: Option<Permit>,
    pub method: Method,
    pub path: String,
    pub status: u16,
    pub outcome: Outcome,
    pub upload: Arc<Progress>,
    pub bytes_out: u64,
    pub counter: Counter,
    /// Whether the answer is written by a model, so that one without counts is estimated.
    pub generates: bool,
    pub streams: bool,
    /// Tools that it does not have any more.
    pub taken_out: Vec<String>,
    /// The client's own span, when spans are wanted.
    parent: Option<Parent>,
    started: Instant,
    first: Option<Instant>,
}

/// What paths end with when a model is asked.
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

    /// Looks for the client's own span, if anybody wants to know.
    pub(super) fn follow(&mut self, headers: &HeaderMap) {
        self.parent = self.proxy.telemetry.as_ref().and_then(|_| Parent::of(headers));
    }

    /// The answer begins.
    pub(super) fn begins(&mut self, status: u16) {
        self.status = status;
        self.first = Some(Instant::now());
    }

    /// The tokens that are charged, and whether they had to be guessed: an answer that was cut off before
    /// its counts came must not be free.
    fn tokens(&self) -> (Tokens, bool) {
        let found = self.counter.tokens();
        let answered = (200..300).contains(&self.status) && self.generates;
        // Asking how many tokens a text has uses none.
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

/// Of plain text.
const BYTES_PER_TOKEN: u64 = 4;
/// Of a stream that wraps each piece of text into an event.
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
