//! Mounts: unusual names, modes, and paths that are never mounted.

use std::os::unix::fs::chown;

use super::stage::Stage;

#[test]
fn paths_with_odd_characters_are_mounted_as_they_are() {
    for name in ["a:b", "a,b", "a b", "ü\"'"] {
        let quoted = serde_json::to_string(&format!("../{name}")).unwrap();
        let target = serde_json::to_string(&format!("/x {name}")).unwrap();
        let stage = Stage::new("");
        let text = format!(
            "{{ \"image\": \"{}\", \"shared_dirs\": [{{ \"host_path\": {quoted}, \"guest_path\": {target} }}] }}",
            stage.docker.busybox()
        );
        std::fs::remove_file(stage.world.path("project/sandbox.toml")).unwrap();
        stage.world.write("project/.agent-sandbox.json", text);
        stage.world.write(format!("{name}/file"), "here\n");
        chown(stage.world.path(name), Some(1000), Some(1000)).unwrap();
        stage.bring_up().succeeds();
        let run =
            stage.world.run(["exec", "-s", super::stage::NAME, "cat", &format!("/x {name}/file")]);
        run.succeeds().stdout("here\n");
    }
}

/// The example of the sandboxing guide, with existing directories.
#[test]
fn mounts_are_read_only_unless_they_say_otherwise() {
    let stage = Stage::new("");
    for dir in ["projects/foo", "reference"] {
        stage.world.write(format!("{dir}/file"), "here\n");
        stage
            .world
            .host(["chown", "-R", "1000:1000", &stage.world.path(dir).display().to_string()])
            .succeeds();
    }
    let text = format!(
        r#"{{ "image": "{}", "sandbox": {{ "network": "none", "mounts": [
            {{ "host": "{}", "container": "/workspace", "mode": "rw" }},
            {{ "host": "{}", "container": "/ref" }} ] }} }}"#,
        stage.docker.busybox(),
        stage.world.path("projects/foo").display(),
        stage.world.path("reference").display()
    );
    std::fs::remove_file(stage.world.path("project/sandbox.toml")).unwrap();
    stage.world.write("project/.agent-sandbox.json", text);
    stage.bring_up().succeeds().stderr_lacks("no other mount is configured there");
    stage.sh("cat file /ref/file; echo new > file").succeeds().stdout("here\nhere\n");
    stage.sh("echo new > /ref/file").fails();
    stage.sh("ls /workspace/sandbox.toml /workspace/.agent-sandbox.json").fails();
}

/// C6: after symlinks are resolved, under any name.
#[test]
fn c6_the_whole_machine_the_home_our_state_and_the_engine_are_never_mounted() {
    let stage = Stage::new("");
    let world =
        stage.world.clone().dir("home/.local/state/agent-sandbox").symlink("innocent", "home");
    let engine = stage.docker.world().host(["sh", "-c", "echo ${DOCKER_HOST#unix://}"]).output();
    let engine = engine.trim().to_owned();
    let home = world.path("home").display().to_string();
    let link = world.path("innocent").display().to_string();
    let records = world.path("home/.local/state/agent-sandbox").display().to_string();
    for host in ["/", &home, &link, &records, &engine, "/proc", "/dev"] {
        stage
            .configure(&format!("mounts = [{{ host = '{host}', container = '/m', mode = 'rw' }}]"));
        stage.bring_up().code(125).stderr_contains("is never mounted").stderr_contains("hint: ");
        assert!(stage.id().is_none() || stage.containers().is_empty(), "{host}");
    }
    let missing = world.path("missing").display().to_string();
    stage.configure(&format!("mounts = [{{ host = '{missing}', container = '/m' }}]"));
    stage.bring_up().code(125).stderr_contains("cannot mount");
    assert!(!world.has("missing"), "nothing is made by the engine");
    // The control: a directory beside them.
    let fine = stage.world.clone().dir("fine").path("fine").display().to_string();
    stage.configure(&format!("mounts = [{{ host = '{fine}', container = '/m' }}]"));
    stage.bring_up().succeeds();
}

/// C4: replaced by a link between two starts.
#[test]
fn c4_a_source_that_was_swapped_is_not_taken() {
    let stage = Stage::new("shared_dirs = { x = { host = '../shared', guest = '/x' } }");
    stage.world.write("shared/file", "ours\n");
    stage.world.write("home/diary/file", "dear\n");
    stage.bring_up().succeeds();
    stage.sh("cat /x/file").succeeds().stdout("ours\n");
    stage.refuses_swapped("shared", "home/diary");
    stage.sh("cat /x/file").fails();
    // After another review, the user's new target is accepted.
    stage.bring_up().succeeds();
    stage.sh("cat /x/file").succeeds().stdout("dear\n");
}
