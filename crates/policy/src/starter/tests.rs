use super::survey::is_secret;
use super::*;
use crate::config::file::{Syntax, parse};

#[test]
fn is_secret_excludes_samples() {
    for (name, expected) in [
        (".env", true),
        (".env.local", true),
        (".env.production", true),
        (".env.example", false),
        (".env.local.sample", false),
        (".envrc", false),
        (".environment", false),
        ("prod.tfvars", true),
        ("prod.tfvars.example", false),
        ("terraform.tfstate", true),
        ("terraform.tfstate.backup", true),
        ("main.tf", false),
        ("env", false),
    ] {
        assert_eq!(is_secret(name), expected, "{name}");
    }
}

#[test]
fn render_returns_a_valid_file_when_names_are_unusual() {
    let secrets = [".env", "!x/.env", "~/.env", "a\"b\\c/.env", "new\nline/.env"];
    for (why, survey) in [
        ("nothing", Survey::default()),
        ("odd names", Survey { secrets: secrets.map(str::to_owned).to_vec(), ..Survey::default() }),
        (
            "everything",
            Survey {
                git: Some("worktree"),
                tools: vec!["Node", "Terraform"],
                secrets: vec![".env".into()],
                containers: vec!["Dockerfile".into()],
                lint: [("@lint/ts", vec!["tsconfig.json"])].into(),
                made: vec!["target"],
                ..Survey::default()
            },
        ),
    ] {
        let text = text::render(&survey);
        let parsed = parse(&text, Syntax::Jsonc, Path::new(NAME));
        let file = parsed.unwrap_or_else(|error| panic!("{why}: {error}\n{text}"));
        assert_eq!(file.filesystem.exclude.len(), survey.secrets.len(), "{why}");
        assert!(file.docker.is_none() && file.network.is_none(), "{why}");
    }
}

#[test]
fn render_keeps_lines_short() {
    let text = text::render(&Survey { git: Some("worktree"), ..Survey::default() });
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
