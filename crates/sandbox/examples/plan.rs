//! Prints the mounts and hidden variables of a sandbox in a directory, with the rule for each. Runs nothing.
//!
//! ```console
//! $ cargo run --package sandbox-core --example plan -- ~/project
//! ```
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use sandbox_core::plan::{PlanError, plan};
use sandbox_core::render;
use sandbox_policy::Host;
use sandbox_policy::config::Request;

fn main() -> Result<(), PlanError> {
    let request = Request {
        cwd: std::env::args_os().nth(1).map(Into::into),
        command: vec!["sh".into()],
        ..Request::default()
    };
    let plan = plan(&Host::read(), &request)?;
    for mount in &plan.mounts {
        println!("{:?} {} ({})", mount.view, mount.target.display(), mount.origin);
    }
    for hidden in &plan.environment.hidden {
        println!("hidden variable {} ({})", hidden.name, hidden.origin);
    }
    println!("network {:?} ({})", plan.config.network.value, plan.config.network.origin);
    println!("{} words for bubblewrap", render::bwrap::arguments(&plan).words.len());
    Ok(())
}
