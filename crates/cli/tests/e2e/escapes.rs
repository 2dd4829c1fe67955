//! Names that a sandbox chose, in our output: a terminal obeys nothing in them, and none starts a line.

use testkit::{Run, World};

/// Text that hides, moves and reverses text and starts a line, as octal escapes of `printf`, and its escaped form.
const TRICKS: [(&str, &str, &str); 5] = [
    ("conceal", r"\033[8m", "\\u{1b}[8m"),
    ("one byte for two", r"\302\2338m", "\\u{9b}8m"),
    ("right to left", r"\342\200\256", "\\u{202e}"),
    ("isolate", r"\342\201\246", "\\u{2066}"),
    ("erase the line", r"\033[2K\r", "\\u{1b}[2K\\u{d}"),
];

/// Fails if a terminal would interpret something in the output.
#[track_caller]
fn is_plain(run: &Run) {
    for text in [run.output(), run.messages()] {
        let obeyed = |c: &char| {
            (c.is_control() && *c != '\n' && *c != '\t')
                || ('\u{202a}'..='\u{202e}').contains(c)
                || *c == '\u{2066}'
        };
        assert!(!text.chars().any(|c| obeyed(&c)), "{run:?}");
    }
}

#[test]
fn the_report_of_a_run_shows_what_a_repository_is_called_and_obeys_nothing() {
    for (why, trick, shown) in TRICKS {
        let world = World::new();
        let plant = format!(
            "git init -q x; printf '[filter \"a{trick}b\"]\\n\\tclean = touch /tmp/pwned\\n' >> x/.git/config"
        );
        let run = world.run(["--cmd", "git=true", "sh", "-c", &plant]);
        is_plain(&run);
        let run = run.stderr_contains("moved aside").stderr_contains(shown);
        assert!(run.messages().contains("now at"), "{why}: {run}");
    }
}

#[test]
fn names_of_files_show_their_line_breaks_in_every_report() {
    for (why, trick, shown) in
        TRICKS.into_iter().chain([("line break", r"\nerror: forged", "\\nerror: forged")])
    {
        let world = World::new().git_init("project");
        // Files that run code later, planted files, and a session's changes.
        let name = format!("a{trick}b");
        let make = format!(
            "exec 2>/dev/null; d=$(printf '{name}.'); mkdir \"$d\" && cd \"$d\" && git init -q . && git config core.fsmonitor x; \
             mkdir -p .github/workflows; echo x > \".github/workflows/$d.yml\"; echo x > \"$d\""
        );
        let run = world.run(["--cmd", "git=true", "sh", "-c", &make]);
        is_plain(&run);
        run.stderr_contains("moved aside").stderr_contains(shown).stderr_lacks("\nerror: forged");
        let run = world.run(["--cmd", "git=true", "--session", "s", "sh", "-c", &make]);
        is_plain(&run);
        let _ = run.stderr_lacks("\nerror: forged");
        for line in [
            &["diff", "-s", "s", "--stat"][..],
            &["history", "s"],
            &["ps"],
            &["apply", "-s", "s"],
            &["undo", "-s", "s"],
            &["blocked"],
        ] {
            let run = world.run(line);
            is_plain(&run);
            assert!(!run.messages().contains("\nerror: forged"), "{why}: {run}");
            assert!(!run.output().contains("\nerror: forged"), "{why}: {run}");
        }
        let path =
            world.host(["sh", "-c", &format!("printf '%s' \"$(printf '{name}.')\"")]).output();
        let run = world.run(["why", &path]).succeeds();
        is_plain(&run);
        run.stdout_contains(shown).stdout_lacks("\nerror: forged");
        let run = world.run(["--cwd", &path, "no-such-command"]);
        is_plain(&run);
        let _ = run.stderr_lacks("\nerror: forged");
        let run = world.run([&path]).code(127);
        is_plain(&run);
        let _ = run.stderr_lacks("\nerror: forged");
    }
}

#[test]
fn names_in_commits_show_their_line_breaks_in_every_report() {
    for (why, trick, shown) in
        TRICKS.into_iter().chain([("line break", r"\nerror: forged", "\\nerror: forged")])
    {
        let world = World::new().file("project/a", "a\n").git_init("project");
        let commit = format!(
            "d=$(printf 'a{trick}b.'); mkdir -p .github/workflows; echo x > \".github/workflows/$d.yml\"; \
             git add -A; git commit -qm \"$d\""
        );
        world.run(["--session", "s", "sh", "-ec", &commit]).succeeds();
        for line in [&["diff"][..], &["diff", "--stat"], &["apply", "--dry-run"], &["apply"]] {
            // The patch itself is exact on a pipe.
            let run = world.run([&line[..1], &["-s", "s"], &line[1..]].concat());
            assert!(!run.messages().contains("\nerror: forged"), "{why}: {run}");
            if line != ["diff"] {
                is_plain(&run);
                assert!(!run.output().contains("\nerror: forged"), "{why}: {run}");
            }
        }
        let run = world.run(["apply", "-s", "s"]);
        run.stderr_contains("commit ").stderr_contains(shown);
    }
}
