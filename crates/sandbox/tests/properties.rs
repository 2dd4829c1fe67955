//! Properties of every plan, tested with random small trees on disk and random small policies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "properties/world.rs"]
mod world;
#[path = "properties/view.rs"]
mod view;
#[path = "properties/rendering.rs"]
mod rendering;

use std::path::Path;

use proptest::prelude::*;
use sandbox_core::plan::{self, Plan};
use sandbox_core::render::own::Hiding;
use sandbox_policy::config::{Access, Layer, Request};

use view::{View, by_arguments, by_mounts, by_plan, by_steps, by_text};
use world::{
    Rule, Tree, World, access, path, plain_tree, rule, rules, tidy_pattern, tidy_tree,
    wild_pattern, wild_tree,
};

fn cases() -> ProptestConfig {
    let cases = u32::try_from(testkit::rounds(200, 2000)).unwrap_or(200);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn with(rules: &[Rule], rule: &Rule) -> Vec<Rule> {
    let mut rules = rules.to_vec();
    rules.push(rule.clone());
    rules
}

/// Returns both plans, or `None` if a rule hides the working directory, which is refused.
fn both(world: &World, before: &[Rule], after: &[Rule]) -> Option<(Plan, Plan)> {
    Some((world.plan(before).ok()?, world.plan(after).ok()?))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn views_follow_the_documentation_and_both_renderings_agree(tree in tidy_tree(), rules in rules(tidy_pattern())) {
        let world = World::new(&tree, false);
        let plan = world.plan(&rules).unwrap();
        for path in World::paths(&world.cwd) {
            let expected = by_text(&world, &rules, &path);
            prop_assert_eq!(by_plan(&plan, &path), expected, "mounts at {}", path.display());
            prop_assert_eq!(by_steps(&plan, Hiding::Binds, &path), expected, "steps at {}", path.display());
            prop_assert_eq!(by_arguments(&plan, &path), expected, "arguments at {}", path.display());
        }
    }

    #[test]
    fn exclude_never_shows_anything(tree in wild_tree(), rules in rules(wild_pattern()), more in rule(wild_pattern())) {
        let world = World::new(&tree, false);
        let more = Rule { access: Access::Exclude, ..more };
        let Some((before, after)) = both(&world, &rules, &with(&rules, &more)) else { return Ok(()) };
        for path in World::paths(&world.cwd) {
            prop_assert!(by_plan(&after, &path) >= by_plan(&before, &path), "{} opens", path.display());
        }
    }

    #[test]
    fn ro_never_makes_anything_writable(tree in wild_tree(), rules in rules(wild_pattern()), more in rule(wild_pattern())) {
        let world = World::new(&tree, false);
        let more = Rule { access: Access::Ro, ..more };
        let Some((before, after)) = both(&world, &rules, &with(&rules, &more)) else { return Ok(()) };
        for path in World::paths(&world.cwd).iter().filter(|path| by_plan(&after, path) == View::Writable) {
            prop_assert_eq!(by_plan(&before, path), View::Writable, "{} opens", path.display());
        }
    }

    #[test]
    fn order_within_a_layer_does_not_matter(tree in wild_tree(), rules in rules(wild_pattern()), turn in 0usize..8) {
        let world = World::new(&tree, false);
        let config = world.config(&["!@all"], &rules);
        let mut other = config.clone();
        other.paths.reverse();
        let turn = turn.min(other.paths.len());
        other.paths.rotate_left(turn);
        let (Ok(one), Ok(other)) = (world.plan_of(config), world.plan_of(other)) else { return Ok(()) };
        prop_assert_eq!(one.mounts, other.mounts);
        prop_assert_eq!(one.decisions, other.decisions);
    }

    #[test]
    fn rule_changes_nothing_outside_its_path(
        tree in plain_tree(), rules in rules(tidy_pattern()), access in access(), at in path(),
    ) {
        let world = World::new(&tree, false);
        let more = Rule { access, pattern: at.clone(), layer: Layer::Flags };
        let Some((before, after)) = both(&world, &rules, &with(&rules, &more)) else { return Ok(()) };
        for path in World::paths(&world.cwd).iter().filter(|path| !path.starts_with(world.cwd.join(&at))) {
            prop_assert_eq!(by_plan(&after, path), by_plan(&before, path), "{}", path.display());
        }
    }

    #[test]
    fn mounts_are_sorted_needed_and_deterministic(tree in wild_tree(), rules in rules(wild_pattern())) {
        let world = World::new(&tree, false);
        // The listening sockets of this machine may change at any time.
        let quiet = |plan: Plan| Plan { sockets: Vec::new(), ..plan };
        let Ok(plan) = world.plan(&rules).map(quiet) else { return Ok(()) };
        prop_assert_eq!(&plan, &quiet(world.plan(&rules).unwrap()));
        prop_assert!(plan.mounts.is_sorted_by(|a, b| a.target < b.target), "one view for each path, parents first");
        for (index, mount) in plan.mounts.iter().enumerate() {
            let mut fewer = plan.mounts.clone();
            fewer.remove(index);
            let without = by_mounts(plan.root_writable, &fewer, &mount.target);
            let with = by_plan(&plan, &mount.target);
            if mount.view == plan::View::Pin {
                prop_assert_eq!((with, without), (View::Writable, View::Writable));
                prop_assert!(plan::has_below(&plan.mounts, &mount.target), "a pin for nothing: {:?}", mount);
            } else {
                prop_assert_ne!(with, without, "{:?} changes nothing", mount);
            }
        }
    }

    #[test]
    fn removal_restores_the_plan_before(tree in plain_tree(), rules in rules(tidy_pattern()), more in rule(path())) {
        let world = World::new(&tree, false);
        let rules: Vec<Rule> = rules
            .into_iter()
            .filter(|rule| (rule.access, &rule.pattern) != (more.access, &more.pattern))
            .map(|rule| Rule { layer: Layer::Global, ..rule })
            .collect();
        let before = load(&world, &rules, &Request::default());
        let back = (more.access, format!("!{}", more.pattern));
        let request = Request { paths: vec![back], ..Request::default() };
        let after = load(&world, &with(&rules, &more), &request);
        prop_assert_eq!(views(&world, &before), views(&world, &after));
    }

    #[test]
    fn home_has_the_same_views_with_one_overlay_and_with_many_mounts(
        tree in home_tree(), rules in rules(home_pattern()),
    ) {
        let world = World::new(&tree, true);
        let Ok(plan) = world.plan_of(world.config(&[], &rules)) else { return Ok(()) };
        let home = world.host.home.as_deref().unwrap();
        for path in World::paths(home) {
            let expected = by_plan(&plan, &path);
            prop_assert_eq!(by_steps(&plan, Hiding::Overlay, &path), expected, "overlay at {}", path.display());
            prop_assert_eq!(by_steps(&plan, Hiding::Binds, &path), expected, "binds at {}", path.display());
            prop_assert_eq!(by_arguments(&plan, &path), expected, "bubblewrap at {}", path.display());
        }
    }
}

/// Makes a plan from a real global configuration file and flags.
fn load(world: &World, rules: &[Rule], request: &Request) -> Plan {
    let list = |access: Access| {
        rules
            .iter()
            .filter(|rule| rule.access == access)
            .map(|rule| rule.pattern.as_str())
            .collect::<Vec<_>>()
    };
    let text = serde_json::json!({ "filesystem": {
        "presets": ["!@all"], "rw": list(Access::Rw), "ro": list(Access::Ro), "exclude": list(Access::Exclude),
    }});
    let dir = world.host.config_dir().unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.json"), text.to_string()).unwrap();
    let config = sandbox_policy::config::load(&world.host, request).unwrap();
    world.plan_of(config).unwrap()
}

fn views(world: &World, plan: &Plan) -> Vec<View> {
    World::paths(&world.cwd).iter().map(|path| by_plan(plan, path)).collect()
}

const IN_HOME: &[&str] = &[
    "../.ssh/id",
    "../.ssh/config",
    "../.aws/credentials",
    "../.cargo/bin/x",
    "../.cargo/registry/y",
    "../.cargo/credentials.toml",
    "../.config/gh/hosts.yml",
    "../.config/other",
    "../.netrc",
    "../.bash_history",
    "../.docker/config.json",
    "../.claude/x",
    "../.claude.json",
    "../.npmrc",
    "../.cache/z",
    "../.kube/config",
    "a/b",
    ".git/config",
    ".git/HEAD",
    "tsconfig.json",
];

fn home_tree() -> impl Strategy<Value = Tree> {
    prop::sample::subsequence(IN_HOME, 0..=IN_HOME.len()).prop_map(|files| Tree {
        files: files.into_iter().map(str::to_owned).collect(),
        ..Tree::default()
    })
}

fn home_pattern() -> impl Strategy<Value = String> {
    let patterns: Vec<String> = IN_HOME
        .iter()
        .flat_map(|file| Path::new(file).ancestors().filter(|path| path.components().count() > 1))
        .map(|path| path.display().to_string())
        .chain(["~/.c*", "~", "~/.ssh/**", "~/later", "~/.cache/later/x"].map(str::to_owned))
        .collect();
    prop::sample::select(patterns)
}
