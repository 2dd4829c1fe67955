//! Log of refused connections for `agent-sandbox blocked`: one line for each host and rule, with the program.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sandbox_policy::network::Refusal;
use sandbox_policy::network::blocked::Blocked;

/// Limit of lines, so that a program that looks up random names cannot fill the disk.
const MOST: usize = 1000;

/// Log of refusals.
#[derive(Debug)]
pub(super) struct Record {
    first: i32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    seen: HashSet<(String, Option<u16>, String)>,
}

impl Record {
    /// Opens a log, optionally backed by a file. `first` is the first process of the sandbox.
    pub(super) fn open(path: Option<&Path>, first: i32) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = path.map(open).transpose()?;
        Ok(Self { first, state: Mutex::new(State { file, seen: HashSet::new() }) })
    }

    /// Writes a refusal before the client sees it. `port` is the client's port.
    pub(super) fn write(&self, refusal: &Refusal, port: Option<u16>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (refusal.host.clone(), refusal.port, refusal.rule.clone());
        if state.seen.len() >= MOST || !state.seen.insert(key) {
            return;
        }
        let by = port.and_then(|port| client_program(self.first, port));
        let blocked = Blocked {
            at: u64::try_from(sandbox_linux::clock::wall().0).unwrap_or(0),
            by,
            refusal: refusal.clone(),
        };
        if let Some(file) = &mut state.file
            && let Ok(mut line) = serde_json::to_string(&blocked)
        {
            line.push('\n');
            // A full disk must not turn a refusal into an error that allows the connection.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

/// Returns the name of the program with this port on the sandbox's loopback, if it can be found.
fn client_program(first: i32, port: u16) -> Option<String> {
    let socket = ["tcp", "tcp6"].iter().find_map(|table| {
        let text = fs::read_to_string(format!("/proc/{first}/net/{table}")).ok()?;
        text.lines().skip(1).find_map(|line| inode(line, port)).map(str::to_owned)
    })?;
    let link = format!("socket:[{socket}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let has_it = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.into_iter()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
    };
    let process = processes.map(|entry| entry.path()).find(|process| has_it(process))?;
    Some(fs::read_to_string(process.join("comm")).ok()?.trim_end().to_owned())
}

/// Returns the inode of the socket with a port, from a line of `/proc/net/tcp` (`proc_net_tcp(5)`).
fn inode(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, own) = fields.get(1)?.rsplit_once(':')?;
    let number = *fields.get(9)?;
    (u16::from_str_radix(own, 16) == Ok(port) && number != "0").then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asker_is_the_process_that_has_the_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let port = stream.local_addr().unwrap().port();
        assert_eq!(client_program(me, port).as_deref(), Some(own.trim_end()));
        drop((stream, listener));
    }

    #[test]
    fn record_has_each_refusal_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let record = Record::open(Some(&path), 1).unwrap();
        let refusal = |host: &str| Refusal {
            host: host.into(),
            port: Some(443),
            rule: "r".into(),
            allow_with: None,
        };
        for host in ["a.io", "b.io", "a.io"] {
            record.write(&refusal(host), None);
        }
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }
}
