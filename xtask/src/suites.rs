//! Test executables of the workspace: compiled once, for every pass over them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output;
use crate::say::Failure;
use crate::workspace::Workspace;

/// Features that xtask compiles all tests with, so that nothing is compiled twice.
pub(crate) const FEATURES: &str = "--all-features";

/// Suites that a pass of their own runs.
const SPECIAL: [&str; 6] = ["agents", "containers", "machine", "programs", "rootless", "sdk"];

/// Suites of which every test needs root.
pub(crate) const ROOTS: [&str; 2] = ["bridge_root", "container_root"];

/// Executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suite {
    /// Name of the target: `e2e`, or that of a crate for its unit tests.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// Directory of the package, where tests run.
    package: PathBuf,
}

impl Suite {
    /// Returns the words of a command that runs it in place, and its directory.
    pub(crate) fn package(&self) -> &Path {
        &self.package
    }
}

/// All test executables.
#[derive(Debug)]
pub(crate) struct Suites(Vec<Suite>);

impl Suites {
    /// Compiles all tests, and the binaries that they run.
    pub(crate) fn compile(workspace: &Workspace) -> Result<Self, Failure> {
        let mut cargo = workspace.cargo("test");
        cargo.args(["--workspace", FEATURES]);
        Self::of(&mut cargo)
    }

    /// Compiles the tests that a command of cargo names.
    pub(crate) fn of(cargo: &mut Command) -> Result<Self, Failure> {
        let messages =
            output(cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]))?;
        Ok(Self(messages.lines().filter_map(suite).collect()))
    }

    /// Returns the suites of a plain pass: all but those that need a pass of their own, or another user.
    pub(crate) fn plain(&self, root: bool) -> Vec<&Suite> {
        let is_plain = |suite: &&Suite| {
            !SPECIAL.contains(&&*suite.name) && (root || !ROOTS.contains(&&*suite.name))
        };
        self.0.iter().filter(is_plain).collect()
    }

    /// Returns a suite by name.
    pub(crate) fn get(&self, name: &str) -> Result<&Suite, Failure> {
        let suite = self.0.iter().find(|suite| suite.name == name);
        suite.ok_or_else(|| Failure::new(format!("there is no test target `{name}`")))
    }
}

/// Reads one message of cargo: an executable that was compiled with a test harness.
fn suite(message: &str) -> Option<Suite> {
    let (_, profile) = message.split_once("\"profile\":{")?;
    let (profile, _) = profile.split_once('}')?;
    if !profile.contains("\"test\":true") {
        return None;
    }
    let (_, target) = message.split_once("\"target\":{")?;
    Some(Suite {
        name: text(target, "name")?,
        executable: text(message, "executable")?.into(),
        package: Path::new(&text(message, "manifest_path")?).parent()?.to_owned(),
    })
}

/// Returns the text of the first key with this name. Paths with quotes or backslashes are not expected.
fn text(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    rest.split_once('"').map(|(text, _)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suite_is_read_when_the_message_is_of_a_test_executable() {
        let message = |test, executable| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///x#p@0.1.0","manifest_path":"/x/Cargo.toml","target":{{"kind":["test"],"crate_types":["bin"],"name":"e2e","src_path":"/x/tests/e2e/main.rs","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"1","test":{test}}},"features":[],"filenames":[],"executable":{executable},"fresh":true}}"#
            )
        };
        let expected =
            Suite { name: "e2e".into(), executable: "/t/e2e-1".into(), package: "/x".into() };
        assert_eq!(suite(&message(true, "\"/t/e2e-1\"")), Some(expected));
        assert_eq!(suite(&message(false, "\"/t/e2e\"")), None);
        assert_eq!(suite(&message(true, "null")), None);
        assert_eq!(suite(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
