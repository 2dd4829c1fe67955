//! Transcripts of the pages about containers, run as printed: see [`testkit::Page`].

use testkit::{Docker, Page};

#[test]
fn container_sessions() {
    let docker = Docker::new();
    docker.run(["tag", docker.busybox(), "sandbox-image"]).succeeds();
    let page = include_str!("../../../../docs/how-to/container-sessions.md");
    Page::parse("docs/how-to/container-sessions.md", page).run(docker.world());
}
