//! Tool calls that users of AgentFS log in the database.

use rusqlite::types::ValueRef;
use serde::Serialize;

use super::Database;
use super::rows::columns;
use crate::change::LayerError;

/// Logged tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Number of the call.
    pub id: i64,
    /// Name of the tool.
    pub name: String,
    /// `pending`, `success` or `error`.
    pub status: String,
    /// Seconds since the epoch.
    pub started_at: i64,
    /// Duration in milliseconds, if the call has ended.
    pub duration_ms: Option<i64>,
    /// Parameters, as JSON.
    pub parameters: Option<String>,
    /// Result, as JSON.
    pub result: Option<String>,
    /// Error message.
    pub error: Option<String>,
}

impl Database {
    /// Returns the last calls, oldest first.
    pub fn calls(&self, limit: u32) -> Result<Vec<Call>, LayerError> {
        if !self.rows.has("tool_calls") {
            return Ok(Vec::new());
        }
        let connection = self.connection();
        // The specification has no status: a call is logged when it has ended.
        let known = columns(&connection, "tool_calls")?;
        let status = if known.contains("status") {
            "status"
        } else {
            "CASE WHEN error IS NULL THEN 'success' ELSE 'error' END"
        };
        let mut statement = connection.prepare(&format!(
            "SELECT id, name, {status}, started_at, duration_ms, parameters, result, error
             FROM tool_calls ORDER BY id DESC LIMIT ?"
        ))?;
        let mut rows = statement.query([limit])?;
        let mut calls = Vec::new();
        while let Some(row) = rows.next()? {
            let words = |at| {
                Ok::<_, LayerError>(match row.get_ref(at)? {
                    ValueRef::Text(text) | ValueRef::Blob(text) => {
                        Some(String::from_utf8_lossy(text).into_owned())
                    }
                    ValueRef::Null => None,
                    ValueRef::Integer(number) => Some(number.to_string()),
                    ValueRef::Real(number) => Some(number.to_string()),
                })
            };
            calls.push(Call {
                id: row.get(0)?,
                name: words(1)?.unwrap_or_default(),
                status: words(2)?.unwrap_or_default(),
                started_at: row.get(3)?,
                duration_ms: row.get(4)?,
                parameters: words(5)?,
                result: words(6)?,
                error: words(7)?,
            });
        }
        calls.reverse();
        Ok(calls)
    }
}
