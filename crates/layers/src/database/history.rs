//! What was called: the log of tools that callers of AgentFS keep in the database.

use rusqlite::types::ValueRef;
use serde::Serialize;

use super::Database;
use super::rows::columns;
use crate::change::LayerError;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Its number.
    pub id: i64,
    /// The tool.
    pub name: String,
    /// `pending`, `success` or `error`.
    pub status: String,
    /// Seconds since the epoch.
    pub started_at: i64,
    /// How long it took; nothing while it has not ended.
    pub duration_ms: Option<i64>,
    /// What it was asked, as JSON.
    pub parameters: Option<String>,
    /// What it answered, as JSON.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Database {
    /// The last calls, oldest first.
    pub fn calls(&self, limit: u32) -> Result<Vec<Call>, LayerError> {
        if !self.rows.has("tool_calls") {
            return Ok(Vec::new());
        }
        let connection = self.connection();
        // The specification knows no status: a call is written when it has ended.
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
