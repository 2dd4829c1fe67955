//! `bench`: measurements of the released binary.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::command::{as_root, is_root, run};
use crate::engine::Docker;
use crate::say::{Context, Failure, Outcome};
use crate::tools;
use crate::workspace::{Workspace, variable};

pub(crate) fn bench(workspace: &Workspace, name: &str, flags: &[&str]) -> Outcome {
    let folder = workspace.build("release")?;
    match name {
        "init" | "sessions" => {
            if !is_root() {
                let failure = Failure::new(format!("`bench {name}` starts a Docker daemon"));
                return Err(failure.hint("start it as root"));
            }
            let docker = Docker::start(workspace)?;
            let mut bench = cargo(workspace, &folder, name, flags);
            run(bench.env("DOCKER_HOST", docker.address()).env("AGENT_SANDBOX_STATIC", &folder))?;
            docker.stop()
        }
        "cow" => {
            let tools = tools::bare_fuse(workspace)?;
            let path = variable("PATH").unwrap_or_default();
            let path = env::join_paths(env::split_paths(&path).chain([tools]));
            let path = path.map_err(std::io::Error::other).context("extend PATH")?;
            run(cargo(workspace, &folder, name, flags).env("PATH", path))
        }
        _ => {
            if name == "hostcmd" {
                // Where no service has created it.
                run(as_root("install").args(["-d", "/run/sshd"]))?;
            }
            run(&mut cargo(workspace, &folder, name, flags))
        }
    }
}

/// Returns the benchmarks, built for this machine rather than for the released target.
fn cargo(workspace: &Workspace, folder: &Path, name: &str, flags: &[&str]) -> Command {
    let mut bench = Command::new("cargo");
    bench.args(["run", "--quiet", "--release", "--package", "bench", "--", name]).args(flags);
    bench.current_dir(&workspace.root).env("AGENT_SANDBOX_BIN", folder.join("agent-sandbox"));
    bench
}
