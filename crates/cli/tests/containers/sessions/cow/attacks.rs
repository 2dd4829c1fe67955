//! W1, W4, W5, W6, W8 from a container: content that its agent, or its root, plants in the layer against readers on
//! the host.

use std::fs;
use std::path::PathBuf;

use super::{mode, of, up};
use crate::sessions::stage::Stage;

/// Returns the directory that the kernel writes.
fn upper(stage: &Stage) -> PathBuf {
    let layers = stage.world.path("home/.local/share/agent-sandbox/layers");
    let mut layers = fs::read_dir(layers).unwrap().flatten();
    layers.next().unwrap().path().join("upper")
}

#[test]
fn w1_links_out_of_the_layer_lead_nowhere() {
    let stage = up("cow = true");
    stage.world.write("outside/target", "host\n");
    let secret = stage.world.path("outside/target").display().to_string();
    // A link in place of a directory of the base, and links to the host's own files.
    stage
        .sh(&format!(
            "rm -r dir; ln -s ../outside dir; ln -s {secret} absolute; ln -s ../outside/target up; \
             ln kept twin; mkdir -p a/b; echo x > a/b/c; mkfifo pipe"
        ))
        .succeeds();
    // Read while it runs, and afterwards.
    of(&stage, &["diff"]).succeeds().stdout_lacks("host");
    stage.down().succeeds();
    of(&stage, &["diff"]).succeeds().stdout_lacks("host");
    let run = of(&stage, &["apply", "--yes"]).succeeds();
    assert!(run.messages().contains("leads out of the tree"), "{run}");
    assert!(run.messages().contains("pipe") && !stage.world.has("project/pipe"), "{run}");
    assert_eq!(stage.world.read("outside/target"), "host\n");
    assert_eq!(stage.world.read("project/a/b/c"), "x\n");
    assert!(!stage.world.has("project/up") && !stage.world.has("project/absolute"));
    assert_eq!(fs::read_dir(stage.world.path("outside")).unwrap().count(), 1);
}

/// overlayfs protects its xattr names: those that the agent sets are escaped or refused.
#[test]
fn w4_w8_marks_of_the_overlay_cannot_be_forged_from_inside() {
    let stage = up("cow = true");
    let python = testkit::need("python3").display().to_string();
    let pid = stage.inspect("{{.State.Pid}}");
    // With a tool of the host in the container's workspace, as the agent's user.
    let forge = "import os, sys\n\
        os.makedirs('dir/sub', exist_ok=True)\n\
        open('empty', 'w').close()\n\
        tried = [('dir', b'opaque', b'y'), ('empty', b'whiteout', b''), ('dir', b'redirect', b'/'), ('kept', b'metacopy', b'')]\n\
        for path, name, value in tried:\n\
        \x20   for space in (b'user.overlay.', b'trusted.overlay.'):\n\
        \x20       try: os.setxattr(path, space + name, value)\n\
        \x20       except OSError as error: print(error.errno)\n\
        try: os.mknod('kept2', 0o20600, 0)\n\
        except OSError as error: print('no whiteout', error.errno)\n";
    let script = format!(
        "cd /proc/{pid}/root/workspace && exec setpriv --reuid 1000 --regid 1000 --clear-groups {python} -c \"$0\""
    );
    stage.world.host(["sh", "-c", &script, forge]).succeeds().stdout_contains("no whiteout");
    stage.sh("ls dir/deep kept").succeeds();
    stage.down().succeeds();
    // Every hidden path is reported, and none of this deletes a file.
    of(&stage, &["diff", "--name-only"]).succeeds().stdout_contains("empty\n").stdout_lacks("deep");
    of(&stage, &["apply", "--yes"]).succeeds();
    assert_eq!(stage.world.read("project/dir/deep"), "x\n");
    assert!(stage.world.has("project/empty") && stage.world.has("project/kept"));
}

#[test]
fn w5_w6_set_id_bits_and_devices_do_not_land() {
    let stage = up("cow = true");
    stage.sh("cp /bin/busybox tool; chmod 6755 tool; dd if=/dev/zero of=big bs=1 count=1 seek=1000000000000").succeeds();
    stage.sh("mknod device c 1 3").fails();
    // Root of the container has only the capabilities that the engine gave it.
    let root = ["exec", "-u", "0", &stage.container(), "sh", "-c"];
    let run = |script: &str| stage.docker.run(root.into_iter().chain([script]));
    run("mknod /workspace/device c 1 3").fails();
    run("chown 0:0 /workspace/tool").fails();
    stage.down().succeeds();
    let applied = of(&stage, &["apply", "--yes"]).succeeds();
    assert!(applied.messages().contains("set-id bits are dropped"), "{applied}");
    assert!(applied.messages().contains("more than the free space"), "{applied}");
    assert_eq!(mode(&stage, "project/tool") & 0o6000, 0);
    assert!(!stage.world.has("project/big"));
    // The control: the bits are in the layer, where no other user has access.
    let layer = upper(&stage);
    let bits = stage.world.host(["stat", "-c", "%a", &layer.join("tool").display().to_string()]);
    bits.succeeds().stdout("6755\n");
    let above = layer.parent().unwrap().display().to_string();
    stage.world.host(["stat", "-c", "%a", &above]).succeeds().stdout("700\n");
}

/// W8: no path inside shows the layer.
#[test]
fn w8_the_layer_is_not_visible_inside() {
    let stage = up("cow = true");
    stage.sh("echo mark > found-me").succeeds();
    stage
        .sh("find / -name found-me -not -path '/proc/*' 2>/dev/null")
        .stdout("/workspace/found-me\n");
    stage.sh("ls /run/agent-sandbox/private/base-0").fails();
    stage.sh("find / -name upper -not -path '/proc/*' 2>/dev/null").stdout("");
}
