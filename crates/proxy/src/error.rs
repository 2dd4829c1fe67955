//! What a client is told when its request does not go through: a code for programs, a sentence for
//! people, and what to do about it. What happened inside is for the log.

use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use sandbox_linux::error::chain;
use sandbox_protocol::Hint;

/// The header that says that the proxy answered, not the server.
pub const ERROR_HEADER: &str = "x-agent-sandbox-error";

/// A request that ends here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// For programs; never changes its meaning.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// When the same request may pass, in seconds.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// A refusal that will be the same next time.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status, code, message: message.into(), hint: hint.into(), retry_after: None }
    }

    /// Refusal for an error, with its causes and its next step.
    pub(crate) fn of(status: StatusCode, code: &'static str, error: &dyn Hint) -> Self {
        Self::new(status, code, chain(error), error.hint().unwrap_or_default())
    }

    /// One that will not.
    #[must_use]
    pub fn retry(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The body: readable by the SDKs of the providers, which look for `error.message`.
    pub fn json(&self) -> Bytes {
        let error = serde_json::json!({
            "type": "error",
            "error": { "type": "agent_sandbox", "code": self.code, "message": self.message, "hint": self.hint },
        });
        Bytes::from(error.to_string())
    }

    /// The answer.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.json());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ERROR_HEADER, HeaderValue::from_static(self.code));
        if self.status == StatusCode::BAD_REQUEST {
            // What comes behind a request that was not understood is not understood either.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match self.retry_after {
            Some(seconds) => headers.insert(RETRY_AFTER, HeaderValue::from(seconds)),
            // The SDKs of Anthropic and OpenAI try again on their own unless they are told not to.
            None => headers.insert("x-should-retry", HeaderValue::from_static("false")),
        };
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_json_with_code_message_and_hint() {
        let refusal =
            Refusal::new(StatusCode::FORBIDDEN, "route", "no \"quotes\" break it", "do this");
        let response = refusal.response();
        assert_eq!(response.status(), 403);
        assert_eq!(response.headers()[ERROR_HEADER], "route");
        assert_eq!(response.headers()["x-should-retry"], "false");
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["error"]["message"], "no \"quotes\" break it");
        assert_eq!(body["error"]["hint"], "do this");
        let later = refusal.retry(3).response();
        assert_eq!(later.headers()[RETRY_AFTER], "3");
        assert!(!later.headers().contains_key("x-should-retry"));
    }
}
