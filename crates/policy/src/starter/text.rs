//! Text of the configuration. Its active lines only close; lines that would open something are comments.

use std::fmt::Write as _;

use sandbox_linux::escape::visible;

use super::survey::Survey;

const HEAD: &str = "\
// What agents may see, change and run in this project.
//
// The active lines only close, so this file needs nobody's trust. A line that opens something
// (marked below) asks for it once, on a terminal or by `agent-sandbox trust`.
//
//   agent-sandbox config show     what holds here, and which line says so
//   agent-sandbox why PATH        who decides about a path, and what would change it
//   agent-sandbox config schema   every key
";

/// Returns the whole file.
pub(super) fn render(survey: &Survey) -> String {
    let mut text = String::from(HEAD);
    text.push_str(&found(survey));
    text.push_str("{\n  \"filesystem\": {\n");
    text.push_str(&exclude(survey));
    text.push_str(
        "\n    // Read-only in an otherwise writable project:\n    // \"ro\": [\"migrations\"],\n",
    );
    text.push_str(
        "\n    // Writable outside the project (opens):\n    // \"rw\": [\"~/another/project\"],\n",
    );
    text.push_str(&lint(survey));
    text.push_str("  },\n\n");
    text.push_str(&commands(survey));
    text.push_str("\n  // Without the network, or only these hosts:\n  // \"network\": false,\n");
    text.push_str(
        "  // \"network\": { \"allowed_hosts\": [\"api.anthropic.com\", \"@npm\", \"@github\"] },\n",
    );
    text.push_str(&docker(survey));
    text.push_str("}\n");
    text
}

fn found(survey: &Survey) -> String {
    let mut found: Vec<&str> = survey
        .git
        .iter()
        .map(|kind| match *kind {
            "worktree" => {
                "a git worktree, whose repository's hooks and configuration are protected too"
            }
            _ => "a git repository, whose hooks and configuration are protected",
        })
        .collect();
    found.extend(&survey.tools);
    let mut text = String::new();
    if !found.is_empty() {
        let _ = write!(text, "//\n// Found: {}.\n", found.join(", "));
    }
    if !survey.made.is_empty() {
        let made = survey.made.join(", ");
        let _ = writeln!(
            text,
            "// Writable like the rest of the project: {made}. Caches in the home directory are, too."
        );
    }
    text
}

fn exclude(survey: &Survey) -> String {
    let mut text = String::from("    // Hidden: these look empty to an agent.\n");
    if survey.secrets.is_empty() {
        text.push_str("    // \"exclude\": [\".env\"],\n");
        return text;
    }
    text.push_str("    \"exclude\": [\n");
    for path in &survey.secrets {
        let _ = writeln!(text, "      {},", quoted(path));
    }
    text.push_str("    ],\n");
    text
}

/// A path as a rule writes it: nothing in it may look like a mark.
fn quoted(path: &str) -> String {
    let marked = path.starts_with(['!', '~', '@']);
    let path = if marked { format!("./{path}") } else { path.to_owned() };
    serde_json::Value::from(path).to_string()
}

fn lint(survey: &Survey) -> String {
    if survey.lint.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n    // Settings of linters are read-only by preset:\n");
    for (preset, files) in &survey.lint {
        let _ = writeln!(text, "    //   {preset}: {}", files.join(", "));
    }
    let off: Vec<_> = survey.lint.keys().map(|preset| format!("\"!{preset}\"")).collect();
    let _ = write!(
        text,
        "    // To let agents change them:\n    // \"presets\": [{}],\n",
        off.join(", ")
    );
    text
}

fn commands(survey: &Survey) -> String {
    let mut text = String::from(
        "  \"commands\": {\n    // `false` blocks a command, a script takes its place. `git` is \"@git\" unless said otherwise.\n",
    );
    if survey.tools.contains(&"Terraform") {
        text.push_str("    // \"terraform\": false,\n");
    }
    if survey.tools.contains(&"Node") {
        text.push_str("    // \"npm\": \"tools/npm-without-publish\",\n");
    }
    text.push_str("    // \"rm\": false,\n  },\n");
    text
}

fn docker(survey: &Survey) -> String {
    let mut text = String::from("\n");
    if let Some(file) = survey.containers.first() {
        let file = visible(file);
        let _ = writeln!(
            text,
            "  // {file} was found, but the daemon's socket is as good as root on this machine."
        );
    }
    text.push_str("  // The Docker daemon's socket (opens):\n  // \"docker\": true,\n");
    text
}
