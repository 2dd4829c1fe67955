//! Records of running requests, to end their processes if the request process and the broker were killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::{descendants, process};

const DIR: &str = "running";

/// Record of a request process. It leads a session, in which its command stays.
#[derive(Debug)]
pub(crate) struct Running(PathBuf);

impl Running {
    /// Records this process.
    pub(crate) fn note(state: &Path) -> io::Result<Self> {
        let (dir, pid) = (state.join(DIR), process::pid());
        fs::create_dir_all(&dir)?;
        let file = dir.join(pid.to_string());
        fs::write(&file, identity(pid).unwrap_or_default())?;
        Ok(Self(file))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Ends the remaining processes of requests whose request process was killed. Running requests are left alone.
pub(crate) fn end_left_behind(state: &Path) -> io::Result<()> {
    let records = match fs::read_dir(state.join(DIR)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        records => records?,
    };
    for record in records {
        let path = record?.path();
        let leader = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        if let Some(leader) = leader.filter(|leader| *leader > 1) {
            let noted = fs::read_to_string(&path)?;
            match identity(leader).filter(|_| !process::has_ended(leader)) {
                Some(found) if found == noted => continue,
                None if noted.ends_with(&boot()) => descendants::end_session(leader)?,
                // The kernel does not reuse a pid as long as its session has members: fork(2).
                _ => {}
            }
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Returns a text that identifies a process across pid reuse and reboots.
fn identity(pid: i32) -> Option<String> {
    Some(format!("{} {}", process::start_of(pid)?, boot()))
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
