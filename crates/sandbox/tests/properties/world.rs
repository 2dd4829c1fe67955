//! Small trees with symlinks, and small policies about them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use sandbox_core::inspect::Known;
use sandbox_core::plan::{Plan, PlanError, ResolvedPolicy};
use sandbox_policy::Host;
use sandbox_policy::config::{Access, Config, Layer, Origin, PathRule, Request, Sourced};
use tempfile::TempDir;

/// Files to create before planning, below the working directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) dirs: Vec<String>,
    pub(crate) files: Vec<String>,
    /// Name and target. A target that starts with `/` is relative to the working directory.
    pub(crate) links: Vec<(String, String)>,
}

/// Rule of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) access: Access,
    pub(crate) pattern: String,
    pub(crate) layer: Layer,
}

/// Home and working directory on disk.
pub(crate) struct World {
    _dir: TempDir,
    pub(crate) cwd: PathBuf,
    pub(crate) host: Host,
}

impl World {
    /// Creates the tree. The working directory is `work`, in the home directory or beside it.
    pub(crate) fn new(tree: &Tree, in_home: bool) -> Self {
        // Not in `/tmp`, which is private to a sandbox.
        let dir = tempfile::Builder::new().prefix("as-plan-").tempdir_in("/var/tmp").unwrap();
        let top = dir.path().canonicalize().unwrap();
        let home = top.join("home");
        let cwd = if in_home { home.join("work") } else { top.join("work") };
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&cwd).unwrap();
        let host = Host {
            cwd: Some(cwd.clone()),
            home: Some(home),
            env: std::iter::once(("PATH".into(), "/usr/bin".into())).collect(),
            exe: "/usr/bin/env".into(),
            uid: 1000,
            gid: 1000,
            inside: false,
        };
        let world = Self { _dir: dir, cwd, host };
        world.plant(tree);
        world
    }

    /// Creates the files. Conflicts, such as a file where a directory should be, are ignored.
    fn plant(&self, tree: &Tree) {
        for dir in &tree.dirs {
            let _ = fs::create_dir_all(self.cwd.join(dir));
        }
        for file in &tree.files {
            let path = self.cwd.join(file);
            let _ = path.parent().map(fs::create_dir_all);
            let _ = fs::write(&path, "x");
        }
        for (name, target) in &tree.links {
            let path = self.cwd.join(name);
            let _ = path.parent().map(fs::create_dir_all);
            let target = target.strip_prefix('/').map_or(target.into(), |rest| self.cwd.join(rest));
            let _ = symlink(target, &path);
        }
    }

    /// Returns every file and directory at or below a path, without symlinks.
    pub(crate) fn paths(top: &Path) -> Vec<PathBuf> {
        let mut paths = vec![top.to_path_buf()];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
            paths.extend(
                entries
                    .filter(|e| !e.file_type().is_ok_and(|kind| kind.is_symlink()))
                    .map(|e| e.path()),
            );
        }
        paths
    }

    /// Returns a configuration of these rules and the presets that `toggles` leave on.
    pub(crate) fn config(&self, toggles: &[&str], rules: &[Rule]) -> Config {
        let mut config = sandbox_policy::config::load(&self.host, &Request::default()).unwrap();
        config.commands.clear();
        let toggle = |name: &&str| Sourced::new((*name).to_owned(), Origin::Default);
        config.presets.extend(toggles.iter().map(toggle));
        config.paths = rules.iter().enumerate().map(|(line, rule)| sourced(line, rule)).collect();
        config
    }

    pub(crate) fn plan_of(&self, config: Config) -> Result<Plan, PlanError> {
        let decided =
            ResolvedPolicy::of(&self.host, config)?.decide(&self.host, &Known::default())?;
        let inputs = decided.inputs(vec!["true".into()]);
        Ok(decided.finish(inputs))
    }

    /// Returns the plan of these rules and no preset.
    pub(crate) fn plan(&self, rules: &[Rule]) -> Result<Plan, PlanError> {
        self.plan_of(self.config(&["!@all"], rules))
    }
}

fn sourced(line: usize, rule: &Rule) -> Sourced<PathRule> {
    let Rule { access, pattern, layer } = rule;
    let origin = match layer {
        Layer::Builtin => Origin::Preset("@base"),
        Layer::Flags => Origin::Flag(format!("--{} {pattern}", access.word())),
        layer => Origin::File {
            layer: *layer,
            path: Arc::from(Path::new("/etc/policy.json")),
            line: u32::try_from(line).unwrap(),
        },
    };
    Sourced::new(PathRule::new(*access, pattern.clone()), origin)
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

/// Generates a path of one to three names.
pub(crate) fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..=3).prop_map(|names| names.join("/"))
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(path(), 0..6)
}

/// Generates a tree without symlinks.
pub(crate) fn plain_tree() -> impl Strategy<Value = Tree> {
    (paths(), paths()).prop_map(|(dirs, files)| Tree { dirs, files, links: Vec::new() })
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        path().prop_map(|path| format!("../{path}")),
        (path(), name()).prop_map(|(path, name)| format!("../{path}/../{name}")),
        path().prop_map(|path| format!("/{path}")),
        prop::sample::select(vec!["x", "y", "z", "nowhere"]).prop_map(str::to_owned),
    ]
}

/// Generates a tree whose symlinks all lie in `l`, which no rule makes writable. They lead to each other, in circles, or
/// to missing paths.
pub(crate) fn tidy_tree() -> impl Strategy<Value = Tree> {
    let link = (prop::sample::select(vec!["l/x", "l/y", "l/z"]), target());
    let links = prop::collection::vec(link, 0..4);
    (plain_tree(), links).prop_map(|(tree, links)| Tree {
        links: links.into_iter().map(|(name, target)| (name.to_owned(), target)).collect(),
        ..tree
    })
}

/// Generates a tree with symlinks from anywhere to anywhere.
pub(crate) fn wild_tree() -> impl Strategy<Value = Tree> {
    let links = prop::collection::vec((path(), target()), 0..5);
    (plain_tree(), links).prop_map(|(tree, links)| Tree { links, ..tree })
}

pub(crate) fn access() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![Access::Rw, Access::Ro, Access::Exclude])
}

fn layer() -> impl Strategy<Value = Layer> {
    prop::sample::select(vec![Layer::Builtin, Layer::Global, Layer::Project, Layer::Flags])
}

fn glob() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "*", "?", "[ab]", "[!a]", "b*", "**"]);
    (name(), prop::collection::vec(segment, 1..=3))
        .prop_map(|(first, rest)| format!("{first}/{}", rest.join("/")))
}

/// Generates a pattern of names, a glob, or a path through `l`.
pub(crate) fn tidy_pattern() -> impl Strategy<Value = String> {
    let through =
        prop::sample::select(vec!["l/x", "l/y", "l/z", "l/*", "l/x/a", "l/y/*", "l/z/b/c"]);
    prop_oneof![4 => path(), 2 => glob(), 2 => through.prop_map(str::to_owned)]
}

/// Generates a pattern like [`tidy_pattern`], or a wide one.
pub(crate) fn wild_pattern() -> impl Strategy<Value = String> {
    let wide = prop::sample::select(vec![".", "*", "**", "**/b", "**/a/*", "./a/../b"]);
    prop_oneof![5 => tidy_pattern(), 1 => wide.prop_map(str::to_owned)]
}

pub(crate) fn rule(pattern: impl Strategy<Value = String>) -> impl Strategy<Value = Rule> {
    (access(), pattern, layer()).prop_map(|(access, pattern, layer)| Rule {
        access,
        pattern,
        layer,
    })
}

pub(crate) fn rules(pattern: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule(pattern), 0..8)
}
