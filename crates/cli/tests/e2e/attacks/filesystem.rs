//! FS*, R-B*: reads and writes outside the allowed paths.

use std::os::unix::fs::PermissionsExt;

use testkit::{User, World, user};

use super::{inside, is_plain, outside, python_inside};

#[test]
fn fs1_credentials_in_home_read_as_empty() {
    let files = [
        ".ssh/id_ed25519",
        ".gnupg/private-keys-v1.d/key",
        ".aws/credentials",
        ".config/gcloud/credentials.db",
        ".kube/config",
        ".docker/config.json",
        ".netrc",
        ".npmrc",
        ".git-credentials",
        ".mozilla/firefox/p/logins.json",
        ".bash_history",
        ".cargo/credentials.toml",
    ];
    let world = files.iter().fold(World::new(), |w, f| w.file(format!("home/{f}"), "s3cret"));
    let script = format!("cd ~; cat {} 2>/dev/null; grep -rs s3cret .; true", files.join(" "));
    outside(&world, &script).succeeds().stdout_contains("s3cret");
    inside(&world, &script).succeeds().stdout("");
}

#[test]
fn fs2_a_symlink_out_of_the_project_opens_nothing() {
    let world = World::new().file("home/.ssh/key", "s3cret").file("home/notes", "mine");
    let script = "ln -sf ~/.ssh/key k; ln -sf ~/notes n; cat k; echo theirs > n";
    inside(&world, script).fails().stdout("");
    assert_eq!(world.read("home/notes"), "mine");
    outside(&world, script).succeeds().stdout("s3cret");
    assert_eq!(world.read("home/notes"), "theirs\n");
}

#[test]
fn fs3_a_link_planted_for_the_next_run_opens_nothing() {
    let world = World::new().file("home/notes", "mine");
    inside(&world, "ln -s ~ build").succeeds();
    let write = ["--rw", "build", "sh", "-c", "echo theirs > ~/notes"];
    world.run(write).fails().stderr_contains("follows a symlink");
    assert_eq!(world.read("home/notes"), "mine");
    world.run(["--ro", "!~", "--rw", "~", "sh", "-c", "echo theirs > ~/notes"]).succeeds();
    assert_eq!(world.read("home/notes"), "theirs\n");
}

#[test]
fn fs4_a_missing_read_only_file_is_not_left_behind() {
    let world = World::new();
    let script = "mkdir -p .tool && echo evil > .tool/settings";
    let args = ["--ro", ".tool/settings", "sh", "-c", script];
    world.run(args).succeeds().stderr_contains("moved aside");
    assert!(!world.has("project/.tool/settings"));
    inside(&world, script).succeeds();
    assert!(world.has("project/.tool/settings"), "without the rule it stays");
}

#[test]
fn fs4_no_placeholder_is_left_in_the_tree() {
    let world = World::new();
    world.run(["--ro", "missing/file", "--exclude", "~/.nothing", "true"]).succeeds();
    for path in ["project/missing", "home/.nothing", "home/.ssh", "home/.netrc"] {
        assert!(!world.has(path), "{path}");
    }
}

#[test]
fn fs6_a_hard_link_to_a_file_outside_fails() {
    let world = World::new().file("home/notes", "mine");
    let script = "ln ~/notes twin && echo theirs > twin";
    inside(&world, script).fails();
    assert_eq!(world.read("home/notes"), "mine");
    outside(&world, script).succeeds();
    assert_eq!(world.read("home/notes"), "theirs\n");
}

#[test]
fn fs8_every_spelling_of_a_path_names_the_same_file() {
    let world = World::new().file("home/diary", "dear").symlink("home/link", "diary");
    let read = ["sh", "-c", "cat ~/diary"];
    world.run(read).succeeds().stdout("dear");
    let home = world.path("home").display().to_string();
    for spelling in [
        "~/diary".to_owned(),
        "../home/diary".to_owned(),
        "~//./diary".to_owned(),
        "~/x/../diary".to_owned(),
        "~/link".to_owned(),
        format!("{home}/../home///diary"),
        "~/[d]iary".to_owned(),
    ] {
        let args = ["--exclude", &spelling].into_iter().chain(read);
        world.run(args).succeeds().stdout("");
    }
}

#[test]
fn fs8_paths_with_control_characters_are_taken_literally() {
    let world = World::new().file("home/two\nlines", "dear");
    let read = ["sh", "-c", "cat ~/two*"];
    world.run(read).succeeds().stdout("dear");
    world.run(["--exclude", "~/two\nlines"].into_iter().chain(read)).succeeds().stdout("");
    let long = format!("~/{}", "x/".repeat(3000));
    world.run(["--exclude", &long].into_iter().chain(read)).stderr_lacks("panicked");
}

#[test]
fn fs9_renaming_a_parent_of_a_read_only_path_fails() {
    let world = World::new().file("project/a/b/c/keep", "old");
    let script = "mv a x && mkdir -p a/b/c && echo new > a/b/c/keep";
    for script in [script, &script.replace("mv a x", "mv a/b x"), &script.replace("a x", "a/b/c x")]
    {
        world.run(["--ro", "a/b/c/keep", "sh", "-c", script]).fails();
        assert_eq!(world.read("project/a/b/c/keep"), "old");
    }
    inside(&world, script).succeeds();
    assert_eq!(world.read("project/a/b/c/keep"), "new\n", "without the rule");
}

#[test]
fn fs9_parents_of_the_project_cannot_be_renamed() {
    let world = World::new();
    let script =
        "cd / && mv \"$OLDPWD\" \"$OLDPWD.gone\" || mv \"${OLDPWD%/*}\" \"${OLDPWD%/*}.gone\"";
    inside(&world, script).fails();
    assert!(world.has("project"));
}

#[cfg(feature = "setup")]
#[test]
fn fs10_setuid_programs_give_nothing() {
    let world = World::new();
    inside(&world, "grep NoNewPrivs /proc/self/status").succeeds().stdout_contains("1");
    outside(&world, "grep NoNewPrivs /proc/self/status").succeeds().stdout_contains("0");
    let flags =
        "import os; print(all(os.statvfs(p).f_flag & 2 for p in ('/', '.', '/tmp', '/usr')))";
    python_inside(&world, &[], flags).succeeds().stdout("True\n");
    // A process may set the bit on its own file, as it may without a sandbox.
    inside(&world, "cp /bin/true mine && chmod 4755 mine").succeeds();
    let mode = std::fs::metadata(world.path("project/mine")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o4755);
}

#[test]
fn fs11_device_files_cannot_be_made_or_opened() {
    let world = World::new();
    let script = "mknod disk b 254 0 || mknod disk c 1 1";
    inside(&world, script).fails();
    inside(&world, "unshare -Ur mknod disk b 254 0").fails();
    if user() == User::Root {
        outside(&world, script).succeeds();
        world.run(["--rw", ".", "head", "-c1", "disk"]).fails();
    }
    inside(&world, "ls /dev | grep -E 'sd|vd|nvme|mem|kmsg|fuse|kvm'").fails();
}

#[test]
fn fs11_a_pipe_planted_as_configuration_does_not_hang_the_next_run() {
    let world = World::new();
    inside(&world, "mkfifo .agent-sandbox.json").succeeds();
    world.run(["true"]).succeeds();
    outside(&world, "mkfifo .agent-sandbox.json").succeeds();
    world.run(["true"]).code(125);
}

#[cfg(feature = "setup")]
#[test]
fn fs12_the_private_tmp_has_an_end() {
    let world = World::new();
    let code = "import os; s = os.statvfs('/tmp'); m = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'); \
                print(0 < s.f_blocks * s.f_frsize < m, s.f_files > 0)";
    python_inside(&world, &[], code).succeeds().stdout("True True\n");
}

#[test]
fn fs13_tmp_is_private_to_the_run() {
    let world = World::new();
    let name = format!("/tmp/as-attack-{}", std::process::id());
    std::fs::write(&name, "host").unwrap();
    let seen = inside(&world, &format!("cat {name}; echo mine > {name}; ls /tmp"));
    let host = std::fs::read_to_string(&name).unwrap();
    let control = outside(&world, &format!("cat {name}"));
    std::fs::remove_file(&name).unwrap();
    seen.succeeds().stdout_lacks("host");
    control.succeeds().stdout("host");
    assert_eq!(host, "host");
    inside(&world, &format!("cat {name}")).fails();
}

#[test]
fn fs14_inherited_descriptors_are_closed() {
    let world = World::new().file("home/.ssh/key", "s3cret");
    let binary = world.binary().display().to_string();
    let attack = "cat /proc/self/fd/7/.ssh/key /proc/self/fd/8";
    let run =
        |how: &str| outside(&world, &format!("exec 7<~ 8<~/.ssh/key; {how} sh -c '{attack}'"));
    run("").succeeds().stdout("s3crets3cret");
    run(&binary).fails().stdout("");
}

#[test]
fn fs14_a_directory_as_standard_input_is_refused() {
    let world = World::new().file("home/.ssh/key", "s3cret");
    let binary = world.binary().display().to_string();
    for (number, redirect) in [(0, "<~"), (1, "1<~"), (2, "2<~")] {
        let attack = format!("cat /proc/self/fd/{number}/.ssh/key");
        outside(&world, &format!("{binary} {attack} {redirect}")).code(125).stdout("");
    }
    outside(&world, "cat /proc/self/fd/0/.ssh/key <~").succeeds().stdout("s3cret");
}

#[test]
fn fs14_a_file_given_as_input_cannot_be_opened_for_writing() {
    let world = World::new().file("home/notes", "mine");
    let binary = world.binary().display().to_string();
    let attack = "sh -c 'cat; echo theirs > /proc/self/fd/0' <~/notes";
    let run = outside(&world, &format!("{binary} {attack}")).stdout("mine");
    if is_plain(&world) {
        run.succeeds(); // The bubblewrap rendering cannot enforce this, see SECURITY.md.
        return;
    }
    run.fails();
    assert_eq!(world.read("home/notes"), "mine");
    outside(&world, attack).succeeds();
    assert_eq!(world.read("home/notes"), "theirs\n");
}

#[test]
fn fs14_the_rest_of_a_half_read_input_arrives() {
    let world = World::new().file("home/notes", "one\ntwo\nthree\n");
    let binary = world.binary().display().to_string();
    outside(&world, &format!("{{ read first; {binary} cat; }} <~/notes")).stdout("two\nthree\n");
    outside(&world, &format!("{binary} cat <<E\nhere\nE")).stdout("here\n");
}

#[test]
fn fs15_programs_in_caches_cannot_be_replaced() {
    let world = World::new()
        .exec_file("home/.cargo/bin/tool", "#!/bin/sh\n")
        .file("home/.cargo/env", "")
        .file("home/.cargo/config.toml", "")
        .dir("home/.cargo/registry")
        .exec_file("home/go/bin/tool", "#!/bin/sh\n");
    inside(&world, "echo > ~/.cargo/registry/crate").succeeds();
    for path in
        [".cargo/bin/tool", ".cargo/bin/new", ".cargo/env", ".cargo/config.toml", "go/bin/tool"]
    {
        inside(&world, &format!("echo evil > ~/{path}")).fails();
    }
    inside(&world, "mv ~/.cargo/bin ~/.cargo/old").fails();
    inside(&world, "mv ~/.cargo ~/.c").fails();
    outside(&world, "echo evil > ~/.cargo/bin/tool").succeeds();
}

#[test]
fn fs17_a_directory_chosen_inside_does_not_become_writable() {
    let world = World::new().file("outside/notes", "mine");
    let binary = world.binary().display().to_string();
    let attack = "echo theirs > ../outside/notes";
    inside(&world, &format!("{binary} -C ../outside sh -c '{attack}'")).fails();
    inside(&world, &format!("{binary} --rw ../outside sh -c '{attack}'")).fails();
    inside(&world, "cd ../outside && echo theirs > notes").fails();
    assert_eq!(world.read("outside/notes"), "mine");
    world.run(["-C", "../outside", "sh", "-c", attack]).succeeds();
    assert_eq!(world.read("outside/notes"), "theirs\n", "the user may choose it");
}

#[test]
fn fs18_a_dangling_link_opens_nothing_when_its_target_appears() {
    let world = World::new().symlink("project/out", "../home/new");
    let attack = "mkdir ~/new; echo x > ~/new/file";
    world.run(["--rw", "out", "sh", "-c", attack]).fails();
    assert!(!world.has("home/new"));
    world.run(["--ro", "!~", "--rw", "~", "sh", "-c", attack]).succeeds();
    assert!(world.has("home/new/file"));
}

#[test]
fn r_b1_the_look_at_the_end_follows_no_link() {
    let world = World::new().file("home/notes", "mine").git_init("project");
    inside(&world, "ln -s ~/notes .git/commondir; rm -rf .git/info; ln -s ~ .git/info").succeeds();
    assert_eq!(world.read("home/notes"), "mine");
    assert!(!world.has("project/.git/commondir"));
    assert!(world.has("home"));
    world.host(["git", "status"]).succeeds();
}

#[test]
fn r_b5_a_hard_link_that_was_there_before_is_writable() {
    // A file with two names has no "real" one. The run reports this, and does not prevent it.
    let world = World::new().file("home/notes", "mine");
    outside(&world, "ln ~/notes twin").succeeds();
    inside(&world, "echo theirs > twin").succeeds();
    assert_eq!(world.read("home/notes"), "theirs\n");
    outside(&world, "rm twin").succeeds();
    world.write("home/notes", "mine");
    world.run(["--ro", "twin", "sh", "-c", "ln ~/notes twin"]).fails();
}
