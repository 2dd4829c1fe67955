//! The log of a container: passed on while the engine has it, and kept when the container goes.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::StreamExt;

use super::super::engine::status;
use super::super::{Docker, names};
use super::{PAUSE, tokio_timeout};
use crate::backend::local::without_returns;
use crate::backend::{BackendError, Listen};
use crate::session::Session;

impl Docker {
    /// What the container says, as the engine keeps it.
    pub(in crate::backend::docker) fn listen(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let tail = how.tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string());
        let options = LogsOptionsBuilder::default()
            .follow(how.follow)
            .stdout(true)
            .stderr(true)
            .tail(&tail)
            .build();
        engine.wait(async {
            let mut logs = engine.docker.logs(&names::container(session), Some(options));
            loop {
                let goes_on = match tokio_timeout(PAUSE, logs.next()).await {
                    None => each(&[]),
                    // What a terminal shows has lines of its own kind.
                    Some(Some(Ok(LogOutput::Console { message }))) => {
                        each(&without_returns(&message))
                    }
                    Some(Some(Ok(piece))) => each(piece.as_ref()),
                    Some(None) => false,
                    Some(Some(Err(error))) if status(&error) == Some(404) => false,
                    Some(Some(Err(error))) => {
                        return Err(BackendError::new("the engine cannot show the log", error));
                    }
                };
                if !goes_on {
                    return Ok(());
                }
            }
        })
    }

    /// Keeps what a container said: the engine forgets it with the container. It is stopped first, so that its last
    /// words are in it.
    pub(in crate::backend::docker) fn save_log(
        &self,
        session: &Session,
    ) -> Result<(), BackendError> {
        if self.engine_if_any()?.is_none() || self.inspect(&names::container(session))?.is_none() {
            return Ok(());
        }
        self.stop(&names::container(session))?;
        let path = self.data_dir.log(&session.id);
        let new = path.with_extension("new");
        let saved = self.write_log(session, &new).and_then(|()| {
            self.put_log(session, &new).map_err(|error| {
                BackendError::file("cannot keep the container's log", &path, error)
            })
        });
        if saved.is_err() {
            // Half a log would fill the disk further.
            let _ = std::fs::remove_file(&new);
        }
        saved
    }

    fn write_log(&self, session: &Session, new: &Path) -> Result<(), BackendError> {
        let failed = |error| BackendError::file("cannot keep the container's log", new, error);
        let mut file = std::fs::OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        let mut file = file.open(new).map_err(failed)?;
        let mut written = Ok(());
        self.listen(session, Listen::default(), &mut |text| {
            written = file.write_all(text);
            written.is_ok()
        })?;
        written.map_err(failed)
    }

    /// Puts a log in the place of the last one, which is kept beside it.
    fn put_log(&self, session: &Session, new: &Path) -> io::Result<()> {
        let path = self.data_dir.log(&session.id);
        match std::fs::rename(&path, self.data_dir.old_log(&session.id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::rename(new, &path)
    }
}
