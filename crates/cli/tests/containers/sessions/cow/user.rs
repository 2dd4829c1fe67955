//! A copy-on-write workspace of an ordinary user in the engine's group.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testkit::{Docker, Run, World, static_binary};

use crate::sessions::stage::NAME;

/// Creates a home and a project of an ordinary user, accessible to all.
struct User {
    world: World,
    group: String,
}

impl User {
    fn new() -> Self {
        let docker = Docker::new();
        let host = docker.world().host(["sh", "-c", "printf %s \"$DOCKER_HOST\""]).output();
        let socket = Path::new(host.trim_start_matches("unix://"));
        let group = fs::metadata(socket).unwrap().gid().to_string();
        let config = format!("image = '{}'\ncow = true\n", docker.busybox());
        let world = World::below(Path::new("/var/tmp"), static_binary("agent-sandbox"))
            .env("DOCKER_HOST", &host)
            .dir("bin")
            .file("project/sandbox.toml", config)
            .file("project/kept", "one\n")
            .file("project/gone", "old\n")
            .file("project/dir/deep", "x\n");
        for name in ["agent-sandbox", "agent-sandbox-init"] {
            fs::copy(static_binary(name), world.path("bin").join(name)).unwrap();
        }
        let root = world.path("").display().to_string();
        world.host(["chown", "-R", "1000:1000", &root]).succeeds();
        Self { world, group }
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        let binary = self.world.path("bin/agent-sandbox").display().to_string();
        let who = ["setpriv", "--reuid", "1000", "--regid", "1000", "--groups", &self.group];
        self.world.host(who.into_iter().chain([binary.as_str()]).chain(words.iter().copied()))
    }

    #[track_caller]
    fn sh(&self, script: &str) -> Run {
        self.run(&["exec", "-s", NAME, "sh", "-c", script])
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.run(&["rm", "--yes", NAME]);
    }
}

#[test]
fn an_ordinary_user_reads_takes_over_and_removes_what_the_engine_kept() {
    let user = User::new();
    user.run(&["--trust", "up", "--name", NAME]).succeeds();
    user.sh(
        "echo two >> kept; rm gone; rm -r dir; mkdir dir; echo new > dir/made; chmod 0 dir; id -u",
    )
    .succeeds()
    .stdout("1000\n");
    assert_eq!(user.world.read("project/gone"), "old\n");
    user.run(&["snapshot", "-s", NAME, "one"]).succeeds();
    user.run(&["diff", "-s", NAME, "--name-only"]).succeeds().stdout_contains("kept\n");
    user.run(&["down", NAME]).succeeds();
    user.run(&["restore", "-s", NAME, "one"]).succeeds();
    user.run(&["--trust", "up", "--name", NAME]).succeeds();
    user.sh("cat kept; chmod 755 dir; cat dir/made").succeeds().stdout("one\ntwo\nnew\n");
    user.run(&["down", NAME]).succeeds();
    user.run(&["apply", "-s", NAME, "--yes"]).succeeds();
    assert_eq!(user.world.read("project/dir/made"), "new\n");
    assert!(!user.world.has("project/gone") && !user.world.has("project/dir/deep"));
    // Snapshots are work, too.
    user.run(&["rm", "--yes", NAME]).succeeds();
    // No file of root remains, which the user could not remove.
    let find = "cd ~/.local/share/agent-sandbox && find . -user 0; ls layers boxes";
    assert_eq!(user.world.host(["sh", "-c", find]).output(), "boxes:\n\nlayers:\n");
}
