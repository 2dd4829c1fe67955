//! How much a session may do, and when it ends.

use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::State;
use crate::error::Refusal;
use crate::limits;

/// What a session's registration may limit. All of it is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Requests in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Requests at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Tokens in all. A request that is under way when they are used up is not cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Models that may be asked; `*` stands for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// The largest body of a request, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// Seconds for name, connection and TLS together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<NonZeroU32>,
    /// Seconds from the request to the head of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_timeout: Option<NonZeroU32>,
    /// Seconds between two pieces of a body, in either direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<NonZeroU32>,
}

/// Requests of the last minute and of now.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    parallel: u32,
    /// How many requests may begin now, in sixtieths: one is given back with each second and rate.
    tokens: Option<f64>,
    refilled: Option<Instant>,
}

/// The right to one request. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<State>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut gate = self.0.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.parallel = gate.parallel.saturating_sub(1);
    }
}

impl Limits {
    /// The largest body of a request.
    pub(crate) fn body(&self) -> u64 {
        self.max_body.unwrap_or(limits::BODY)
    }

    /// How long a connection to the server may take.
    pub(crate) fn connect(&self) -> Duration {
        seconds(self.connect_timeout).unwrap_or(limits::CONNECT_TIMEOUT)
    }

    /// How long the server may think before it answers.
    pub(crate) fn first_byte(&self) -> Duration {
        seconds(self.first_byte_timeout).unwrap_or(limits::FIRST_BYTE_TIMEOUT)
    }

    /// How long a body may stand still.
    pub(crate) fn idle(&self) -> Duration {
        seconds(self.idle_timeout).unwrap_or(limits::IDLE_TIMEOUT)
    }

    pub(super) fn admit(&self, state: &Arc<State>, used: u64) -> Result<Permit, Refusal> {
        if let Some(budget) = self.token_budget.filter(|budget| used >= *budget) {
            let message = format!("this session has used {used} of {budget} tokens");
            let hint = "raise `token_budget` of the secret, or start a new session";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "budget_used_up", message, hint));
        }
        let mut gate = state.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.max_parallel.unwrap_or(limits::PARALLEL);
        if gate.parallel >= most {
            let message = format!("this session has {most} requests under way already");
            let hint = "wait for one to end, or raise `max_parallel` of the secret";
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

    /// Whether a model may be asked.
    pub(crate) fn allows_model(&self, model: &str) -> bool {
        self.models
            .as_ref()
            .is_none_or(|models| models.iter().any(|pattern| matches(pattern, model)))
    }
}

impl Gate {
    /// Takes one request out of the minute's, which come back evenly.
    fn take(&mut self, rate: u32) -> Result<(), Refusal> {
        let (rate, now) = (f64::from(rate), Instant::now());
        let since = self.refilled.map_or(0.0, |before| now.duration_since(before).as_secs_f64());
        let tokens = (self.tokens.unwrap_or(rate) + since * rate / 60.0).min(rate);
        self.refilled = Some(now);
        self.tokens = Some(tokens);
        if tokens < 1.0 {
            let wait =
                ((1.0 - tokens) * 60.0 / rate.max(f64::MIN_POSITIVE)).ceil().clamp(1.0, 60.0);
            let message = format!("this session may make {rate} requests in a minute");
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

/// `*` stands for any text.
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
    fn each_limit_stops_what_it_is_for() {
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
    fn rate_is_spent_and_says_when_it_comes_back() {
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
    fn models_match_by_stars() {
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
