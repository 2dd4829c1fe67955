//! `logs`: what a session's agent and its supervisor said.

use sandbox_policy::Host;
use sandbox_sessions::backend::Listen;

use super::service;
use crate::args::Flags;
use crate::args::sessions::Logs;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Shows the log of a session, and goes on if asked to.
pub(crate) fn run(logs: &Logs, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, logs.name.as_ref(), flags, host)?;
    let how = Listen { tail: logs.tail, follow: logs.follow };
    service.log(&session, how, &mut |text| io.said(text))?;
    Ok(0)
}
