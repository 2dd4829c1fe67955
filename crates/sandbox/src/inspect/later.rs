//! Files that run code later, on the host: listed when they are new or changed, never touched,
//! because writing them is often what the agent was asked to do.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use sandbox_linux::tree::Dir;

use sandbox_git::fold::fold;
use sandbox_git::obeyed::obeyed;

use sandbox_policy::catalog::agent::{self, ProjectConfig};

/// File names, and the programs that run them. Files read by agents are in the catalog.
const FILES: &[(&str, &str)] = &[
    (".agent-sandbox.json", "the sandbox reads it when started there"),
    (".agent-sandbox.jsonc", "the sandbox reads it when started there"),
    (".bash_profile", "a shell runs it"),
    (".bashrc", "a shell runs it"),
    (".devcontainer.json", "editors run its commands"),
    (".dir-locals.el", "emacs runs it"),
    (".env", "many tools load their environment from it"),
    (".envrc", "direnv runs it on entering the directory"),
    (".exrc", "vim runs it if `exrc` is set"),
    (".gdbinit", "gdb runs it"),
    (".gitattributes", "decides which filters and drivers git runs"),
    (".gitconfig", "git settings, if other settings include them"),
    (".gitlab-ci.yml", "CI runs it"),
    (".gitmodules", "decides what git fetches into submodules"),
    (".justfile", "just runs it"),
    (".lefthook.yml", "lefthook runs it on commit"),
    (".lldbinit", "lldb runs it"),
    (".mise.toml", "mise loads it on entering the directory"),
    (".npmrc", "decides what package managers fetch and run"),
    (".nvim.lua", "vim runs it if `exrc` is set"),
    (".nvimrc", "vim runs it if `exrc` is set"),
    (".pnpmfile.cjs", "package managers run it"),
    (".pre-commit-config.yaml", "pre-commit runs it on commit"),
    (".profile", "a shell runs it"),
    (".tool-versions", "decides which tools mise or asdf run"),
    (".travis.yml", "CI runs it"),
    (".vimrc", "vim runs it if `exrc` is set"),
    (".yarnrc", "decides what package managers fetch and run"),
    (".yarnrc.yml", "decides what package managers fetch and run"),
    (".zshenv", "a shell runs it"),
    (".zshrc", "a shell runs it"),
    ("CMakeLists.txt", "cmake runs it"),
    ("Dockerfile", "docker runs it on build"),
    ("GNUmakefile", "make runs it"),
    ("Gemfile", "bundler runs it"),
    ("Jenkinsfile", "CI runs it"),
    ("Justfile", "just runs it"),
    ("Makefile", "make runs it"),
    ("Rakefile", "rake runs it"),
    ("Taskfile.yaml", "task runs it"),
    ("Taskfile.yml", "task runs it"),
    ("Vagrantfile", "vagrant runs it"),
    ("azure-pipelines.yml", "CI runs it"),
    ("bitbucket-pipelines.yml", "CI runs it"),
    ("build.gradle", "gradle runs it"),
    ("build.gradle.kts", "gradle runs it"),
    ("build.rs", "cargo runs it on build"),
    ("bunfig.toml", "decides what package managers fetch and run"),
    ("compose.yaml", "docker starts its services"),
    ("compose.yml", "docker starts its services"),
    ("conftest.py", "pytest runs it"),
    ("default.nix", "nix runs it"),
    ("docker-compose.yaml", "docker starts its services"),
    ("docker-compose.yml", "docker starts its services"),
    ("flake.nix", "nix runs it"),
    ("gradlew", "the Gradle wrapper: users and editors run it"),
    ("justfile", "just runs it"),
    ("lefthook.yaml", "lefthook runs it on commit"),
    ("lefthook.yml", "lefthook runs it on commit"),
    ("makefile", "make runs it"),
    ("mise.toml", "mise loads it on entering the directory"),
    ("mvnw", "the Maven wrapper: users and editors run it"),
    ("noxfile.py", "nox runs it"),
    (PACKAGE_JSON, "package managers run its install scripts"),
    ("pyvenv.cfg", "decides which python a virtual environment runs"),
    ("rust-toolchain", "decides which compiler cargo runs"),
    ("rust-toolchain.toml", "decides which compiler cargo runs"),
    ("sandbox.toml", "the sandbox reads it when started there"),
    ("settings.gradle", "gradle runs it"),
    ("settings.gradle.kts", "gradle runs it"),
    ("setup.py", "pip runs it on install"),
    ("shell.nix", "nix-shell runs it"),
    ("sitecustomize.py", "python runs it at every start"),
    ("usercustomize.py", "python runs it at every start"),
];

/// Directories, and the programs that run files in them.
const FOLDERS: &[(&str, &str)] = &[
    (".vscode", "editors run its tasks and settings"),
    (".idea", "editors run its configurations"),
    (".zed", "editors run its tasks and settings"),
    (".fleet", "editors run its configurations"),
    (".devcontainer", "editors run its commands"),
    (".husky", "git runs it through husky"),
    (".githooks", "git runs it if `core.hooksPath` names it"),
    (".lefthook", "lefthook runs it on commit"),
    (".circleci", "CI runs it"),
    (".buildkite", "CI runs it"),
    (".forgejo", "CI runs it"),
    (".gitea", "CI runs it"),
    (".cargo", "cargo runs programs that it names"),
    (".mise", "mise loads it on entering the directory"),
    (".yarn", "yarn runs scripts in it"),
];

/// Reason for listing an agent's settings in the home directory. An agent may write its own settings, and applies
/// them outside a sandbox too.
pub(super) const AT_HOME_WHY: &str = "agents run what it configures, outside a sandbox too";

/// Rows of the tables above and of the catalog of agents.
struct Names {
    /// Sorted, because every file of a tree is looked up here.
    files: Vec<(&'static str, &'static str)>,
    folders: Vec<(&'static str, &'static str)>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names { files: FILES.to_vec(), folders: FOLDERS.to_vec() };
    for config in agent::project_config() {
        match *config {
            ProjectConfig::File(name, why) => names.files.push((name, why)),
            ProjectConfig::Dir(name, why) => names.folders.push((name, why)),
        }
    }
    names.files.sort_unstable();
    names
});

/// Directories that count only inside another one.
const NESTED_FOLDERS: &[(&str, &str, &str)] =
    &[(".github", "workflows", "CI runs it"), (".github", "actions", "CI runs it")];

/// File name endings, and the programs that run such files.
const ENDINGS: &[(&str, &str)] = &[
    (".pth", "python runs it at every start"),
    (".code-workspace", "editors run its tasks and settings"),
];

/// Directories of dependencies. Below them, only files that programs run unasked are listed.
const DEPENDENCIES: [&str; 5] = ["node_modules", "target", ".venv", "venv", "site-packages"];
const IN_DEPENDENCIES: [&str; 3] = ["pyvenv.cfg", "sitecustomize.py", "usercustomize.py"];

const PACKAGE_JSON: &str = "package.json";
const LIFECYCLE: [&str; 8] = [
    "preinstall",
    "install",
    "postinstall",
    "preprepare",
    "prepare",
    "postprepare",
    "prepublish",
    "dependencies",
];

/// Facts about a file that follow from its parent directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Above {
    /// The program that runs every file here.
    pub(super) folder: Option<&'static str>,
    /// True inside a directory of dependencies.
    pub(super) dependency: bool,
}

impl Above {
    /// Returns the facts for the directory `name` of `parent`.
    pub(super) fn inside(self, parent: Option<&OsStr>, name: &OsStr) -> Self {
        let dependency = self.dependency || DEPENDENCIES.iter().any(|dir| name == *dir);
        let nested = NESTED_FOLDERS
            .iter()
            .find(|(outer, inner, _)| {
                name == *inner && parent.is_some_and(|parent| parent == *outer)
            })
            .map(|(_, _, why)| *why);
        let folder = NAMES.folders.iter().find(|(folder, _)| name == *folder).map(|(_, why)| *why);
        let folder = self.folder.or(folder).or(nested).filter(|_| !dependency);
        Self { folder, dependency }
    }

    /// Returns the program that runs a file of this name here.
    pub(super) fn why(self, name: &OsStr) -> Option<&'static str> {
        let bytes = name.as_encoded_bytes();
        let ending = || ENDINGS.iter().find(|(end, _)| bytes.ends_with(end.as_bytes()));
        if self.dependency && !IN_DEPENDENCIES.iter().any(|file| name == *file) {
            return ending().map(|(_, why)| *why);
        }
        let files = &NAMES.files;
        let file = files.binary_search_by(|(file, _)| file.as_bytes().cmp(bytes));
        let file = file.ok().map(|at| &files[at]);
        file.or_else(ending).map(|(_, why)| *why).or(self.folder)
    }

    /// Returns the program that runs a file whose name some filesystem treats as one in the tables.
    fn why_folded(self, folded: &str) -> Option<&'static str> {
        let mut known = NAMES.files.iter().filter(|(file, _)| file.eq_ignore_ascii_case(folded));
        let known = known.find(|(file, _)| !self.dependency || IN_DEPENDENCIES.contains(file));
        known.or_else(|| ENDINGS.iter().find(|(end, _)| folded.ends_with(end))).map(|(_, why)| *why)
    }
}

/// Returns the program that runs a file of this path below a project. A name counts in every form that
/// some filesystem treats as the same.
pub(super) fn by_path(path: &Path) -> Option<&'static str> {
    let names: Vec<_> = path.iter().map(|name| (name, fold(name))).collect();
    let (last, dirs) = names.split_last()?;
    if let Some(at) = dirs.iter().position(|(_, folded)| folded == DOT_GIT) {
        let inside: Vec<&str> = names[at + 1..].iter().map(|(_, folded)| folded.as_str()).collect();
        return obeyed(&inside);
    }
    // A `.git` file points git to another directory.
    if last.1 == DOT_GIT {
        return Some("git follows it to a repository");
    }
    let (mut above, mut parent) = (Above::default(), None);
    for (name, folded) in dirs {
        // Only the exact name is a directory of dependencies. Other spellings are judged like other directories.
        let dependency = DEPENDENCIES.iter().any(|dir| folded == dir);
        let name = if dependency { *name } else { OsStr::new(folded) };
        above = above.inside(parent, name);
        parent = Some(name);
    }
    above.why(last.0).or_else(|| above.why_folded(&last.1))
}

/// The name of git's own directory.
const DOT_GIT: &str = ".git";

/// Returns true when the content confirms what the name suggests.
pub(super) fn confirmed(dir: &Dir, name: &OsStr) -> bool {
    if name != PACKAGE_JSON {
        return true;
    }
    let Ok(text) = dir.read(name, 1 << 20) else { return true };
    !is_harmless(name, &text)
}

/// Returns true when the content of a file of such a name shows that it runs nothing.
pub(super) fn is_harmless(name: &OsStr, text: &[u8]) -> bool {
    if !fold(name).eq(PACKAGE_JSON) {
        return false;
    }
    // No package manager runs scripts from a file that it cannot parse.
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(text) else { return true };
    !LIFECYCLE.iter().any(|script| json["scripts"].get(script).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_path_knows_git_s_own_files_when_they_run_code() {
        for (path, expected) in [
            ("a/.git/hooks/pre-commit", true),
            (".git/modules/x/config", true),
            (".GIT/config", true),
            (".git/objects/ab/cdef", false),
            (".git/refs/heads/Makefile", false),
            ("sub/.git", true),
            ("Makefile", true),
            ("src/config", false),
            ("src/hooks/x.ts", false),
            (".git/refs/heads/config", false),
            (".git/logs/refs/heads/hooks/x", false),
            (".git/index", false),
            (".git/objects/info/alternates", true),
            (".git/rebase-merge/git-rebase-todo", true),
            (".git/new-thing", true),
            (".Git/HOOKS/pre-commit", true),
            (".g\u{200c}it/config", true),
            ("git~1/config", true),
            (".VSCODE/tasks.json", true),
            (".v\u{17f}code/tasks.json", true),
            ("MAKEFILE", true),
            (".ENVRC", true),
            ("NODE_MODULES/.vscode/tasks.json", true),
            ("node_modules/.vscode/tasks.json", false),
        ] {
            assert_eq!(by_path(Path::new(path)).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn names_are_sorted_for_binary_search() {
        assert!(NAMES.files.is_sorted_by(|(one, _), (two, _)| one.as_bytes() < two.as_bytes()));
    }

    #[test]
    fn why_finds_files_that_run_later_when_their_directory_counts() {
        for (path, expected) in [
            (".envrc", true),
            ("sub/.envrc", true),
            ("src/main.rs", false),
            (".vscode/tasks.json", true),
            (".claude/hooks/deep/x.sh", true),
            (".github/workflows/ci.yml", true),
            (".github/README.md", false),
            ("workflows/ci.yml", false),
            ("lib/evil.pth", true),
            (".venv/lib/site-packages/evil.pth", true),
            (".venv/lib/site-packages/x/setup.py", false),
            ("node_modules/x/package.json", false),
            ("node_modules/x/.vscode/tasks.json", false),
            (".venv/pyvenv.cfg", true),
        ] {
            let (mut above, mut parent) = (Above::default(), None);
            let mut names: Vec<_> = path.split('/').map(OsStr::new).collect();
            let file = names.pop().unwrap();
            for name in names {
                above = above.inside(parent, name);
                parent = Some(name);
            }
            assert_eq!(above.why(file).is_some(), expected, "{path}");
        }
    }
}
