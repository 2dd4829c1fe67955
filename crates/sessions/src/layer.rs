//! Copy-on-write layer of a session. It has the session's name.

use sandbox_layers::review;
use sandbox_layers::session::{LayerSession, LayerSessions};

use crate::error::ControlError;
use crate::service::Service;
use crate::session::Session;

impl Service {
    /// Returns the layer of a session, if it has one.
    pub fn layer(&self, session: &Session) -> Result<Option<LayerSession>, ControlError> {
        Ok(self.own_layer(session)?.map(|(_, layer)| layer))
    }

    fn own_layer(
        &self,
        session: &Session,
    ) -> Result<Option<(LayerSessions, LayerSession)>, ControlError> {
        if !session.cow {
            return Ok(None);
        }
        let layers = LayerSessions::at(self.data_dir().path());
        layers.clear_mounts();
        let layer = layers.of(&session.project, session.name.as_str())?;
        Ok(layer.map(|layer| (layers, layer)))
    }

    /// Summarises the changes that were not applied to the project yet.
    pub fn unapplied(&self, session: &Session) -> Result<Option<String>, ControlError> {
        Ok(self.layer(session)?.as_ref().and_then(review::unapplied))
    }

    /// Removes the layer of a session that is being removed.
    pub(crate) fn remove_layer(&self, session: &Session) -> Result<(), ControlError> {
        if let Some((layers, layer)) = self.own_layer(session)? {
            let lock = layer.lock()?;
            layers.remove(&layer, lock)?;
        }
        Ok(())
    }
}
