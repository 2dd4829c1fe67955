//! State that an agent keeps in the home directory and that does not exist before its first run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::ResolvedPolicy;
use sandbox_policy::catalog::agent::{Initial, created_on_first_run};
use sandbox_policy::config::{Access, Config, Origin};
use sandbox_policy::path::{Kind, Resolved};

impl ResolvedPolicy {
    /// Returns the state that is missing if the command is a known agent: only paths that a rule makes writable, and
    /// none that is reached through a symlink in the home directory.
    pub fn missing_state(&self, command: &[OsString]) -> Vec<(PathBuf, Initial)> {
        let name = command.first().and_then(|word| Path::new(word).file_name());
        let missing = |(pattern, initial)| {
            let rule = self.rules.iter().find(|rule| is_missing(rule, pattern))?;
            (!self.is_linked(rule) && !self.is_stricter(&rule.path))
                .then(|| (rule.path.clone(), initial))
        };
        name.into_iter().flat_map(created_on_first_run).filter_map(missing).collect()
    }

    /// Returns the configuration, so that it can be resolved again after [`ResolvedPolicy::missing_state`] was created.
    pub fn into_config(self) -> Config {
        self.config
    }

    fn is_linked(&self, rule: &Resolved) -> bool {
        let home = self.home.as_ref();
        home.is_none_or(|home| rule.links.iter().any(|link| link.starts_with(&home.path)))
    }

    fn is_stricter(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.path == path && rule.access > Access::Rw)
    }
}

fn is_missing(rule: &Resolved, pattern: &str) -> bool {
    rule.pattern == pattern
        && rule.access == Access::Rw
        && rule.kind == Kind::Missing
        && matches!(rule.origin, Origin::Preset(_))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use sandbox_policy::config::{self, Request};
    use sandbox_policy::host::Host;

    fn host(root: &Path) -> Host {
        for name in ["home", "project"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        Host {
            cwd: Some(root.join("project")),
            home: Some(root.join("home")),
            env: BTreeMap::new(),
            exe: "/usr/bin/agent-sandbox".into(),
            uid: 1000,
            gid: 1000,
            inside: false,
        }
    }

    fn missing(host: &Host, command: &str, paths: &[(Access, &str)]) -> Vec<String> {
        let paths = paths.iter().map(|(access, path)| (*access, (*path).to_owned())).collect();
        let request = Request { paths, ..Request::default() };
        let policy = ResolvedPolicy::of(host, config::load(host, &request).unwrap()).unwrap();
        let home = host.home.as_deref().unwrap();
        let names = policy
            .missing_state(&[command.into()])
            .into_iter()
            .map(|(path, _)| path.strip_prefix(home).unwrap().to_str().unwrap().to_owned());
        names.collect()
    }

    #[test]
    fn state_is_missing_when_the_command_is_an_agent_and_rules_allow_it() {
        let root = tempfile::tempdir().unwrap();
        let host = host(&root.path().canonicalize().unwrap());
        for (why, command, paths, expected) in [
            ("an agent", "claude", &[][..], &[".claude", ".claude.json"][..]),
            ("by its path", "/opt/bin/codex", &[], &[".codex"]),
            ("no agent", "make", &[], &[]),
            ("hidden", "claude", &[(Access::Exclude, "~/.claude")], &[".claude.json"]),
            ("read-only", "codex", &[(Access::Ro, "~/.codex")], &[]),
            ("rule removed", "codex", &[(Access::Rw, "!~/.codex")], &[]),
        ] {
            assert_eq!(missing(&host, command, paths), expected, "{why}");
        }
    }

    #[test]
    fn state_is_not_missing_when_it_exists_or_is_reached_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let host = host(&root.path().canonicalize().unwrap());
        let home = host.home.clone().unwrap();
        fs::create_dir(home.join(".claude")).unwrap();
        symlink("/nowhere/claude.json", home.join(".claude.json")).unwrap();
        assert_eq!(missing(&host, "claude", &[]), Vec::<String>::new());
    }
}
