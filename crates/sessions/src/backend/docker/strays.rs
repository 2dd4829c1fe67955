//! Strays: containers, volumes and directories that carry this data directory's label and are not recorded.

use bollard::query_parameters::ListVolumesOptionsBuilder;
use sandbox_bridge::process::end_broker;

use super::names::{self, PREFIX};
use super::{Docker, remove_dir, render};
use crate::backend::{BackendError, RecordLookup, Stray};
use crate::session::{BackendKind, Session};
use crate::store::ThingKind;

/// Prefix of a stray volume's identity.
const STRAY_VOLUME: &str = "volumes/";

impl Docker {
    pub(super) fn sweep_containers(&self, session: &Session) -> Result<(), BackendError> {
        if self.engine_if_any()?.is_none() {
            return Ok(());
        }
        if self.inspect(&names::container(session))?.is_some() {
            self.remove_container(&names::container(session))?;
        }
        if session.cow { self.remove_volumes_of(&names::container(session)) } else { Ok(()) }
    }

    pub(super) fn list_strays(
        &self,
        record: &dyn RecordLookup,
    ) -> Result<Vec<Stray>, BackendError> {
        let mut strays = Vec::new();
        let boxes = std::fs::read_dir(self.data_dir.path().join("boxes")).into_iter().flatten();
        for entry in boxes.flatten() {
            let id = entry.file_name().to_string_lossy().into_owned();
            if !record.session(&id) {
                strays.push(Stray {
                    backend: BackendKind::Docker,
                    identity: format!("boxes/{id}"),
                    session: id,
                    thing: None,
                });
            }
        }
        strays.extend(self.stray_containers(record)?);
        // A volume can be removed only after its container.
        strays.extend(self.stray_volumes(record)?);
        Ok(strays)
    }

    pub(super) fn remove_one_stray(&self, stray: &Stray) -> Result<(), BackendError> {
        if let Some(id) = stray.identity.strip_prefix("boxes/") {
            let dir = self.data_dir.path().join("boxes").join(id);
            end_broker(&dir).map_err(|error| {
                BackendError::new("cannot stop the broker of host commands", error)
            })?;
            return remove_dir(&dir);
        }
        if let Some(volume) = stray.identity.strip_prefix(STRAY_VOLUME) {
            return self.remove_volume(volume);
        }
        self.remove_container(&stray.identity)?;
        self.remove_volumes_of(&stray.identity)
    }

    /// Lists unrecorded containers.
    fn stray_containers(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        let found = self.own_containers()?.unwrap_or_default().into_keys();
        let stray = found.filter_map(|name| {
            let session = name.trim_start_matches(PREFIX).to_owned();
            (!record.thing(&session, ThingKind::Container, &name)).then_some(Stray {
                backend: BackendKind::Docker,
                identity: name.clone(),
                session,
                thing: Some((ThingKind::Container, name)),
            })
        });
        Ok(stray.collect())
    }

    /// Returns the volumes of this data directory, as session id and volume name.
    fn own_volumes(&self) -> Result<Vec<(String, String)>, BackendError> {
        let Some(engine) = self.engine_if_any()? else { return Ok(Vec::new()) };
        let options = ListVolumesOptionsBuilder::default().filters(&self.mark()).build();
        let found = engine.call("list its volumes", engine.docker.list_volumes(Some(options)))?;
        let own = found.volumes.unwrap_or_default().into_iter().filter_map(|found| {
            let id = found.labels.get(render::SESSION)?.clone();
            found.name.starts_with(&format!("{PREFIX}{id}-layer-")).then_some((id, found.name))
        });
        Ok(own.collect())
    }

    /// Lists unrecorded volumes.
    fn stray_volumes(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        let stray = self.own_volumes()?.into_iter().filter_map(|(session, volume)| {
            (!record.thing(&session, ThingKind::Volume, &volume)).then(|| Stray {
                backend: BackendKind::Docker,
                identity: format!("{STRAY_VOLUME}{volume}"),
                session,
                thing: Some((ThingKind::Volume, volume)),
            })
        });
        Ok(stray.collect())
    }
}
