//! Daily usage of model providers, from the audit log.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::audit::{self, AuditEntry};
use crate::dirs::ProxyDirs;
use crate::usage::Tokens;

/// Day and provider.
pub type Key = (String, String);

/// Requests to one provider on one day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests without a complete response.
    pub failed: u64,
    /// Bytes sent.
    pub bytes_in: u64,
    /// Bytes received.
    pub bytes_out: u64,
    /// Tokens used.
    pub tokens: Tokens,
    /// True when some of the token counts are estimates.
    pub estimated: bool,
}

impl Sum {
    fn add(&mut self, entry: &AuditEntry) {
        self.requests += 1;
        self.failed += u64::from(entry.outcome != "complete");
        self.bytes_in = self.bytes_in.saturating_add(entry.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(entry.bytes_out);
        self.tokens += entry.tokens;
        self.estimated |= entry.estimated;
    }
}

/// Sums up usage over the last days, optionally of one sandbox.
pub fn sums(dirs: &ProxyDirs, days: u32, sandbox: Option<&str>) -> io::Result<BTreeMap<Key, Sum>> {
    let mut sums = BTreeMap::<Key, Sum>::new();
    let span = Duration::from_secs(u64::from(days) * 86_400);
    let since = SystemTime::now().checked_sub(span).unwrap_or(UNIX_EPOCH);
    audit::read(&dirs.audit(), since, |entry| {
        if sandbox.is_none() || sandbox == entry.sandbox.as_deref() {
            let day = entry.time.get(..10).unwrap_or_default().to_owned();
            sums.entry((day, entry.provider.clone())).or_default().add(&entry);
        }
    })?;
    Ok(sums)
}
