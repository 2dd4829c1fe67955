//! Runs a command under the policy of the working directory.
//!
//! ```console
//! $ cargo run --package sandbox-launch --example run -- /usr/local/bin/agent-sandbox make test
//! ```
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::error::Error;
use std::path::PathBuf;

use sandbox_core::inspect::Report;
use sandbox_launch::{Events, Job, launch};
use sandbox_policy::Host;
use sandbox_policy::config::{self, Request};

/// Prints what the scan after the run found.
struct Printer;

impl Events for Printer {
    fn scanned(&mut self, report: &Report) {
        for moved in &report.moved {
            println!("moved aside: {}", moved.path.display());
        }
        for file in &report.runs_later {
            println!("runs code later: {} ({})", file.path.display(), file.why);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    // The installed binary: inside the sandbox it stands in for ruled commands such as git.
    let exe = words.next().map(PathBuf::from).ok_or("usage: run AGENT_SANDBOX COMMAND")?;
    let host = Host { exe, ..Host::read() };
    let request = Request { command: words.collect(), ..Request::default() };
    let job = Job::new(config::load(&host, &request)?, request.command);
    let ended = launch(&host, job, &mut Printer)?;
    println!("exit code {}", ended.code);
    Ok(())
}
