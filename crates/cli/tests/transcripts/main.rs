//! Every transcript of README and docs, run as printed: see [`testkit::Page`].
//!
//! The pages are compiled into the test, so that a user who cannot read the checkout runs it, too.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use testkit::{Page, World};

/// Runs a page in a world made for it.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(#[test]
        fn $name() {
            run(&Page::parse($path, include_str!(concat!("../../../../", $path))));
        })*
    };
}

pages! {
    readme: "README.md",
    getting_started: "docs/tutorial/getting-started.md",
    run_agents: "docs/how-to/run-agents.md",
    paths: "docs/how-to/paths.md",
    monorepos: "docs/how-to/monorepos.md",
    commands: "docs/how-to/commands.md",
    git: "docs/how-to/git.md",
    network_and_docker: "docs/how-to/network-and-docker.md",
    allow_hosts: "docs/how-to/allow-hosts.md",
    secrets_and_environment: "docs/how-to/secrets-and-environment.md",
    keep_changes: "docs/how-to/keep-changes.md",
    review_changes: "docs/how-to/review-changes.md",
    sessions: "docs/how-to/sessions.md",
    http_api: "docs/how-to/http-api.md",
    credentials: "docs/how-to/credentials.md",
    standalone_proxy: "docs/how-to/standalone-proxy.md",
    filesystems: "docs/how-to/filesystems.md",
    ci: "docs/how-to/ci.md",
    troubleshooting: "docs/how-to/troubleshooting.md",
    host_commands: "docs/how-to/host-commands.md",
    secrets: "docs/reference/secrets.md",
}

#[track_caller]
fn run(page: &Page) {
    page.run(&World::new());
}
