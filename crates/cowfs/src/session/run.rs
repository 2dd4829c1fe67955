//! A command in a session: on record before it begins, and what it changed is compared with the
//! base when it has ended.

use std::path::PathBuf;

use super::disk;
use super::error::SessionError;
use super::lock::Lock;
use super::record::Run;
use super::store::Session;

/// A path of the host that changed while a command ran over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shifted {
    /// The path on the host.
    pub path: PathBuf,
}

impl Session {
    /// Puts a run on record. Whoever begins holds the lock. A run before it that was killed is
    /// brought to its end first.
    pub fn begin(&mut self, lock: &Lock, program: &str) -> Result<Vec<Shifted>, SessionError> {
        let shifted = self.settle(lock)?;
        let run = Run {
            program: program.to_owned(),
            started: sandbox_linux::clock::wall(),
            pid: sandbox_linux::process::pid(),
            ended: None,
            code: None,
        };
        self.update(|record| record.runs.push(run))?;
        Ok(shifted)
    }

    /// Ends the run that [`Session::begin`] put on record: what its changes stand on is recorded,
    /// and what shifted under them is returned.
    pub fn finish(&mut self, _lock: &Lock, code: Option<u8>) -> Result<Vec<Shifted>, SessionError> {
        let Some(since) = self.record().runs.last().map(|run| run.started) else {
            return Ok(Vec::new());
        };
        let shifted = self.record_base(since)?;
        self.update(|record| {
            if let Some(run) = record.runs.last_mut() {
                (run.ended, run.code) = (Some(disk::now()), code);
            }
        })?;
        Ok(shifted)
    }

    /// Brings a killed run to its end.
    pub fn settle(&mut self, lock: &Lock) -> Result<Vec<Shifted>, SessionError> {
        match self.record().runs.last() {
            Some(run) if run.ended.is_none() => self.finish(lock, None),
            _ => Ok(Vec::new()),
        }
    }

    /// Records the base of every changed path that is not on record yet.
    fn record_base(&self, since: (i64, u32)) -> Result<Vec<Shifted>, SessionError> {
        let mut shifted = Vec::new();
        for number in 0..self.record().roots.len() {
            let base = self.base_dir(number)?;
            let entries = self.layer(number)?.entries()?;
            let mut record = self.base_record(number)?;
            for entry in entries {
                if record.take(base, &entry.path, since)? {
                    shifted.push(Shifted { path: base.join(entry.path.as_path()) });
                }
            }
            record.write(number)?;
        }
        Ok(shifted)
    }
}
