//! Words that are checked when they are parsed: presets, paths, hosts and names.
//!
//! Files and flags use the same types, so they accept the same words.

use sandbox_protocol::Hint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalog::{host_preset, host_presets};
use crate::network::HostPattern;
use crate::text::{did_you_mean, shown};
use crate::variable::{Hidden, hides_variable};

/// The presets of `filesystem.presets`. `!` turns one off.
pub const PRESETS: [&str; 11] = [
    "@all",
    "@base",
    "@secrets",
    "@caches",
    "@agents",
    "@git",
    "@git-strict",
    "@lint/all",
    "@lint/ts",
    "@lint/go",
    "@lint/python",
];

/// Returns the line without a leading `!`.
pub(in crate::config) fn unmarked(line: &str) -> &str {
    line.strip_prefix('!').unwrap_or(line)
}

/// A word that is invalid for its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Invalid {
    /// The message.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Invalid {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Converts to a serde error. Custom errors of serde are text, so the hint becomes a second line.
    pub(super) fn into_serde<E: de::Error>(self) -> E {
        match self.hint {
            Some(hint) => E::custom(format_args!("{}\n{hint}", self.message)),
            None => E::custom(self.message),
        }
    }
}

/// A line of `filesystem.presets`: `@name` or `!@name`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct PresetToggle(String);

/// A line of a list of paths: a path or glob, or `!` and the one to remove.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct PathText(String);

/// A line of a list of hosts: a pattern or a preset, or `!` and the one to remove.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct HostText(String);

/// The name of a command, as searched in `PATH`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct CommandName(String);

/// The name of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(transparent)]
pub struct EnvName(String);

/// The path of a file or directory. Relative paths are relative to the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilePath(String);

/// A path on the host that is absolute or starts with `~/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostPath(String);

/// An absolute path inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InsidePath(String);

/// A free text on one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Label(String);

impl FilePath {
    fn check(path: &str) -> Result<(), Invalid> {
        if path.is_empty() || path.contains('\0') {
            return Err(Invalid::new(format!("invalid path {}", shown(path))));
        }
        Ok(())
    }
}

impl HostPath {
    fn check(path: &str) -> Result<(), Invalid> {
        FilePath::check(path)?;
        if path.starts_with('/') || path == "~" || path.starts_with("~/") {
            return Ok(());
        }
        Err(Invalid::new(format!("the host path {} is not absolute", shown(path)))
            .hint("start it with `/` or `~/`, or use `shared_dirs`, which accepts relative paths"))
    }
}

impl InsidePath {
    fn check(path: &str) -> Result<(), Invalid> {
        FilePath::check(path)?;
        if path.starts_with('/') && path.split('/').all(|part| part != "..") {
            return Ok(());
        }
        Err(Invalid::new(format!(
            "the container path {} is not absolute or contains `..`",
            shown(path)
        )))
    }
}

impl Label {
    fn check(text: &str) -> Result<(), Invalid> {
        if text.trim().is_empty() || text.contains(char::is_control) {
            return Err(Invalid::new(format!("invalid name {}", shown(text))));
        }
        Ok(())
    }
}

impl PresetToggle {
    fn check(text: &str) -> Result<(), Invalid> {
        let name = text.strip_prefix('!').unwrap_or(text);
        if PRESETS.contains(&name) {
            return Ok(());
        }
        let sign = if text.starts_with('!') { "!" } else { "" };
        let asked = if name.starts_with('@') { name.to_owned() } else { format!("@{name}") };
        let near = crate::text::nearest(&asked, PRESETS);
        Err(Invalid {
            message: format!("unknown preset {}", shown(text)),
            hint: Some(near.map_or_else(
                || format!("the presets are {}", PRESETS.join(" ")),
                |near| format!("did you mean `{sign}{near}`?"),
            )),
        })
    }
}

impl PathText {
    fn check(text: &str) -> Result<(), Invalid> {
        let path = text.strip_prefix('!').unwrap_or(text);
        if path.trim().is_empty() {
            return Err(Invalid::new("the path is empty"));
        }
        if path.contains('\0') {
            return Err(Invalid::new(format!("the path {} contains a NUL byte", shown(text))));
        }
        if PRESETS.contains(&path) {
            return Err(Invalid::new(format!("{} is a preset, not a path", shown(text))).hint(
                format!("put it into `filesystem.presets`, or write `./{path}` for a file with this name"),
            ));
        }
        Ok(())
    }
}

impl HostText {
    fn check(text: &str) -> Result<(), Invalid> {
        let host = text.strip_prefix('!').unwrap_or(text);
        if !host.starts_with('@') {
            let pattern = host.parse::<HostPattern>();
            return pattern
                .map(drop)
                .map_err(|error| Invalid { message: error.to_string(), hint: error.hint() });
        }
        if host_preset(host).is_some() {
            return Ok(());
        }
        let known = || host_presets().map(|preset| preset.name);
        let all = || format!("the host presets are {}", known().collect::<Vec<_>>().join(" "));
        Err(Invalid::new(format!("unknown host preset {}", shown(text)))
            .hint(did_you_mean(host, known()).unwrap_or_else(all)))
    }
}

impl CommandName {
    fn check(name: &str) -> Result<(), Invalid> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(Invalid::new(format!("invalid command name {}", shown(name)))
                .hint("write the name of the command without a path"));
        }
        Ok(())
    }
}

impl EnvName {
    fn check(name: &str) -> Result<(), Invalid> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Invalid::new(format!("invalid variable name {}", shown(name))));
        }
        Ok(())
    }
}

/// Variables that change which programs run or where programs search, in addition to those that `@secrets` hides
/// because they inject code. `*` at the end matches any text.
const DECIDING: &[&str] = &[
    "PATH",
    "HOME",
    "SHELL",
    "IFS",
    "USER",
    "LOGNAME",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "CDPATH",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_*",
    "ZDOTDIR",
    "TERMINFO",
    "TERMCAP",
    "XDG_*",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "MANPAGER",
    "LESSKEYIN",
    "VIMINIT",
    "GVIMINIT",
    "EXINIT",
    "INPUTRC",
    "LD_*",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "GTK_MODULES",
    "GTK_PATH",
    "GDK_PIXBUF_MODULE_FILE",
    "GIO_EXTRA_MODULES",
    "GIO_MODULE_DIR",
    "QT_PLUGIN_PATH",
    "PYTHON*",
    "VIRTUAL_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_*",
    "npm_config_*",
    "PERL5LIB",
    "PERLLIB",
    "RUBYLIB",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JAVA_HOME",
    "CLASSPATH",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "LUA_PATH*",
    "LUA_CPATH*",
    "LUA_INIT*",
    "DOTNET_STARTUP_HOOKS",
    "DOTNET_ROOT",
    "CORECLR_*",
    "BUN_OPTIONS",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "GOFLAGS",
    "GOROOT",
    "GOPATH",
    "CARGO_HOME",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "MAKEFLAGS",
    "CC",
    "CXX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "DOCKER_*",
    "CONTAINER_HOST",
    "KUBECONFIG",
    "AGENT_SANDBOX*",
];

impl EnvName {
    /// Refuses a variable that changes how programs run, or that the sandbox sets.
    pub(crate) fn carries_a_value(&self) -> Result<(), Invalid> {
        let name = self.0.as_str();
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(letters) {
            return Err(Invalid::new(format!("invalid variable name {}", shown(name)))
                .hint("use letters, digits and `_`, starting with a letter or `_`"));
        }
        let listed = |list: &[&str]| {
            list.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *known,
            })
        };
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"];
        let is_proxy = proxies.contains(&name.to_ascii_uppercase().as_str())
            || crate::network::proxy_variables().any(|(proxy, _)| proxy == name);
        let hidden = hides_variable(name.as_ref(), "".as_ref());
        let injects = matches!(hidden, Some(Hidden::Injecting | Hidden::Socket));
        if listed(DECIDING) || injects || is_proxy {
            return Err(Invalid::new(format!(
                "the variable {} changes how programs run and cannot hold a secret or an address",
                shown(name)
            ))
            .hint(
                "use the variable that the agent reads its key from, such as \"ANTHROPIC_API_KEY\"",
            ));
        }
        Ok(())
    }
}

macro_rules! word {
    ($($name:ident)*) => {$(
        impl $name {
            /// Checks the text.
            pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                Self::check(&text)?;
                Ok(Self(text))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(Invalid::into_serde)
            }
        }
    )*};
}

pub(super) use word;

/// In the schema, each of these types is a string.
macro_rules! text {
    ($($name:ident)*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    )*};
}

pub(super) use text;

word!(PresetToggle PathText HostText CommandName EnvName FilePath HostPath InsidePath Label);
text!(FilePath HostPath InsidePath Label);

/// A boolean or a word.
pub(super) enum Scalar {
    Switch(bool),
    Word(String),
}

/// Reads a boolean or a word, for types that can be written as either.
pub(super) fn scalar<'de, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
) -> Result<Scalar, D::Error> {
    struct Visitor(&'static str);

    impl de::Visitor<'_> for Visitor {
        type Value = Scalar;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }

        fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
            Ok(Scalar::Switch(value))
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<Scalar, E> {
            Ok(Scalar::Word(word.to_owned()))
        }
    }

    deserializer.deserialize_any(Visitor(expecting))
}

/// Returns a serde error for an unknown word, with the nearest known word as the hint.
pub(super) fn unknown<E: de::Error>(what: &str, word: &str, known: &[&str]) -> E {
    Invalid {
        message: format!("unknown {what} {}", shown(word)),
        hint: did_you_mean(word, known.iter().copied()),
    }
    .into_serde()
}
