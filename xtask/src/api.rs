//! Requests that Schemathesis generates from the description of the HTTP API, against a server in a home of its own. Each
//! must be answered as described, and none with a server error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::command::{mortal, run, step};
use crate::made::Thing;
use crate::say::{Context, Failure, Outcome};
use crate::tools;
use crate::workspace::Workspace;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method";

/// Server under test.
struct Server<'a> {
    workspace: &'a Workspace,
    binary: PathBuf,
    folder: PathBuf,
}

/// Generates requests twice: once with arbitrary session names, once with a session that is up.
pub(crate) fn fuzz(workspace: &Workspace) -> Outcome {
    let binary = workspace.build("dev")?.join("agent-sandbox");
    let tool = tools::schemathesis(workspace)?;
    let server = Server { workspace, binary, folder: workspace.made.scratch("api") };
    for name in ["home", "project"] {
        let folder = server.folder.join(name);
        fs::create_dir_all(&folder).context(format_args!("create {}", folder.display()))?;
    }
    let url = server.start()?;
    run(server.command(&["up", "--name", "fuzz"]).stderr(Stdio::null()))?;
    server.requests(&tool, &url, "any.toml", "", &[])?;
    server.requests(
        &tool,
        &url,
        "one.toml",
        "session = \"fuzz\"\n",
        &["--exclude-operation-id", "remove"],
    )?;
    run(&mut server.command(&["down", "--all"]))
}

impl Server<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = mortal(&self.binary);
        command.args(words).current_dir(self.folder.join("project"));
        command.env("HOME", self.folder.join("home")).env("AGENT_SANDBOX_API_TOKEN", TOKEN);
        command
    }

    /// Starts the server and returns its address.
    fn start(&self) -> Result<String, Failure> {
        let said = self.folder.join("said");
        let file = File::create(&said).context(format_args!("create {}", said.display()))?;
        let errors = file.try_clone().context("share the server's log")?;
        let mut serve = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        let server = serve
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .context("start the API")?;
        self.workspace.made.record(&Thing::Process(server.id()))?;
        for _ in 0..100 {
            sleep(Duration::from_millis(100));
            let said = fs::read_to_string(&said).unwrap_or_default();
            let mut places = said.lines().filter_map(|line| line.strip_prefix("serving at "));
            let url = places.find(|place| place.starts_with("http"));
            if let Some(url) = url {
                return Ok(url.to_owned());
            }
        }
        Err(Failure::new(format!(
            "the API does not start: {}",
            fs::read_to_string(&said).unwrap_or_default()
        )))
    }

    /// Generates requests with a configuration of their parameters.
    fn requests(
        &self,
        tool: &Path,
        url: &str,
        name: &str,
        parameters: &str,
        more: &[&str],
    ) -> Outcome {
        let config = self.folder.join(name);
        let text = format!("[parameters]\nfollow = false\n{parameters}");
        fs::write(&config, text).context(format_args!("write {}", config.display()))?;
        let mut requests = Command::new("/usr/bin/python3");
        requests.arg(tool.join("bin/schemathesis")).arg("--config-file").arg(&config).arg("run");
        requests.arg(self.workspace.root.join("docs/reference/openapi.json")).args(["--url", url]);
        requests.args(["--header", &format!("Authorization: Bearer {TOKEN}"), "--checks", CHECKS]);
        requests
            .args([
                "--max-examples",
                "200",
                "--phases",
                "coverage,fuzzing",
                "--request-timeout",
                "60",
            ])
            .args(more);
        // It leaves notes where it is started.
        step(
            requests
                .env("PYTHONPATH", tool)
                .env("HOME", self.folder.join("home"))
                .current_dir(&self.folder),
        )
    }
}
