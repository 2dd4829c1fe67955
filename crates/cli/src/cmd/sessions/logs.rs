//! `logs`: shows the log of a session's agent and supervisor.

use sandbox_policy::Host;
use sandbox_sessions::backend::Listen;

use super::service;
use crate::args::Flags;
use crate::args::sessions::Logs;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Prints the log of a session.
pub(crate) fn run(logs: &Logs, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if flags.json && logs.follow {
        return Err(Failed::usage("`--json` cannot be used with `--follow`"));
    }
    let service = service::open(host)?;
    let session = service::chosen(&service, logs.name.as_ref(), flags, host)?;
    let how = Listen { tail: logs.tail, follow: logs.follow };
    if !flags.json {
        service.log(&session, how, &mut |text| io.said(text))?;
        return Ok(0);
    }
    let mut log = Vec::new();
    service.log(&session, how, &mut |text| {
        log.extend_from_slice(text);
        true
    })?;
    let log = String::from_utf8_lossy(&log);
    crate::cmd::json(&serde_json::json!({ "session": session.name.as_str(), "log": log }), io);
    Ok(0)
}
