//! Limits of a session, and their enforcement.

use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::State;
use crate::error::Refusal;
use crate::limits;

/// Limits that a registration may set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Expiry in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Requests per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Concurrent requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Total tokens. Requests in progress are not interrupted when they are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Allowed models. `*` matches any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Largest request body in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// Seconds for name resolution, connection and TLS handshake together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<NonZeroU32>,
    /// Seconds from the request to the head of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_timeout: Option<NonZeroU32>,
    /// Seconds between two pieces of a body, in either direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<NonZeroU32>,
}

/// Current and recent requests of a session.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    parallel: u32,
    /// Token bucket: requests that may start now. It refills evenly.
    tokens: Option<f64>,
    refilled: Option<Instant>,
}

/// Permission for one request. Dropping it ends the request.
#[derive(Debug)]
pub(crate) struct Permit(Arc<State>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut gate = self.0.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.parallel = gate.parallel.saturating_sub(1);
    }
}

impl Limits {
    /// Returns the largest allowed request body.
    pub(crate) fn body(&self) -> u64 {
        self.max_body.unwrap_or(limits::BODY)
    }

    /// Returns the timeout of a connection to the server.
    pub(crate) fn connect(&self) -> Duration {
        seconds(self.connect_timeout).unwrap_or(limits::CONNECT_TIMEOUT)
    }

    /// Returns the timeout of the server's response.
    pub(crate) fn first_byte(&self) -> Duration {
        seconds(self.first_byte_timeout).unwrap_or(limits::FIRST_BYTE_TIMEOUT)
    }

    /// Returns the timeout of a body without progress.
    pub(crate) fn idle(&self) -> Duration {
        seconds(self.idle_timeout).unwrap_or(limits::IDLE_TIMEOUT)
    }

    pub(super) fn admit(&self, state: &Arc<State>, used: u64) -> Result<Permit, Refusal> {
        if let Some(budget) = self.token_budget.filter(|budget| used >= *budget) {
            let message = format!("the session has used {used} of {budget} tokens");
            let hint = "raise `token_budget` of the secret, or start a new session";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "budget_used_up", message, hint));
        }
        let mut gate = state.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.max_parallel.unwrap_or(limits::PARALLEL);
        if gate.parallel >= most {
            let message = format!("the session already has {most} requests in progress");
            let hint = "wait for one to finish, or raise `max_parallel` of the secret";
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_parallel",
                message,
                hint,
            )
            .retry(1));
        }
        if let Some(rate) = self.requests_per_minute {
            gate.take(rate)?;
        }
        gate.parallel += 1;
        Ok(Permit(state.clone()))
    }

    /// Returns true when a model is allowed.
    pub(crate) fn allows_model(&self, model: &str) -> bool {
        self.models
            .as_ref()
            .is_none_or(|models| models.iter().any(|pattern| matches(pattern, model)))
    }
}

impl Gate {
    /// Takes one request from the token bucket.
    fn take(&mut self, rate: u32) -> Result<(), Refusal> {
        let (rate, now) = (f64::from(rate), Instant::now());
        let since = self.refilled.map_or(0.0, |before| now.duration_since(before).as_secs_f64());
        let tokens = (self.tokens.unwrap_or(rate) + since * rate / 60.0).min(rate);
        self.refilled = Some(now);
        self.tokens = Some(tokens);
        if tokens < 1.0 {
            let wait =
                ((1.0 - tokens) * 60.0 / rate.max(f64::MIN_POSITIVE)).ceil().clamp(1.0, 60.0);
            let message = format!("the session is limited to {rate} requests per minute");
            let hint = "wait, or raise `requests_per_minute` of the secret";
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 60"
            )]
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                message,
                hint,
            )
            .retry(wait as u64));
        }
        self.tokens = Some(tokens - 1.0);
        Ok(())
    }
}

fn seconds(count: Option<NonZeroU32>) -> Option<Duration> {
    count.map(|count| Duration::from_secs(count.get().into()))
}

/// Matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    text.strip_prefix(before).is_some_and(|rest| {
        let starts = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
        after.is_empty() || starts.map(|at| &rest[at..]).any(|rest| matches(after, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(limits: &Limits, state: &Arc<State>, used: u64) -> Option<&'static str> {
        limits.admit(state, used).map(std::mem::forget).err().map(|refusal| refusal.code)
    }

    #[test]
    fn admit_refuses_when_the_token_budget_is_used_up() {
        let state = Arc::new(State::default());
        let open = Limits::default();
        assert_eq!(code(&open, &state, u64::MAX), None);
        let budget = Limits { token_budget: Some(100), ..open.clone() };
        assert_eq!(code(&budget, &state, 99), None);
        assert_eq!(code(&budget, &state, 100), Some("budget_used_up"));
    }

    #[test]
    fn parallel_requests_are_counted_until_they_end() {
        let state = Arc::new(State::default());
        let limits = Limits { max_parallel: Some(2), ..Limits::default() };
        let first = limits.admit(&state, 0).unwrap();
        let _second = limits.admit(&state, 0).unwrap();
        assert_eq!(limits.admit(&state, 0).unwrap_err().code, "too_many_parallel");
        drop(first);
        assert!(limits.admit(&state, 0).is_ok());
    }

    #[test]
    fn admit_refuses_above_the_rate_and_says_when_to_retry() {
        let state = Arc::new(State::default());
        let limits = Limits { requests_per_minute: Some(3), ..Limits::default() };
        for _ in 0..3 {
            assert!(limits.admit(&state, 0).is_ok());
        }
        let refusal = limits.admit(&state, 0).unwrap_err();
        assert_eq!(refusal.code, "too_many_requests");
        assert!((1..=20).contains(&refusal.retry_after.unwrap()), "{refusal:?}");
    }

    #[test]
    fn allows_model_matches_wildcards() {
        for (pattern, model, expected) in [
            ("claude-*", "claude-opus-5", true),
            ("claude-*", "gpt-6", false),
            ("*", "anything", true),
            ("*-mini", "gpt-6-mini", true),
            ("*-mini", "gpt-6-mini-x", false),
            ("gpt-*-mini", "gpt-6-mini", true),
            ("gpt-6", "gpt-6-mini", false),
            ("", "x", false),
        ] {
            let limits = Limits { models: Some(vec![pattern.into()]), ..Limits::default() };
            assert_eq!(limits.allows_model(model), expected, "{pattern} {model}");
        }
    }
}
