//! The environment of the command: what is passed on, what is hidden, what is set.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::config::{Config, Origin, Tmp};
use crate::host::{Host, RUNTIME_DIR};
use crate::preset::{self, Hidden, Presets};

/// The variables of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// What the command sees. Not part of any output: values are the user's own.
    #[serde(serialize_with = "names")]
    pub set: BTreeMap<OsString, OsString>,
    /// What it does not see.
    pub hidden: Vec<HiddenVariable>,
    /// What differs from the caller's environment because the sandbox sets it.
    #[serde(skip)]
    pub own: BTreeMap<String, OsString>,
}

/// A variable that is not passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HiddenVariable {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: Hidden,
    /// The rule.
    pub origin: Origin,
}

/// Decides about every variable once.
pub(super) fn decide(
    host: &Host,
    config: &Config,
    presets: &Presets,
    sockets: &[PathBuf],
) -> Environment {
    let mut set = BTreeMap::new();
    let mut hidden = Vec::new();
    for (name, value) in &host.env {
        let asked = name.to_str().and_then(|name| config.env.get(name)).is_some();
        match preset::hides_variable(name, value) {
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
    set.extend(own.iter().map(|(name, value)| (OsString::from(name), value.clone())));
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

/// Whether a variable names a socket that was opened on purpose.
fn leads_to(value: &OsStr, sockets: &[PathBuf]) -> bool {
    sockets.iter().any(|socket| Path::new(value) == socket)
}

fn own(host: &Host, config: &Config) -> BTreeMap<String, OsString> {
    let path = host.var("PATH").unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut search = OsString::from(RUNTIME_DIR);
    if !path.is_empty() {
        search.push(":");
        search.push(path);
    }
    let inside = path.to_string_lossy().split(':').any(|dir| dir == RUNTIME_DIR);
    let mut own = BTreeMap::from([
        ("PATH".to_owned(), if inside { path.to_owned() } else { search }),
        ("XDG_RUNTIME_DIR".to_owned(), format!("/run/user/{}", host.uid).into()),
    ]);
    if config.tmp.value == Tmp::Private {
        own.insert("TMPDIR".to_owned(), "/tmp".into());
    }
    own
}

fn names<S: Serializer>(
    set: &BTreeMap<OsString, OsString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(set.keys().map(|name| name.to_string_lossy()))
}
