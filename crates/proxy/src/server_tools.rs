//! What a request asks the provider to do on its own: search, fetch, run code, speak to other servers.
//!
//! A sandbox without an open network could send anything out that way, in a query or an address. So for
//! such a session only what it names passes. A tool that is offered among others is taken out, and the
//! request goes on without it; one that is about such a tool and nothing else is refused.

mod look;
mod cut;

use hyper::StatusCode;
use thiserror::Error;

use crate::error::Refusal;
use crate::json::Json;
use look::Found;

/// The tools of the provider that a session may use; no session has this that may use all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTools(Vec<String>);

/// A word that cannot be the name of a tool.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no name of a provider's tool")]
pub struct NoTool(pub String);

/// What a body may become.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It passes as it is.
    Clean,
    /// It passes without these tools.
    Without { body: Vec<u8>, tools: Vec<String> },
}

impl ServerTools {
    /// Reads the names; `None` when `*` is among them.
    pub fn parse(names: &[String]) -> Result<Option<Self>, NoTool> {
        let fits = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if let Some(wrong) = names.iter().find(|name| *name != "*" && !fits(name)) {
            return Err(NoTool(wrong.clone()));
        }
        let all = names.iter().any(|name| name == "*");
        Ok((!all).then(|| Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())))
    }

    /// Whether a tool may be used: by its name, or by the name without what stands behind it, such as a date.
    pub(crate) fn allow(&self, tool: &str) -> bool {
        let tool = tool.to_ascii_lowercase();
        self.0.iter().any(|name| {
            tool.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    }

    /// Looks through a body.
    pub(crate) fn judge(&self, body: &[u8]) -> Result<Judged, Refusal> {
        let json = Json::read(body)
            .map_err(|error| unreadable(&format!("it is no plain JSON: {error}")))?;
        let found: Vec<Found> =
            look::through(&json).into_iter().filter(|found| !self.allow(&found.tool)).collect();
        let mut taken = Vec::with_capacity(found.len());
        for found in &found {
            match found.place {
                Some(place) if !look::demands(&json, found) => taken.push(place),
                _ => return Err(denied(found)),
            }
        }
        let Some(first) = found.first() else { return Ok(Judged::Clean) };
        match cut::without(body, &taken) {
            Some(body) => Ok(Judged::Without {
                body,
                tools: found.into_iter().map(|found| found.tool).collect(),
            }),
            None => Err(denied(first)),
        }
    }
}

fn denied(found: &Found) -> Refusal {
    let Found { tool, field, .. } = found;
    let message = format!(
        "`{field}` asks the provider for `{tool}`, which would be a way out of this sandbox's network"
    );
    let hint = format!("add \"{tool}\" to `server_tools` of the secret, outside the sandbox");
    Refusal::new(StatusCode::FORBIDDEN, "server_tool_denied", message, hint)
}

/// What cannot be looked through does not pass.
pub(crate) fn unreadable(why: &str) -> Refusal {
    let message = format!("the body cannot be looked through for tools of the provider: {why}");
    let hint = "send JSON as the provider documents it, not packed; or allow everything with \
                `server_tools = [\"*\"]` of the secret, outside the sandbox";
    Refusal::new(StatusCode::FORBIDDEN, "body_unreadable", message, hint)
}

#[cfg(test)]
mod tests;
