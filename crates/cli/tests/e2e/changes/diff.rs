//! `diff` shows changes to people and programs, and runs no program of the session.

use testkit::{World, need};

use super::{change, tree};

#[test]
fn diff_tells_what_changed_in_every_form() {
    let world = World::new().file("project/a.txt", "one\ntwo\n").file("project/gone/x", "x\n");
    change(&world, "echo three >> a.txt; echo new > b.txt; rm -r gone; touch a.txt");
    assert_eq!(world.read("project/a.txt"), "one\ntwo\n");
    world.run(["diff", "--name-only"]).succeeds().stdout("a.txt\nb.txt\ngone/\ngone/x\n");
    world.run(["diff", "s", "--name-only", "b.txt"]).succeeds().stdout("b.txt\n");
    world.run(["diff", "-s", "s", "--name-only", "gone"]).succeeds().stdout("gone/\ngone/x\n");
    let stat = world.run(["diff", "--stat"]).succeeds();
    assert!(
        stat.output().contains("3 files changed, 2 lines added, 1 removed, 1 file deleted"),
        "{stat}"
    );
    let json = world.run(["diff", "--json"]).succeeds();
    let json: serde_json::Value = serde_json::from_str(&json.output()).unwrap();
    assert_eq!(json["session"], "s");
    assert_eq!(json["changes"][0]["path"], "a.txt");
    assert_eq!(json["changes"][0]["status"], "modified");
    assert_eq!(json["changes"][0]["added"], 1);
    world
        .run(["diff"])
        .succeeds()
        .stdout_contains("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n two\n+three\n");
    world.run(["diff", "no-such-path"]).succeeds().stdout("");
    world.run(["diff", "/etc/passwd"]).code(2).stderr_contains("agent-sandbox exec diff");
}

#[test]
fn nothing_changed_is_nothing_to_tell() {
    let world = World::new().file("project/a", "one\n").file("project/b", "two\n");
    change(&world, "touch a; cp b c; cat c > b; rm c; chmod 600 a");
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    world.run(["apply"]).succeeds().stderr_contains("nothing to apply");
}

#[test]
fn git_takes_the_patch_and_makes_the_same_tree_as_apply() {
    need("git");
    let world = World::new()
        .file("project/text", "1\n2\n3\n")
        .file("project/gone/x", "x")
        .file("project/crlf", "a\r\nb\r\n")
        .exec_file("project/tool", "#!/bin/sh\n");
    change(
        &world,
        "printf '1\\ntwo\\n3' > text; rm -r gone; printf 'a\\r\\nc\\r\\n' > crlf; chmod -x tool; \
         head -c 100000 /dev/urandom > blob; ln -s text link; mkdir -p d/e; : > d/e/empty; \
         echo x > 'a b\"c'; printf '#!/bin/sh\\n' > run; chmod +x run",
    );
    let copy = world.clone().dir("copy");
    copy.host(["sh", "-c", "cp -a . ../copy"]).succeeds();
    let patch = world.run(["diff"]).succeeds();
    let status = copy
        .clone()
        .cwd("copy")
        .host([
            "sh",
            "-c",
            &format!("{} diff -C ../project | git apply -", world.binary().display()),
        ])
        .succeeds();
    drop((patch, status));
    world.run(["apply"]).succeeds();
    let plain = |tree: String| -> Vec<String> {
        let columns = |line: &str| {
            let parts: Vec<_> = line.split_whitespace().collect();
            // Without times, and only the executable bit of the mode.
            if parts[0] == "f" {
                format!("{} {}", parts[1..].len(), parts[parts.len() - 2])
            } else {
                line.to_owned()
            }
        };
        tree.lines().map(columns).collect()
    };
    assert_eq!(plain(tree(&world, "project")), plain(tree(&world, "copy")));
}

#[test]
fn w7_no_program_of_the_repository_runs() {
    need("git");
    let world = World::new().file("project/a.txt", "one\n").git_init("project");
    let evil = world.path("outside/ran").display().to_string();
    let world = world.dir("outside");
    let script = world.path("outside/evil").display().to_string();
    let world = world.exec_file("outside/evil", format!("#!/bin/sh\ntouch {evil}\ncat \"$1\"\n"));
    for setting in [
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "core.fsmonitor",
    ] {
        world.host(["git", "config", setting, &script]).succeeds();
    }
    world.write("project/.gitattributes", "* diff=evil filter=evil\n");
    change(&world, "echo two >> a.txt");
    world.run(["diff"]).succeeds().stdout_contains("+two");
    world.run(["apply"]).succeeds();
    assert!(!world.has("outside/ran"));
    // The control: git itself runs it.
    world.host(["sh", "-c", "git --no-pager diff; true"]).succeeds();
    assert!(world.has("outside/ran"));
}

#[test]
fn w7_escape_codes_and_bidi_marks_are_shown_on_a_terminal_and_exact_on_a_pipe() {
    let world = World::new().file("project/a.txt", "one\n").env("PAGER", "cat");
    change(
        &world,
        "printf 'red \\033[31m\\n\\342\\200\\256turned\\n' >> a.txt; : > \"$(printf 'n\\033[2Jame')\"",
    );
    let seen = world.terminal(["diff"]).wait();
    assert!(
        !seen.output().contains("\u{1b}[31mred") && !seen.output().contains("red \u{1b}[31m"),
        "{seen}"
    );
    assert!(seen.output().contains("red \\u{1b}[31m"), "{seen}");
    assert!(seen.output().contains("\\u{202e}turned"), "{seen}");
    assert!(!seen.output().contains("\u{1b}[2J"), "{seen}");
    let piped = world.run(["diff"]).succeeds();
    assert!(piped.output().contains("+red \u{1b}[31m\n+\u{202e}turned\n"), "{piped}");
}

#[test]
fn a_pager_is_used_on_a_terminal_only() {
    let world = World::new().file("project/a.txt", "one\n").env("PAGER", "sed s/^/paged:/");
    change(&world, "echo two >> a.txt");
    world.run(["diff"]).succeeds().stdout_lacks("paged:");
    let seen = world.terminal(["diff", "--color=never"]).wait();
    assert!(seen.output().contains("paged:+two"), "{seen}");
    assert!(seen.output().contains("1 file changed"), "{seen}");
}

#[test]
fn what_runs_code_later_is_told_first() {
    let world = World::new().env("PAGER", "cat");
    change(&world, "echo x > a.txt; echo 'curl evil' > .envrc");
    let seen = world.terminal(["diff"]).wait().output();
    let (later, patch) = (seen.find("direnv runs it").unwrap(), seen.find("+x").unwrap());
    assert!(later < patch, "{seen}");
}

#[test]
fn long_lists_are_cut_on_a_terminal_and_whole_in_a_pipe() {
    let world = World::new().file("project/a", "1\n");
    change(&world, "i=0; while [ $i -lt 500 ]; do echo x > f$i; i=$((i+1)); done");
    for words in
        [&["apply", "--dry-run"][..], &["diff", "--stat"], &["diff", "--name-only"], &["apply"]]
    {
        let whole = world.run([words, &["--dry-run"][..usize::from(words == ["apply"])]].concat());
        assert!(whole.succeeds().output().lines().count() >= 500, "{words:?}");
        let cut = world.terminal(words).wait().succeeds();
        let is_file = |line: &&str| line.contains(" f") || line.starts_with('f');
        let files = cut.output().lines().filter(is_file).count();
        assert!(files < 60, "{words:?}: {cut}");
        assert!(cut.output().contains("… and 460 more"), "{words:?}: {cut}");
    }
    assert!(world.has("project/f499"));
}
