//! Progress reports of a run. The caller decides how to show them.

#[cfg(feature = "layers")]
use std::path::PathBuf;

use sandbox_core::inspect::Report;
use sandbox_core::plan::Plan;
use sandbox_core::run::Ended;
#[cfg(feature = "layers")]
use sandbox_layers::session::LayerSession;
use sandbox_policy::Host;
use sandbox_policy::network::blocked::Blocked;
use sandbox_protocol::Hint;

#[cfg(feature = "layers")]
use sandbox_layers::review::Summary;

/// Receiver of a run's reports. Every method has an empty default.
pub trait Events {
    /// Text for the user.
    fn note(&mut self, _text: &str) {}

    /// Detail for `--debug`.
    fn debug(&mut self, _step: &str, _text: &str) {}

    /// Scan of an earlier run that was killed.
    fn recovered(&mut self, _report: &Report) {}

    /// Plan that is about to be carried out.
    fn planned(&mut self, _plan: &Plan, _host: &Host) {}

    /// The command ended, or never started.
    fn ended(&mut self, _ended: &Ended) {}

    /// Connections refused by the policy.
    fn refused(&mut self, _blocked: &[Blocked]) {}

    /// Loss of the proxy. Requests failed from then on.
    fn proxy_lost(&mut self, _why: &str) {}

    /// Scan after this run.
    fn scanned(&mut self, _report: &Report) {}

    /// The run's session ended.
    #[cfg(feature = "layers")]
    fn closed(&mut self, _closed: &Closed<'_>) {}

    /// Failure after the command, which does not change its exit code.
    fn failed(&mut self, _error: &dyn Hint) {}
}

/// Reports nothing.
impl Events for () {}

/// End of a run in a session.
#[cfg(feature = "layers")]
#[derive(Debug)]
pub struct Closed<'c> {
    /// The session; `None` when nothing changed and it was removed.
    pub session: Option<&'c LayerSession>,
    /// The session's changes.
    pub summary: &'c Summary,
    /// Paths that both the session and the host changed.
    pub shifted: &'c [PathBuf],
    /// Other paths that the host changed while the command ran. The command may have read either version.
    pub also_changed: &'c [PathBuf],
    /// Processes in other mount namespaces that lost access to the session's files.
    pub cut_off: &'c [String],
}

#[cfg(feature = "layers")]
impl Closed<'static> {
    pub(crate) const UNCHANGED: Self = Self {
        session: None,
        summary: &Summary::EMPTY,
        shifted: &[],
        also_changed: &[],
        cut_off: &[],
    };
}
