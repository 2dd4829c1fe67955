//! Error responses to clients: a code for programs, a message for users, and a hint. Internal details go to the log
//! only.

use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use sandbox_linux::error::chain;
use sandbox_protocol::Hint;

/// Header of responses that come from the proxy itself, not from the server.
pub(crate) const ERROR_HEADER: &str = "x-agent-sandbox-error";

/// Error response to a request that is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable code for programs.
    pub code: &'static str,
    /// Message for users.
    pub message: String,
    /// Next step for users.
    pub hint: String,
    /// Seconds after which a retry may succeed.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// Creates a permanent refusal. Retrying does not help.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status, code, message: message.into(), hint: hint.into(), retry_after: None }
    }

    /// Creates a refusal from an error, with its causes and hint.
    pub(crate) fn of(status: StatusCode, code: &'static str, error: &dyn Hint) -> Self {
        Self::new(status, code, chain(error), error.hint().unwrap_or_default())
    }

    /// Makes the refusal temporary.
    #[must_use]
    pub fn retry(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the body. The SDKs of providers read `error.message`.
    pub fn json(&self) -> Bytes {
        let error = serde_json::json!({
            "type": "error",
            "error": { "type": "agent_sandbox", "code": self.code, "message": self.message, "hint": self.hint },
        });
        Bytes::from(error.to_string())
    }

    /// Returns the response.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.json());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ERROR_HEADER, HeaderValue::from_static(self.code));
        if self.status == StatusCode::BAD_REQUEST {
            // The rest of the connection cannot be parsed reliably after a malformed request.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match self.retry_after {
            Some(seconds) => headers.insert(RETRY_AFTER, HeaderValue::from(seconds)),
            // The SDKs of Anthropic and OpenAI retry by default.
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
