//! `test agents` and `test programs`: programs of others, too large to install for the plain tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{is_root, run, succeeds, temporary};
use crate::engine::Docker;
use crate::made::Thing;
use crate::passes::{Passes, in_place};
use crate::say::{Failure, Outcome};
use crate::suites::{Suite, Suites};
use crate::test::{in_docker, me};
use crate::users::TestUser;
use crate::workspace::Workspace;
use crate::{host, tools};

/// Runs real agents in the sandbox and in containers.
pub(crate) fn agents(workspace: &Workspace, passes: &Passes<'_>) -> Outcome {
    host::need_namespaces(Command::new("env"))?;
    let folder = visible(workspace, tools::agents(workspace)?)?;
    tools::debian(workspace)?;
    let suites = Suites::compile(workspace)?;
    let suite = suites.get("agents")?;
    let mut command = in_place(suite, &["--skip", "boxed::"]);
    command.env("AGENT_SANDBOX_AGENTS", programs(&folder));
    passes.run(&format!("agents, as {}", me()?), vec![command]);
    if is_root() {
        agents_as_user(workspace, passes, suite, &folder)?;
    }
    let docker = Docker::start(workspace)?;
    let mut boxed = in_docker(workspace, &docker);
    boxed
        .arg(variable(&folder))
        .arg(&suite.executable)
        .args(["--quiet", "boxed::"])
        .current_dir(suite.package());
    passes.run("agents in containers, as root", vec![boxed]);
    docker.stop()
}

fn programs(folder: &Path) -> PathBuf {
    folder.join("node_modules/.bin")
}

fn variable(folder: &Path) -> String {
    format!("AGENT_SANDBOX_AGENTS={}", programs(folder).display())
}

/// Copies agents out of `/tmp`, which is private to a sandbox.
fn visible(workspace: &Workspace, folder: PathBuf) -> Result<PathBuf, Failure> {
    if !folder.starts_with("/tmp") {
        return Ok(folder);
    }
    let copies = temporary("/var/tmp/as-agents.XXXXXX")?;
    workspace.made.record(&Thing::Folder(copies.clone()))?;
    copy(&folder, &copies.join("agents"))?;
    Ok(copies.join("agents"))
}

/// Copies agents by hard links, where the filesystem allows them: they are close to a gigabyte.
fn copy(from: &Path, to: &Path) -> Outcome {
    let cp = || {
        let mut cp = Command::new("cp");
        cp.args(["--recursive", "--no-dereference"]).arg(from).arg(to);
        cp
    };
    if succeeds(cp().arg("--link")) { Ok(()) } else { run(&mut cp()) }
}

fn agents_as_user(
    workspace: &Workspace,
    passes: &Passes<'_>,
    suite: &Suite,
    agents: &Path,
) -> Outcome {
    let user = TestUser::create(workspace)?;
    let tests = user.install("agents", &suite.executable)?;
    let folder = user.folder.join("agents");
    copy(agents, &folder)?;
    let mut command = user.command();
    command.arg(variable(&folder)).arg(tests).args(["--quiet", "--skip", "boxed::"]);
    passes.run("agents, as an ordinary user", vec![command]);
    passes.step("nothing has outlived the tests", user.is_gone());
    Ok(())
}

/// Runs compilers of two languages, and a keyring.
pub(crate) fn programs_of_others(workspace: &Workspace, passes: &Passes<'_>) -> Outcome {
    host::need_namespaces(Command::new("env"))?;
    let suites = Suites::compile(workspace)?;
    let suite = suites.get("programs")?;
    passes.run(&format!("large programs, as {}", me()?), vec![in_place(suite, &[])]);
    if !is_root() {
        return Ok(());
    }
    let user = TestUser::create(workspace)?;
    let tests = user.install("programs", &suite.executable)?;
    let mut command = user.command();
    command.arg(tests).arg("--quiet");
    passes.run("large programs, as an ordinary user", vec![command]);
    passes.step("nothing has outlived the tests", user.is_gone());
    Ok(())
}
