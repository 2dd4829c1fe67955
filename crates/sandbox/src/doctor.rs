//! What sandboxes need of a machine, whether it is there, and the remedy where it is not.
//!
//! `facts` tries things for real, in children that leave nothing behind; `checks` makes rows of
//! what was found, without looking at anything itself.

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

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Sandboxes run, but something is weaker or not to be had.
    Warn,
    /// No sandbox can run.
    Fail,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable name.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// What would change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What does not hold on this machine because of it.
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

/// Looks at everything. Changes nothing; the caller must have a single thread.
pub fn examine(host: &Host) -> Vec<Check> {
    checks::all(&facts::Facts::gather(host))
}

/// Why no sandbox starts here, and the remedy, on one line. `None` when nothing needed is missing.
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

/// What a rendering cannot hold that the strongest one does.
pub fn limits(rendering: Rendering, root: bool) -> Vec<&'static str> {
    const LATER_PATHS: &str = "a hidden path in the home directory that does not exist yet is visible once the host creates it";
    const LATER_SOCKETS: &str =
        "a socket that the host opens later in the home directory can be connected to";
    const STDIN: &str = "a file on standard input can be opened again for writing";
    const TWICE: &str = "paths are looked up a second time by bubblewrap, so a link swapped in meanwhile is followed";
    const NESTED: &str = "as root, a sandbox cannot be started inside the sandbox";
    match rendering {
        Rendering::Own(Hiding::Overlay) => Vec::new(),
        Rendering::Own(Hiding::Binds) => vec![LATER_PATHS, LATER_SOCKETS],
        Rendering::Bubblewrap if root => vec![LATER_PATHS, LATER_SOCKETS, STDIN, TWICE, NESTED],
        Rendering::Bubblewrap => vec![LATER_PATHS, LATER_SOCKETS, STDIN, TWICE],
    }
}
