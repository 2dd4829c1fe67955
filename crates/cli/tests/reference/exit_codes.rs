//! `exit-codes.md`: each code with a command that ends with it, which is run.

use testkit::World;

use super::{code, table};

const INTRO: &str = "\
# Exit codes

The command's own code passes through. The other codes are agent-sandbox's.
";

/// Code, meaning, the words after `agent-sandbox`.
const CODES: &[(i32, &str, &[&str])] = &[
    (0, "the command succeeded", &["true"]),
    (1, "`check`, outside a sandbox", &["check"]),
    (1, "a command that a rule blocks", &["--cmd", "id=false", "id"]),
    (1, "`diff`, `apply`, `undo` or `discard` that cannot do all it was asked", &["diff"]),
    (2, "the command line is wrong", &["--no-such-flag"]),
    (
        4,
        "something was refused under `--fail-on-blocked`, although the command succeeded",
        &[
            "--fail-on-blocked",
            "--allow-host",
            "a.example.com",
            "sh",
            "-c",
            "getent hosts b.example.com || true",
        ],
    ),
    (7, "the command's own code", &["sh", "-c", "exit 7"]),
    (125, "the sandbox could not be set up", &["--config", "missing.json", "true"]),
    (126, "the command cannot be executed", &["/etc/passwd"]),
    (127, "the command was not found", &["no-such-command"]),
    (143, "128 and the signal that ended the command: 15 is TERM", &["sh", "-c", "kill -TERM $$"]),
];

#[test]
fn exit_codes_are_what_the_page_says() {
    let world = World::new();
    for (expected, meaning, words) in CODES {
        world.run(*words).code(*expected);
        assert!(!meaning.is_empty());
    }
    let rows = CODES.iter().map(|(number, meaning, words)| {
        let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        [number.to_string(), (*meaning).to_owned(), code(&format!("agent-sandbox {words}"))]
    });
    let text = format!("{INTRO}\n{}", table(["code", "meaning", "for example"], rows));
    super::page("exit-codes.md", &text);
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.to_owned() }
}
