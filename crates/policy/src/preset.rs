//! Presets: expansion of each `@name` to rules. The submodules contain only data.

mod base;
mod caches;
mod lint;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::catalog::{agent, secret};
use crate::config::{Access, Config, Origin, PathRule, Sourced};
use crate::host::Host;

/// A rule of a preset: the access, and the path as in a configuration file.
pub type Line = (Access, &'static str);

/// Names and descriptions of the presets, in the order of listings.
pub const NAMES: &[(&str, &str)] = &[
    ("@base", "working directory writable, home readable, ~/.ssh ~/.gnupg ~/.aws hidden"),
    (
        "@secrets",
        "credentials, histories, browser profiles, agent sockets and secret variables hidden",
    ),
    ("@caches", "package caches writable, programs in them read-only"),
    ("@agents", "state of coding agents writable"),
    ("@git", "hooks and configuration of git repositories read-only"),
    ("@git-strict", "@git, plus other branches and tags read-only"),
    ("@lint/ts", "TypeScript and JavaScript linter configuration read-only"),
    ("@lint/go", "Go linter configuration read-only"),
    ("@lint/python", "Python linter configuration read-only"),
    ("@lint/all", "all @lint presets"),
    ("@all", "@base @secrets @caches @agents @git @lint/all, on by default"),
];

const ALL: &[&str] =
    &["@base", "@secrets", "@caches", "@agents", "@git", "@lint/ts", "@lint/go", "@lint/python"];

/// The enabled presets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presets(BTreeSet<&'static str>);

impl Presets {
    /// Starts with `@all` and applies the toggles in order. The last one wins.
    pub fn of(toggles: &[Sourced<String>]) -> Self {
        let mut on: BTreeSet<&'static str> = ALL.iter().copied().collect();
        for toggle in toggles {
            match toggle.value.strip_prefix('!') {
                // Turning `@git-strict` on turns `@git` on too, but turning it off leaves `@git` on.
                Some("@git-strict") => {
                    on.remove("@git-strict");
                }
                Some(name) => members(name).iter().for_each(|member| {
                    on.remove(member);
                }),
                None => on.extend(members(&toggle.value)),
            }
        }
        Self(on)
    }

    /// Returns true when a preset is enabled.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns the names of the enabled presets.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }
}

/// Returns the presets that a name toggles. Names were checked when the configuration was read.
fn members(name: &str) -> Vec<&'static str> {
    match name {
        "@all" => ALL.to_vec(),
        "@lint/all" => vec!["@lint/ts", "@lint/go", "@lint/python"],
        "@git-strict" => vec!["@git", "@git-strict"],
        other => NAMES.iter().map(|(name, _)| *name).filter(|name| *name == other).collect(),
    }
}

/// Returns all path rules: those of the enabled presets, then the configured ones.
pub fn expand(host: &Host, config: &Config) -> (Presets, Vec<Sourced<PathRule>>) {
    let presets = Presets::of(&config.presets);
    // Without a home directory, rules below it are dropped. The rule `~` of `@base` stays, so that the run fails.
    let has_home = host.home.is_some();
    let mut rules: Vec<_> = tables()
        .filter(|table| presets.has(table.preset) && (host.uid == 0 || !table.only_root))
        .flat_map(|Table { preset, lines, .. }| {
            lines.into_iter().map(move |(access, pattern)| line(preset, access, pattern))
        })
        .filter(|rule| has_home || !rule.value.pattern.starts_with("~/"))
        // A user whose working directory is `/` did not mean to make the whole machine writable.
        .filter(|rule| rule.value.pattern != "." || config.cwd != Path::new("/"))
        .collect();
    // The lint settings of a monorepo are in its root.
    if let Some(repo) = config.repo.as_deref().filter(|repo| *repo != config.cwd) {
        let relative = rules.iter().filter(|rule| is_lint(rule)).cloned();
        let based: Vec<_> = relative.map(|rule| based(rule, repo)).collect();
        rules.extend(based);
    }
    if presets.has("@caches") {
        rules.extend(programs_in_caches(host));
    }
    rules.extend(config.paths.iter().cloned());
    (presets, rules)
}

/// Rules of one preset.
#[derive(Debug, Clone)]
pub struct Table {
    /// The preset.
    pub preset: &'static str,
    /// True if the rules are only for root: other users cannot read these paths anyway.
    pub only_root: bool,
    /// The rules.
    pub lines: Vec<Line>,
}

/// Returns every preset that is a list of paths, in order. `@git` is not: its paths depend on the repositories.
pub fn tables() -> impl Iterator<Item = Table> {
    let table = |preset, only_root, lines| Table { preset, only_root, lines };
    let hidden = secret::USER.iter().flat_map(|group| group.paths);
    [
        table("@base", false, base::BASE.to_vec()),
        table("@secrets", false, lines(Access::Exclude, hidden.copied())),
        table("@secrets", true, lines(Access::Exclude, secret::SYSTEM.iter().copied())),
        table("@secrets", false, lines(Access::Exclude, secret::SOCKETS.iter().copied())),
        table("@caches", false, caches::CACHES.to_vec()),
        table("@agents", false, lines(Access::Rw, agent::writable())),
        table("@lint/ts", false, lint::TS.to_vec()),
        table("@lint/go", false, lint::GO.to_vec()),
        table("@lint/python", false, lint::PYTHON.to_vec()),
    ]
    .into_iter()
}

fn lines(access: Access, patterns: impl Iterator<Item = &'static str>) -> Vec<Line> {
    patterns.map(|pattern| (access, pattern)).collect()
}

/// Returns the files that a lint preset protects, relative to the project.
pub(crate) fn lint_files(preset: &str) -> impl Iterator<Item = &'static str> {
    let lines = match preset {
        "@lint/ts" => lint::TS,
        "@lint/go" => lint::GO,
        "@lint/python" => lint::PYTHON,
        _ => &[],
    };
    lines.iter().map(|(_, file)| *file)
}

fn line(preset: &'static str, access: Access, pattern: &str) -> Sourced<PathRule> {
    Sourced::new(PathRule::new(access, pattern), Origin::Preset(preset))
}

fn is_lint(rule: &Sourced<PathRule>) -> bool {
    matches!(rule.origin, Origin::Preset(name) if name.starts_with("@lint/"))
}

fn based(mut rule: Sourced<PathRule>, dir: &Path) -> Sourced<PathRule> {
    rule.value.base = Some(Arc::from(dir));
    rule
}

/// Makes directories of `$PATH` that are inside a cache read-only: the user runs the programs in them.
fn programs_in_caches(host: &Host) -> Vec<Sourced<PathRule>> {
    let Some(home) = &host.home else { return Vec::new() };
    let writable = caches::CACHES.iter().filter(|(access, _)| *access == Access::Rw);
    let caches: Vec<_> = writable
        .filter_map(|(_, path)| path.strip_prefix("~/"))
        .map(|path| home.join(path))
        .collect();
    host.search_path()
        .into_iter()
        .filter(|dir| caches.iter().any(|cache| dir.starts_with(cache)))
        .filter_map(|dir| dir.to_str().map(|dir| line("@caches", Access::Ro, dir)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toggles(names: &[&str]) -> Vec<Sourced<String>> {
        names.iter().map(|name| Sourced::new((*name).to_owned(), Origin::Default)).collect()
    }

    #[test]
    fn presets_start_from_all_and_the_last_toggle_wins() {
        for (names, on, off) in [
            (&[][..], "@base", "@git-strict"),
            (&["@git-strict"], "@git-strict", ""),
            (&["!@all", "@caches"], "@caches", "@base"),
            (&["!@all", "@git-strict"], "@git", "@base"),
            (&["@git-strict", "!@all"], "@git-strict", "@git"),
            (&["!@git-strict"], "@git", "@git-strict"),
            (&["@git-strict", "!@git-strict"], "@git", "@git-strict"),
            (&["!@lint/all"], "@git", "@lint/ts"),
            (&["!@lint/ts", "@lint/ts"], "@lint/ts", ""),
        ] {
            let presets = Presets::of(&toggles(names));
            assert!(presets.has(on), "{names:?} should turn {on} on");
            assert!(!presets.has(off), "{names:?} should leave {off} off");
        }
    }

    fn expanded(home: Option<&str>, uid: u32, toggles_: &[&str], path: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let host = Host {
            cwd: Some(dir.path().to_path_buf()),
            home: home.map(Into::into),
            env: std::iter::once(("PATH".into(), path.into())).collect(),
            exe: "/usr/bin/env".into(),
            uid,
            gid: uid,
            inside: false,
        };
        let mut config = crate::config::load(&host, &crate::config::Request::default()).unwrap();
        config.presets.extend(toggles(toggles_));
        let (_, rules) = expand(&host, &config);
        let text = |rule: &Sourced<PathRule>| {
            format!("{} {} {}", rule.origin, rule.value.access.word(), rule.value.pattern)
        };
        rules.iter().map(text).collect()
    }

    #[test]
    fn expand_returns_the_rules_of_enabled_presets() {
        let home = Some("/home/u");
        for (why, home, uid, toggles, path, line, expected) in [
            ("base", home, 1, &[][..], "/bin", "preset @base rw .", true),
            ("base off", home, 1, &["!@base"], "/bin", "preset @base rw .", false),
            ("secrets", home, 1, &["!@base"], "/bin", "preset @secrets exclude ~/.ssh", true),
            ("home itself", None, 1, &[], "/bin", "preset @base ro ~", true),
            ("no home directory", None, 1, &[], "/bin", "preset @caches rw ~/.cache", false),
            ("only for root", home, 0, &[], "/bin", "preset @secrets exclude /etc/shadow", true),
            ("not for others", home, 1, &[], "/bin", "preset @secrets exclude /etc/shadow", false),
            (
                "programs in a cache",
                home,
                1,
                &[],
                "/bin:/home/u/.npm/x/bin",
                "preset @caches ro /home/u/.npm/x/bin",
                true,
            ),
            ("lint off", home, 1, &["!@lint/all"], "/bin", "preset @lint/ts ro biome.json", false),
        ] {
            let lines = expanded(home, uid, toggles, path);
            assert_eq!(lines.iter().any(|rule| rule == line), expected, "{why}: {line}");
        }
    }
}
