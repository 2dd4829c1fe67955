//! Environment of the command: variables that are passed on, hidden or set.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_protocol::layout::RUNTIME_DIR;
use serde::{Serialize, Serializer};

use super::withheld;
use sandbox_policy::config::{Config, Network, Origin, Sourced, Tmp};
use sandbox_policy::host::Host;
use sandbox_policy::network::proxy_variables;
use sandbox_policy::preset::Presets;
use sandbox_policy::variable::{self, Hidden};

/// Environment of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// Variables passed to the command. Output shows names only, because the values are private to the user.
    #[serde(serialize_with = "names")]
    pub set: BTreeMap<OsString, OsString>,
    /// Variables that are not passed on.
    pub hidden: Vec<HiddenVariable>,
    /// Variables that the sandbox sets.
    #[serde(skip)]
    pub own: BTreeMap<String, Sourced<OsString>>,
}

/// Variable that is not passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HiddenVariable {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: Hidden,
    /// The rule that hides it.
    pub origin: Origin,
}

/// Decides which variables the command gets.
pub(super) fn decide(
    host: &Host,
    config: &Config,
    presets: &Presets,
    sockets: &[PathBuf],
) -> Environment {
    let mut set = BTreeMap::new();
    let mut hidden = Vec::new();
    for (name, value) in &host.env {
        let text = name.to_str();
        let asked = text.and_then(|name| config.env.get(name)).is_some();
        let withheld = text.and_then(|name| withheld::variable(host, config, name));
        if let (Some(origin), Some(name), false) = (withheld, text, asked) {
            let (name, origin) = (name.to_owned(), origin.clone());
            hidden.push(HiddenVariable { name, why: Hidden::Credential, origin });
            continue;
        }
        match variable::hides_variable(name, value) {
            Some(why)
                if presets.has("@secrets")
                    && !asked
                    && !leads_to(value, sockets)
                    && !is_docker(name, config) =>
            {
                let name = name.to_string_lossy().into_owned();
                hidden.push(HiddenVariable { name, why, origin: Origin::Preset("@secrets") });
            }
            _ => {
                set.insert(name.clone(), value.clone());
            }
        }
    }
    let own = own(host, config);
    set.extend(own.iter().map(|(name, own)| (OsString::from(name), own.value.clone())));
    for (name, rule) in &config.env {
        if let Some(value) = &rule.value {
            set.insert(name.into(), value.clone());
        }
    }
    Environment { set, hidden, own }
}

fn is_docker(name: &OsStr, config: &Config) -> bool {
    name == "DOCKER_HOST" && config.docker.value
}

/// Returns true if a value is the path of a socket that a rule opens.
fn leads_to(value: &OsStr, sockets: &[PathBuf]) -> bool {
    sockets.iter().any(|socket| Path::new(value) == socket)
}

fn own(host: &Host, config: &Config) -> BTreeMap<String, Sourced<OsString>> {
    let path = host.var("PATH").unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut search = OsString::from(RUNTIME_DIR);
    if !path.is_empty() {
        search.push(":");
        search.push(path);
    }
    let inside = path.to_string_lossy().split(':').any(|dir| dir == RUNTIME_DIR);
    let always =
        |name: &str, value: OsString| (name.to_owned(), Sourced::new(value, Origin::Default));
    let mut own = BTreeMap::from([
        always("PATH", if inside { path.to_owned() } else { search }),
        // The repository may start above the working directory, on another mount. By default git stops its search
        // there: git(1), GIT_DISCOVERY_ACROSS_FILESYSTEM.
        always("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1".into()),
        always("XDG_RUNTIME_DIR", format!("/run/user/{}", host.uid).into()),
    ]);
    if config.tmp.value == Tmp::Private {
        own.extend([always("TMPDIR", "/tmp".into())]);
    }
    if config.network.value == Network::Allow {
        let origin = &config.network.origin;
        own.extend(
            proxy_variables()
                .map(|(name, value)| (name.to_owned(), Sourced::new(value.into(), origin.clone()))),
        );
    }
    own
}

fn names<S: Serializer>(
    set: &BTreeMap<OsString, OsString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(set.keys().map(|name| name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Hidden::{Credential, Injecting, Socket};
    use sandbox_policy::config::Request;

    fn decided(
        env: &[(&str, &str)],
        toggles: &[&str],
        asked: &[(&str, Option<&str>)],
    ) -> Environment {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let host = Host {
            cwd: Some(cwd.clone()),
            home: Some(cwd),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            exe: "/usr/bin/env".into(),
            uid: 1000,
            gid: 1000,
            inside: false,
        };
        let env = asked.iter().map(|(name, value)| ((*name).to_owned(), value.map(OsString::from)));
        let request = Request { env: env.collect(), ..Request::default() };
        let mut config = sandbox_policy::config::load(&host, &request).unwrap();
        let toggle = |name: &&str| Sourced::new((*name).to_owned(), Origin::Default);
        config.presets.extend(toggles.iter().map(toggle));
        let presets = Presets::of(&config.presets);
        decide(&host, &config, &presets, &["/run/agent.sock".into()])
    }

    #[test]
    fn decide_hides_credentials_sockets_and_injected_code() {
        for (name, value, why) in [
            ("GITHUB_TOKEN", "x", Some(Credential)),
            ("SSH_AUTH_SOCK", "/tmp/agent.1", Some(Socket)),
            ("SSH_AUTH_SOCK", "/run/agent.sock", None),
            ("LD_PRELOAD", "/tmp/x.so", Some(Injecting)),
            ("ANTHROPIC_API_KEY", "x", None),
            ("EDITOR", "vi", None),
        ] {
            let environment = decided(&[(name, value)], &[], &[]);
            let hidden = environment.hidden.iter().find(|hidden| hidden.name == name);
            assert_eq!(hidden.map(|hidden| hidden.why), why, "{name}={value}");
            assert_eq!(environment.set.contains_key(OsStr::new(name)), why.is_none(), "{name}");
        }
    }

    #[test]
    fn decide_passes_a_credential_on_when_it_is_asked_for() {
        let env = &[("GITHUB_TOKEN", "mine")][..];
        for (why, toggles, asked, expected) in [
            ("by default", &[][..], &[][..], None),
            ("without the preset", &["!@secrets"], &[], Some("mine")),
            ("let through", &[], &[("GITHUB_TOKEN", None)], Some("mine")),
            ("set", &[], &[("GITHUB_TOKEN", Some("other"))], Some("other")),
        ] {
            let environment = decided(env, toggles, asked);
            let value = environment.set.get(OsStr::new("GITHUB_TOKEN")).and_then(|v| v.to_str());
            assert_eq!(value, expected, "{why}");
        }
    }

    #[test]
    fn decide_puts_the_runtime_in_front_of_the_search_path_once() {
        for (path, expected) in [
            ("/usr/bin:/bin", "/run/agent-sandbox:/usr/bin:/bin"),
            ("", "/run/agent-sandbox:/usr/local/bin:/usr/bin:/bin"),
            ("/run/agent-sandbox:/bin", "/run/agent-sandbox:/bin"),
        ] {
            let environment = decided(&[("PATH", path), ("TMPDIR", "/var/x")], &[], &[]);
            let set = |name: &str| environment.set.get(OsStr::new(name)).and_then(|v| v.to_str());
            assert_eq!(set("PATH"), Some(expected), "{path}");
            assert_eq!(set("TMPDIR"), Some("/tmp"));
            assert_eq!(set("XDG_RUNTIME_DIR"), Some("/run/user/1000"));
        }
    }
}
