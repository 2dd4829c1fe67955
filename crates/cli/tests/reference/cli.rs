//! `cli.md`: the help of every subcommand.

use std::process::Command;

#[test]
fn cli_page_is_the_help_of_the_binary() {
    let mut text = String::from(
        "# Command line\n\n\
         Parsing ends at the first argument that is not a flag. Everything after the command is passed to it unchanged.\n\
         `agent-sandbox man` prints a manual page, `agent-sandbox completions SHELL` prints completions.\n",
    );
    describe(&[], &mut text);
    super::page("cli.md", &text);
}

fn describe(words: &[&str], text: &mut String) {
    let help = help(words);
    let name = ["agent-sandbox"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
    text.extend([format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end())]);
    let below: Vec<&str> = match words {
        [] => overview(&help).collect(),
        _ => subcommands(&help).collect(),
    };
    assert!(!words.is_empty() || below.len() > 30, "{help}");
    for sub in below {
        describe(&[words, &[sub]].concat(), text);
    }
}

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_agent-sandbox"))
        .args(words)
        .arg("--help")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?} --help failed");
    let text = String::from_utf8(output.stdout).unwrap();
    // Wrapped lines may end in a space.
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Returns the names of the subcommands, which the page of the program lists in groups.
fn overview(help: &str) -> impl Iterator<Item = &str> {
    let rows = help.lines().filter_map(|line| line.strip_prefix("  "));
    rows.filter(|row| row.starts_with(|c: char| c.is_ascii_lowercase()) && row.contains("  "))
        .filter_map(|row| row.split_whitespace().next())
}

/// Returns the first words of the lines below the heading.
fn subcommands(help: &str) -> impl Iterator<Item = &str> {
    let below = help.lines().skip_while(|line| *line != "Commands:");
    let lines = below.skip(1).take_while(|line| !line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
}
