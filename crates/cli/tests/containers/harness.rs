//! The daemon and the base images that all other tests need.

use testkit::Docker;

#[test]
fn containers_pass_output_and_exit_codes_on() {
    let docker = Docker::new();
    let image = docker.busybox();
    docker
        .once([image, "sh", "-c", "echo out; echo err >&2; exit 7"])
        .code(7)
        .stdout("out\n")
        .stderr("err\n");
}

#[test]
fn a_container_is_gone_when_the_test_lets_go_of_it() {
    let docker = Docker::new();
    let container = docker.container([docker.busybox(), "sleep", "1000"]);
    let name = container.name().to_owned();
    container.exec(["-u", "1000"], ["id", "-u"]).succeeds().stdout("1000\n");
    docker.run(["inspect", &name]).succeeds();
    drop(container);
    docker.run(["inspect", &name]).fails();
}

#[test]
fn debian_has_its_package_manager() {
    let docker = Docker::new();
    docker.once([docker.debian(), "apt-get", "--version"]).succeeds().stdout_contains("apt");
}
