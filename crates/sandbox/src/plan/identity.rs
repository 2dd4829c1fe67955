//! User that a command runs as if root starts it.

use std::path::Path;

use serde::Serialize;

use sandbox_policy::host::Host;

/// User and group ID that root has inside.
pub(crate) const AGENT_ID: u32 = 1000;

/// User database in which root's command appears as `agent`, an ordinary user. Its files belong to root outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    #[serde(skip)]
    passwd: Vec<u8>,
    #[serde(skip)]
    group: Vec<u8>,
}

impl Identity {
    /// Returns the host's user database with `agent` in front; `None` unless the caller is root.
    pub(super) fn of(host: &Host) -> Option<Self> {
        if host.uid != 0 {
            return None;
        }
        let home = host.home.as_deref().unwrap_or(Path::new("/"));
        let with = |line: String, file: &str| {
            let mut content = line.into_bytes();
            content.extend(std::fs::read(file).unwrap_or_default());
            content
        };
        let passwd = format!("agent:x:{AGENT_ID}:{AGENT_ID}:agent:{}:/bin/sh\n", home.display());
        Some(Self {
            passwd: with(passwd, "/etc/passwd"),
            group: with(format!("agent:x:{AGENT_ID}:\n"), "/etc/group"),
        })
    }

    /// Returns the files to replace, with their content.
    pub fn files(&self) -> [(&'static str, &[u8]); 2] {
        [("/etc/passwd", &self.passwd), ("/etc/group", &self.group)]
    }
}
