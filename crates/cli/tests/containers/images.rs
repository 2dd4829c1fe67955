//! The images under test, each built once per run by the real `agent-sandbox image build`.

use std::process;
use std::sync::OnceLock;

use testkit::Docker;

/// Entrypoint on a base that contains only busybox.
#[track_caller]
pub(crate) fn entrypoint(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "entrypoint", "sandbox", docker.busybox(), Some("")))
}

/// Entrypoint with all its tools, on Debian.
#[track_caller]
pub(crate) fn sandbox(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "sandbox", "sandbox", docker.debian(), None))
}

/// Image without a distribution.
#[track_caller]
pub(crate) fn minimal(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "minimal", "minimal", docker.debian(), None))
}

/// Init with a copy-on-write home, on Debian.
#[track_caller]
pub(crate) fn init(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "init", "init", docker.debian(), None))
}

/// Init image with a Docker daemon to run inside.
#[track_caller]
pub(crate) fn with_dockerd(docker: &Docker) -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| built(docker, "dockerd", "init", init(docker), Some("docker.io")))
}

#[track_caller]
fn built(docker: &Docker, name: &str, target: &str, base: &str, packages: Option<&str>) -> String {
    let tag = format!("as-test-{name}:{}", process::id());
    let line = ["image", "build", "--target", target, "--base", base, "--tag", &tag];
    let packages = packages.map(|packages| ["--packages", packages]);
    // The tests' daemon has no bridge, so packages come through the host's network.
    let line =
        line.into_iter().chain(packages.into_iter().flatten()).chain(["--", "--network", "host"]);
    docker.sandbox(line).succeeds().stdout(&format!("{tag}\n"));
    tag
}
