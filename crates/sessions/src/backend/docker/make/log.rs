//! Log of a container: read from the engine while it exists, and saved before its removal.

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
    /// Passes on the output of a container that the engine stores.
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
                let continues = match tokio_timeout(PAUSE, logs.next()).await {
                    None => each(&[]),
                    // Lines of a terminal end with CR LF.
                    Some(Some(Ok(LogOutput::Console { message }))) => {
                        each(&without_returns(&message))
                    }
                    Some(Some(Ok(piece))) => each(piece.as_ref()),
                    Some(None) => false,
                    Some(Some(Err(error))) if status(&error) == Some(404) => false,
                    Some(Some(Err(error))) => {
                        return Err(BackendError::new("the engine cannot read the log", error));
                    }
                };
                if !continues {
                    return Ok(());
                }
            }
        })
    }

    /// Saves the output of a container, which the engine would delete with it. Stops the container first, so that the log is
    /// complete.
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
                BackendError::file("cannot save the container's log", &path, error)
            })
        });
        if saved.is_err() {
            // The disk may be full. A partial log would keep it so.
            let _ = std::fs::remove_file(&new);
        }
        saved
    }

    fn write_log(&self, session: &Session, new: &Path) -> Result<(), BackendError> {
        let failed = |error| BackendError::file("cannot save the container's log", new, error);
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

    /// Replaces the session's log with a new one, and keeps the previous one as its old log.
    fn put_log(&self, session: &Session, new: &Path) -> io::Result<()> {
        let path = self.data_dir.log(&session.id);
        match std::fs::rename(&path, self.data_dir.old_log(&session.id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::rename(new, &path)
    }
}
