//! Text of the configuration. Its active lines only restrict. Lines that would open something are commented out.

use std::fmt::Write as _;

use sandbox_linux::escape::visible;

use super::survey::Survey;

const HEAD: &str = "\
// Files, commands and network that agents can use in this project.
//
// The active lines only restrict, so the file works without trust. A line that opens something
// (marked \"opens\" below) must be trusted once: at the prompt, or with `agent-sandbox trust`.
//
//   agent-sandbox config show     show the effective configuration and where each value is set
//   agent-sandbox why PATH        show which rule applies to a path, and how to change it
//   agent-sandbox config schema   print the JSON schema with all keys
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
    text.push_str("\n  // No network, or only these hosts:\n  // \"network\": false,\n");
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
                "a git worktree (hooks and configuration of its repository are read-only)"
            }
            _ => "a git repository (its hooks and configuration are read-only)",
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
            "// Writable, like the rest of the project: {made}. Caches in the home directory are writable too."
        );
    }
    text
}

fn exclude(survey: &Survey) -> String {
    let mut text = String::from("    // Hidden: these read as empty.\n");
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

/// Quotes a path for a rule. A leading `!`, `~` or `@` would have a meaning there.
fn quoted(path: &str) -> String {
    let marked = path.starts_with(['!', '~', '@']);
    let path = if marked { format!("./{path}") } else { path.to_owned() };
    serde_json::Value::from(path).to_string()
}

fn lint(survey: &Survey) -> String {
    if survey.lint.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n    // Linter configuration is read-only by default:\n");
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
        "  \"commands\": {\n    // `false` blocks a command, a path replaces it with a script. The default for `git` is \"@git\".\n",
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
            "  // Found {file}. Access to the Docker daemon's socket amounts to root on this machine."
        );
    }
    text.push_str("  // The Docker daemon's socket (opens):\n  // \"docker\": true,\n");
    text
}
