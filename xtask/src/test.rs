//! `test`: all tests, or the suites that need more than the plain ones.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::command::{as_root, is_root, output};
use crate::engine::Docker;
use crate::passes::{Job, Passes, in_place};
use crate::say::{Failure, Outcome};
use crate::suites::{FEATURES, ROOTS, Suite, Suites};
use crate::users::TestUser;
use crate::workspace::Workspace;
use crate::{agents, host, rootless, tools};

/// Runs the tests that the words name: a kind of tests, or filters for the names of all.
pub(crate) fn test(workspace: &Workspace, words: &[&str]) -> Result<ExitCode, Failure> {
    let passes = Passes::new(&workspace.made);
    match words {
        ["agents"] => agents::agents(workspace, &passes)?,
        ["programs"] => agents::programs_of_others(workspace, &passes)?,
        ["containers"] => containers_alone(workspace, &passes)?,
        ["rootless", filters @ ..] => rootless::rootless(workspace, &passes, filters)?,
        ["machine"] => machine(workspace, &passes)?,
        filters => all(workspace, &passes, filters)?,
    }
    Ok(passes.summary())
}

/// Name of the user that runs this.
pub(crate) fn me() -> Result<String, Failure> {
    Ok(output(Command::new("id").arg("-un"))?.trim_end().to_owned())
}

/// Runs all tests that need only packages: as the caller, in containers, and where the caller is root as an ordinary user,
/// too.
pub(crate) fn all(workspace: &Workspace, passes: &Passes<'_>, filters: &[&str]) -> Outcome {
    host::need_namespaces(Command::new("env"))?;
    host::need_fuse(workspace)?;
    tools::pjdfstest(workspace)?;
    tools::sdk(workspace)?;
    tools::debian(workspace)?;
    let suites = Suites::compile(workspace)?;
    let arm64 = workspace.build_arm64()?;
    let user = if is_root() { Some(TestUser::create(workspace)?) } else { None };
    let mut jobs = as_caller(workspace, passes, &suites, filters)?;
    jobs.insert(1, Box::new(|| containers(workspace, passes, &suites, &arm64, filters)));
    let others = match &user {
        Some(user) => as_user(workspace, passes, &suites, user, filters)?,
        None => through_sudo(passes, &suites, filters)?,
    };
    passes.side_by_side([jobs, others]);
    if let Some(user) = user {
        passes.step("nothing has outlived the tests", user.is_gone());
    }
    Ok(())
}

/// Returns the passes as the user that called, the longest first.
fn as_caller<'a>(
    workspace: &'a Workspace,
    passes: &'a Passes<'_>,
    suites: &'a Suites,
    filters: &[&str],
) -> Result<Vec<Job<'a>>, Failure> {
    let me = me()?;
    let mut jobs = Vec::new();
    let mut add = |name: String, commands: Vec<Command>| {
        jobs.push(passes.job(name, commands));
    };
    let e2e = suites.get("e2e")?;
    add(format!("end to end, as {me}"), vec![in_place(e2e, filters)]);
    let proof = suites.get("proof")?;
    add(format!("copy-on-write, as {me}"), vec![in_place(proof, filters)]);
    let mut bwrap = in_place(e2e, filters);
    bwrap.env("AGENT_SANDBOX_MOUNTS", "bwrap");
    add(format!("end to end, as {me}, mounts by bwrap alone"), vec![bwrap]);
    let others =
        suites.plain(is_root()).into_iter().filter(|suite| *suite != e2e && *suite != proof);
    let mut others: Vec<Command> = others.map(|suite| in_place(suite, filters)).collect();
    let mut examples = workspace.cargo("test");
    examples.args(["--workspace", FEATURES, "--doc", "--"]).args(filters);
    others.push(examples);
    add(format!("everything else, as {me}"), others);
    let mut sdk = in_place(suites.get("sdk")?, filters);
    sdk.env("AGENT_SANDBOX_SDK", workspace.out.join("sdk"));
    add(format!("third-party SDKs, as {me}"), vec![sdk]);
    Ok(jobs)
}

/// Returns the passes over what only root can do, for another caller: users, logins, the machine's settings, giving root
/// up.
fn through_sudo<'a>(
    passes: &'a Passes<'_>,
    suites: &'a Suites,
    filters: &[&str],
) -> Result<Vec<Job<'a>>, Failure> {
    let job = |name: &&str| {
        let suite = suites.get(name)?;
        let mut command = as_root(&suite.executable);
        command.arg("--quiet").args(filters).current_dir(suite.package());
        Ok(passes.job(format!("{name}, through sudo"), vec![command]))
    };
    ROOTS.iter().map(job).collect()
}

/// Passes of an ordinary user: name, suite, and tests of what belongs to root, such as the compiler.
const AS_USER: [(&str, &str, &[&str]); 5] = [
    ("end to end", "e2e", &["--skip", "cargo_fetches"]),
    ("copy-on-write", "proof", &["--skip", "cargo", "--skip", "posix::"]),
    ("the credential proxy", "proxy", &[]),
    ("host commands", "bridge", &[]),
    ("PID 1 of a container", "container", &[]),
];

/// Returns passes over the same executables as a user made for them: root's tests say little about other users.
fn as_user<'a>(
    workspace: &Workspace,
    passes: &'a Passes<'_>,
    suites: &'a Suites,
    user: &TestUser,
    filters: &[&str],
) -> Result<Vec<Job<'a>>, Failure> {
    let job = |what: &str, suite: &Suite, variables: &[&str], skip: &[&str]| {
        let copy = user.install(&suite.name, &suite.executable)?;
        let mut command = user.command();
        command.args(variables).arg(copy).arg("--quiet").args(skip).args(filters);
        Ok(passes.job(format!("{what}, as an ordinary user"), vec![command]))
    };
    let mut jobs = Vec::new();
    for (what, name, skip) in AS_USER {
        jobs.push(job(what, suites.get(name)?, &[], skip)?);
    }
    let (what, variables) = ("end to end, mounts by bwrap alone", ["AGENT_SANDBOX_MOUNTS=bwrap"]);
    jobs.insert(1, job(what, suites.get("e2e")?, &variables, AS_USER[0].2)?);
    let folder = user.folder.join("sdk");
    let mut copy = Command::new("cp");
    crate::command::run(copy.arg("--recursive").arg(workspace.out.join("sdk")).arg(&folder))?;
    let variable = format!("AGENT_SANDBOX_SDK={}", folder.display());
    jobs.push(job("third-party SDKs", suites.get("sdk")?, &[&variable], &[])?);
    Ok(jobs)
}

fn containers_alone(workspace: &Workspace, passes: &Passes<'_>) -> Outcome {
    tools::debian(workspace)?;
    let suites = Suites::compile(workspace)?;
    let arm64 = workspace.build_arm64()?;
    containers(workspace, passes, &suites, &arm64, &[])
}

/// Runs the tests in containers. Only root can start a Docker daemon, and its users are root in effect: so this runs once,
/// as root or through sudo.
fn containers(
    workspace: &Workspace,
    passes: &Passes<'_>,
    suites: &Suites,
    arm64: &Path,
    filters: &[&str],
) -> Outcome {
    let docker = Docker::start(workspace)?;
    let suite = suites.get("containers")?;
    let mut command = in_docker(workspace, &docker);
    command.arg(format!("AGENT_SANDBOX_ARM64={}", arm64.display())).arg(&suite.executable);
    command.arg("--quiet").args(filters).current_dir(suite.package());
    passes.run("containers, as root", vec![command]);
    docker.stop()
}

/// Returns `env` as root, with the variables of a daemon and of what tests put into containers.
pub(crate) fn in_docker(workspace: &Workspace, docker: &Docker) -> Command {
    let mut command = as_root("env");
    command.arg(format!("DOCKER_HOST={}", docker.address()));
    command.arg(format!("AGENT_SANDBOX_STATIC={}", workspace.binaries().display()));
    command.arg(format!("AGENT_SANDBOX_DEBIAN={}", workspace.out.join("debian.tar").display()));
    command
}

/// Runs PID 1 of a whole machine, with Debian's kernel for virtual ones.
fn machine(workspace: &Workspace, passes: &Passes<'_>) -> Outcome {
    let kernel = tools::kernel(workspace)?;
    let suites = Suites::compile(workspace)?;
    let mut command = in_place(suites.get("machine")?, &[]);
    command.env("AGENT_SANDBOX_STATIC", workspace.binaries()).env("AGENT_SANDBOX_KERNEL", kernel);
    passes.run("a whole machine", vec![command]);
    Ok(())
}
