//! The images under test, each built once per run by the real `agent-sandbox image build`.

use std::process;
use std::sync::OnceLock;

use testkit::Docker;

/// The entrypoint on a base that has nothing but busybox.
#[track_caller]
pub(crate) fn entrypoint(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "sandbox", docker.busybox(), &["--packages", ""]))
}

/// The entrypoint with all its tools, on Debian.
#[track_caller]
pub(crate) fn sandbox(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "sandbox", docker.debian(), &[]))
}

/// The image without a distribution.
#[track_caller]
pub(crate) fn minimal(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "minimal", docker.debian(), &[]))
}

#[track_caller]
fn built(docker: &Docker, target: &str, base: &str, more: &[&str]) -> String {
    let kind = base.split(':').next().unwrap_or(base);
    let tag = format!("{kind}-{target}:{}", process::id());
    let line = ["image", "build", "--target", target, "--base", base, "--tag", &tag];
    // The daemon of the tests has no bridge; packages come through the host's network.
    let line = line.into_iter().chain(more.iter().copied()).chain(["--", "--network", "host"]);
    docker.sandbox(line).succeeds().stdout(&format!("{tag}\n"));
    tag
}
