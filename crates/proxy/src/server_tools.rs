//! Server-side tools: functions that a provider executes, such as search, fetch, code or remote MCP servers.
//!
//! A sandbox without open network access could use them to send data out. Such a session may only use the tools that it
//! lists. Others are removed from a request that offers several. A request that requires one of them is refused.

mod search;
mod cut;

use hyper::StatusCode;
use thiserror::Error;

use crate::error::Refusal;
use crate::json::Json;
use search::Found;

/// Server-side tools that a session may use. Sessions without a restriction do not have this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTools(Vec<String>);

/// Invalid name of a tool.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("invalid server tool name `{0}`")]
pub struct NoTool(pub String);

/// Result of [`ServerTools::judge`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The body is allowed without changes.
    Clean,
    /// The body after the removal of these tools.
    Without { body: Vec<u8>, tools: Vec<String> },
}

impl ServerTools {
    /// Parses the names. Returns `None` when `*` is among them.
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

    /// Returns true when a tool is allowed by its name, or by a prefix before `_` that leaves out a version date.
    pub(crate) fn allow(&self, tool: &str) -> bool {
        let tool = tool.to_ascii_lowercase();
        self.0.iter().any(|name| {
            tool.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    }

    /// Checks a body.
    pub(crate) fn judge(&self, body: &[u8]) -> Result<Judged, Refusal> {
        let json = Json::read(body)
            .map_err(|error| unreadable(&format!("it is not valid JSON: {error}")))?;
        let found: Vec<Found> =
            search::through(&json).into_iter().filter(|found| !self.allow(&found.tool)).collect();
        let mut taken = Vec::with_capacity(found.len());
        for found in &found {
            match found.index {
                Some(index) if !search::demands(&json, found) => taken.push(index),
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
        "`{field}` requests the server tool `{tool}`, which could bypass this sandbox's network policy"
    );
    let hint = format!("add \"{tool}\" to `server_tools` of the secret, outside the sandbox");
    Refusal::new(StatusCode::FORBIDDEN, "server_tool_denied", message, hint)
}

/// Returns the refusal of a body that cannot be inspected.
pub(crate) fn unreadable(why: &str) -> Refusal {
    let message = format!("cannot inspect the body for server tools: {why}");
    let hint = "send uncompressed JSON, or allow all tools with \
                `server_tools = [\"*\"]` of the secret, outside the sandbox";
    Refusal::new(StatusCode::FORBIDDEN, "body_unreadable", message, hint)
}

#[cfg(test)]
mod tests;
