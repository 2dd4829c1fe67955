//! Checks of everything that sandboxes need on a machine, with a remedy for what is missing.
//!
//! `facts` tests the machine for real, in child processes that leave nothing behind. `checks` turns the
//! facts into rows, without any access to the machine.

mod trial;
mod engine;
mod facts;
mod namespaces;
mod checks;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::render::own::Hiding;
use crate::run::Rendering;
use sandbox_policy::host::Host;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything works.
    Ok,
    /// Sandboxes run, but are weaker or lack a feature.
    Warn,
    /// No sandbox can run.
    Fail,
}

/// One row of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// Result.
    pub status: Status,
    /// Finding.
    pub detail: String,
    /// Remedy for a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Guarantees that do not hold on this machine because of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<&'static str>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), remedy: None, limits: Vec::new() }
    }

    fn warn(name: &'static str, detail: impl Into<String>) -> Self {
        Self { status: Status::Warn, ..Self::ok(name, detail) }
    }

    fn fail(name: &'static str, detail: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::ok(name, detail) }
    }

    fn fix(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn limits(self, limits: Vec<&'static str>) -> Self {
        Self { limits, ..self }
    }
}

/// Runs all checks. Changes nothing. The caller must be single-threaded.
pub fn examine(host: &Host) -> Vec<Check> {
    checks::all(&facts::Facts::gather(host))
}

/// Returns the reason why no sandbox starts here, and the remedy, on one line. Returns `None` when nothing
/// required is missing.
pub fn cause(host: &Host) -> Option<String> {
    first_cause(&examine(host))
}

fn first_cause(checks: &[Check]) -> Option<String> {
    let check = checks.iter().find(|check| check.status == Status::Fail)?;
    Some(match &check.remedy {
        Some(remedy) => format!("{}; {remedy}", check.detail),
        None => check.detail.clone(),
    })
}

/// Returns the guarantees of the strongest rendering that another rendering does not give.
pub fn limits(rendering: Rendering, root: bool) -> Vec<&'static str> {
    const LATER_PATHS: &str = "hidden paths in the home directory that do not exist yet become visible when the host creates them";
    const LATER_SOCKETS: &str =
        "the command can connect to sockets that the host opens later in the home directory";
    const STDIN: &str = "the command can reopen a file on standard input for writing";
    const TWICE: &str =
        "bubblewrap resolves paths a second time, and follows symlinks swapped in meanwhile";
    const NESTED: &str = "root cannot start a sandbox inside the sandbox";
    match rendering {
        Rendering::Own(Hiding::Overlay) => Vec::new(),
        Rendering::Own(Hiding::Binds) => vec![LATER_PATHS, LATER_SOCKETS],
        Rendering::Bubblewrap if root => vec![LATER_PATHS, LATER_SOCKETS, STDIN, TWICE, NESTED],
        Rendering::Bubblewrap => vec![LATER_PATHS, LATER_SOCKETS, STDIN, TWICE],
    }
}
