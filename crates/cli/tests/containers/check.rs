//! `agent-sandbox-init check`, in the images that are built here.

use testkit::Docker;

use crate::{images, init};

#[test]
fn the_images_have_what_their_first_process_needs() {
    let docker = Docker::new();
    let check = ["--entrypoint", "agent-sandbox-init"];
    let entrypoint = [images::entrypoint(&docker), "check", "entrypoint"];
    docker.once(check.into_iter().chain(entrypoint)).succeeds().stdout_lacks("missing");
    let line = [images::init(&docker), "check"];
    let mounting = init::MAY_MOUNT.into_iter().chain(check).chain(line);
    docker.once(mounting).succeeds().stdout_lacks("missing");
    // Without the device and the capability, the output names both with the flag that grants them.
    let run = docker.once(check.into_iter().chain(line)).code(1);
    run.stdout_contains("--device /dev/fuse").stdout_contains("--cap-add SYS_ADMIN");
}
