//! Survey of a project. Reads only the names of its files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::preset::lint_files;

/// Languages, tools and files of a project that matter to a configuration.
#[derive(Debug, Default, Serialize)]
pub struct Survey {
    /// `repository` or `worktree`.
    pub git: Option<&'static str>,
    /// Languages and tools.
    pub tools: Vec<&'static str>,
    /// Files that hold secrets, relative to the project.
    pub secrets: Vec<String>,
    /// Files that define container images.
    pub containers: Vec<String>,
    /// Linter configuration, by the preset that protects it.
    pub lint: BTreeMap<&'static str, Vec<&'static str>>,
    /// Directories with generated files.
    pub made: Vec<&'static str>,
    /// True if the survey stopped before it had read every directory.
    pub stopped_early: bool,
    /// Secrets whose names are not UTF-8, and cannot be written to a configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritable: Vec<String>,
}

/// Files that indicate a language or tool.
const TOOLS: &[(&str, &str)] = &[
    ("package.json", "Node"),
    ("deno.json", "Deno"),
    ("Cargo.toml", "Rust"),
    ("go.mod", "Go"),
    ("pyproject.toml", "Python"),
    ("setup.py", "Python"),
    ("requirements.txt", "Python"),
    ("Gemfile", "Ruby"),
    ("pom.xml", "Java"),
    ("build.gradle", "Java"),
    ("build.gradle.kts", "Java"),
    ("CMakeLists.txt", "CMake"),
    ("Makefile", "Make"),
    ("justfile", "just"),
];

const CONTAINERS: &[&str] = &[
    "Dockerfile",
    "Containerfile",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
];

/// Directories with generated files, which are not searched for secrets.
const MADE: &[&str] =
    &["node_modules", "target", "vendor", ".venv", "venv", "dist", "build", ".terraform"];

const LINT: &[&str] = &["@lint/ts", "@lint/go", "@lint/python"];

/// Limits of the search for secrets: depth, and number of directory entries.
const DEPTH: usize = 3;
const ENTRIES: usize = 20_000;

impl Survey {
    /// Surveys a project.
    pub fn of(project: &Path) -> Self {
        let has = |name: &str| fs::symlink_metadata(project.join(name)).is_ok();
        let mut survey = Self { git: git(project), ..Self::default() };
        let tools = TOOLS.iter().filter(|(file, _)| has(file)).map(|(_, tool)| *tool);
        survey.tools = tools.collect();
        survey.tools.dedup();
        survey.containers =
            CONTAINERS.iter().filter(|file| has(file)).map(|&file| file.to_owned()).collect();
        survey.made = MADE.iter().copied().filter(|dir| project.join(dir).is_dir()).collect();
        for preset in LINT {
            let files: Vec<_> = lint_files(preset).filter(|file| has(file)).collect();
            // Every editor reads this one, so it does not indicate a language.
            if files.iter().any(|file| *file != ".editorconfig") {
                survey.lint.insert(preset, files);
            }
        }
        let mut left = ENTRIES;
        survey.scan(project, Path::new(""), DEPTH, &mut left);
        survey.stopped_early = left == 0;
        survey.secrets.sort();
        survey
    }

    fn scan(&mut self, project: &Path, below: &Path, depth: usize, left: &mut usize) {
        // An agent cannot list an unreadable directory either.
        let Ok(entries) = fs::read_dir(project.join(below)) else { return };
        for entry in entries.flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let (name, path) = (entry.file_name(), below.join(entry.file_name()));
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && depth > 1 && !is_skipped(&name) {
                self.scan(project, &path, depth - 1, left);
            } else if !is_dir {
                self.file(&name, &path);
            }
        }
    }

    fn file(&mut self, name: &OsStr, path: &Path) {
        let lossy = name.to_string_lossy();
        if has_extension(&lossy, "tf") && !self.tools.contains(&"Terraform") {
            self.tools.push("Terraform");
        }
        if !is_secret(&lossy) {
            return;
        }
        match path.to_str() {
            Some(text) => self.secrets.push(text.to_owned()),
            None => self.unwritable.push(path.to_string_lossy().into_owned()),
        }
    }
}

fn git(project: &Path) -> Option<&'static str> {
    let dot_git = fs::symlink_metadata(project.join(".git")).ok()?;
    Some(if dot_git.is_file() { "worktree" } else { "repository" })
}

fn is_skipped(name: &OsStr) -> bool {
    name == ".git" || MADE.iter().any(|made| name == *made)
}

fn has_extension(name: &str, wanted: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == wanted)
}

/// Returns true when files with this name usually contain secrets.
pub(super) fn is_secret(name: &str) -> bool {
    const SAMPLES: &[&str] =
        &["example", "sample", "template", "tmpl", "dist", "defaults", "schema", "d.ts"];
    let is_sample = SAMPLES.iter().any(|end| name.ends_with(&format!(".{end}")));
    let environment = name == ".env" || name.starts_with(".env.");
    let terraform = name.ends_with(".tfvars")
        || name.ends_with(".tfvars.json")
        || name.ends_with(".tfstate")
        || name.ends_with(".tfstate.backup");
    (environment || terraform) && !is_sample
}
