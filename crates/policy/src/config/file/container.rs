//! Values of container sessions. Each is checked when it is parsed.

use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};

use super::word::{Invalid, text, word};
use crate::text::shown;

/// The name of an image, with its registry, tag or digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageName(String);

/// The name of a container runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeName(String);

/// The agent's program: a name or a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramText(String);

/// The URL of a repository, or the path of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepositoryText(String);

/// A commit, branch or tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RevisionText(String);

/// The user of an SSH connection to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SshUser(String);

/// The host of an SSH connection: a name or an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SshHost(String);

word!(ImageName RuntimeName ProgramText RepositoryText RevisionText SshUser SshHost);
text!(ImageName RuntimeName ProgramText RepositoryText RevisionText SshUser SshHost AgentUser);

/// The user of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentUser {
    /// The default user, with the uid of the caller.
    Default,
    /// A user of the image.
    Named(String),
    /// A uid and a gid.
    Ids(u32, u32),
}

/// Returns true for a text of these characters that starts with a letter or digit.
fn is_plain(text: &str, others: &[u8]) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(plain)
}

impl ImageName {
    fn check(name: &str) -> Result<(), Invalid> {
        if is_plain(name, b"._-/:@+") {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid image name {}", shown(name)))
            .hint("write a name such as `sandbox-image` or `registry.example/image:tag`"))
    }
}

impl RuntimeName {
    fn check(name: &str) -> Result<(), Invalid> {
        if is_plain(name.trim_start_matches('/'), b"._-/+") {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid runtime name {}", shown(name)))
            .hint("write a runtime of the engine, such as `runsc`"))
    }
}

impl ProgramText {
    fn check(program: &str) -> Result<(), Invalid> {
        if program.trim().is_empty() {
            return Err(Invalid::new("the program is empty"));
        }
        if program.contains('\0') {
            return Err(Invalid::new(format!(
                "the program {} contains a NUL byte",
                shown(program)
            )));
        }
        Ok(())
    }
}

/// Returns true for a text that git does not take for an option.
fn is_argument(text: &str) -> bool {
    !text.trim().is_empty() && !text.starts_with('-') && !text.contains(char::is_control)
}

impl RepositoryText {
    fn check(text: &str) -> Result<(), Invalid> {
        if is_argument(text) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid repository {}", shown(text)))
            .hint("write a URL such as `https://github.com/owner/project`"))
    }
}

impl RevisionText {
    fn check(text: &str) -> Result<(), Invalid> {
        if is_argument(text) && !text.contains(char::is_whitespace) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid commit {}", shown(text)))
            .hint("write a commit, a branch or a tag"))
    }
}

impl SshUser {
    fn check(name: &str) -> Result<(), Invalid> {
        if is_plain(name, b"._-") {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid SSH user {}", shown(name)))
            .hint("use letters, digits, `.`, `_` and `-`"))
    }
}

impl SshHost {
    fn check(name: &str) -> Result<(), Invalid> {
        if is_plain(name, b"._-") || name.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid SSH host {}", shown(name)))
            .hint("write a name of letters, digits, `.`, `_` and `-`, or an address"))
    }

    /// Returns true for an address, which needs no name resolution.
    pub fn is_address(&self) -> bool {
        self.0.parse::<IpAddr>().is_ok()
    }
}

impl AgentUser {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let refused = |why: &str| {
            Err(Invalid::new(format!("the agent cannot be {}: {why}", shown(text)))
                .hint("use a number such as `1000`, or a user name of the image"))
        };
        let (name, group) = text.split_once(':').unwrap_or((text, ""));
        match (name.parse::<u32>(), group.parse::<u32>()) {
            (Ok(0), _) => refused("it is root"),
            (Ok(uid), Ok(gid)) => Ok(Self::Ids(uid, gid)),
            (Ok(uid), Err(_)) if !text.contains(':') => Ok(Self::Ids(uid, uid)),
            _ if name == "root" => refused("it is root"),
            _ if !is_user_name(text) => refused("it is neither a user name nor a uid"),
            _ if text == "agent" => Ok(Self::Default),
            _ => Ok(Self::Named(text.to_owned())),
        }
    }
}

fn is_user_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(letters)
}

impl<'de> Deserialize<'de> for AgentUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(Invalid::into_serde)
    }
}
