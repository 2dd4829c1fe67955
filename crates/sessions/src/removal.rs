//! Removal of sessions: those that are kept up, with their layers, and those that only have a
//! layer.

use std::path::Path;

use sandbox_layers::review::{self, Summary};
use sandbox_layers::session::{
    LayerSession, LayerSessions, Lock, RunState, Selector, SessionError,
};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::error::ControlError;
use crate::service::Service;
use crate::session::{Matching, Session};

/// Error of a removal.
#[derive(Debug, Error)]
pub enum RemovalError {
    /// The database, a backend or a layer failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The session has changes that the user did not agree to lose.
    #[error("session `{name}` has changes that were not applied ({work})")]
    Unapplied {
        /// The session.
        name: String,
        /// Summary of its changes.
        work: String,
    },
}

impl From<SessionError> for RemovalError {
    fn from(error: SessionError) -> Self {
        Self::Control(error.into())
    }
}

impl Hint for RemovalError {
    fn code(&self) -> &'static str {
        match self {
            Self::Control(error) => error.code(),
            Self::Unapplied { .. } => "unapplied",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Control(error) => error.hint(),
            Self::Unapplied { name, .. } => Some(format!(
                "`agent-sandbox diff -s {name}` shows them, `agent-sandbox rm --yes {name}` discards them"
            )),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Control(error) => error.exit_code(),
            Self::Unapplied { .. } => ExitCode::Failure,
        }
    }
}

/// Sessions to remove.
pub struct Removal<'s> {
    service: Option<&'s Service>,
    layers: &'s LayerSessions,
    up: Vec<Session>,
    kept: Vec<(LayerSession, Lock)>,
    losses: Vec<Loss>,
}

/// Changes that are lost with a session.
struct Loss {
    id: String,
    text: String,
}

impl Loss {
    fn of(layer: &LayerSession) -> Option<Self> {
        let record = layer.record();
        let text = format!("`{}` ({})", record.name, review::unapplied(layer)?);
        Some(Self { id: record.id.clone(), text })
    }
}

/// Removed session.
pub struct Removed {
    /// Name.
    pub name: String,
    /// Changes and their size, if it had a layer.
    pub layer: Option<(Option<Summary>, u64)>,
}

impl Removed {
    fn layer(layer: &LayerSession) -> Self {
        let changes = (Summary::of(layer).ok(), layer.size());
        Self { name: layer.record().name.clone(), layer: Some(changes) }
    }
}

/// Session that a name refers to.
enum Named {
    Up(Session),
    Layered(LayerSession),
}

impl<'s> Removal<'s> {
    /// Finds and locks all named sessions. Removes nothing yet.
    pub fn plan(
        names: &[String],
        directory: &Path,
        service: Option<&'s Service>,
        layers: &'s LayerSessions,
    ) -> Result<Self, RemovalError> {
        let (mut up, mut kept): (Vec<Session>, Vec<LayerSession>) = (Vec::new(), Vec::new());
        for name in names {
            match meant(name, directory, service, layers)? {
                Named::Up(session) if up.contains(&session) => {}
                Named::Up(session) => up.push(session),
                Named::Layered(layer) => {
                    if !kept.iter().any(|other| other.record().id == layer.record().id) {
                        kept.push(layer);
                    }
                }
            }
        }
        kept.retain(|layer| !up.iter().any(|up| is_layer(layer, up)));
        let kept = { kept }.into_iter().map(|layer| locked(layer, service));
        let kept = kept.collect::<Result<Vec<_>, _>>()?;
        let mut losses = Vec::new();
        for session in &up {
            losses.extend(own_layer(session, layers)?.as_ref().and_then(Loss::of));
        }
        losses.extend(kept.iter().filter_map(|(layer, _)| Loss::of(layer)));
        Ok(Self { service, layers, up, kept, losses })
    }

    /// Describes the changes that would be lost.
    pub fn losses(&self) -> Vec<&str> {
        self.losses.iter().map(|loss| loss.text.as_str()).collect()
    }

    /// Removes the sessions. Changes that [`losses`](Self::losses) did not list are kept, unless
    /// `all` is set.
    pub fn carry_out(
        self,
        all: bool,
        removed: &mut dyn FnMut(Removed),
    ) -> Result<(), RemovalError> {
        if let Some(service) = self.service {
            for session in &self.up {
                self.remove_up(session, service, all, removed)?;
            }
        }
        for (layer, lock) in self.kept {
            remove_layer(self.layers, &layer, lock, removed)?;
        }
        Ok(())
    }

    fn remove_up(
        &self,
        session: &Session,
        service: &Service,
        all: bool,
        removed: &mut dyn FnMut(Removed),
    ) -> Result<(), RemovalError> {
        service.end(session)?;
        let layer = own_layer(session, self.layers)?;
        let layer = layer.map(|layer| locked(layer, Some(service))).transpose()?;
        let name = session.name.as_str().to_owned();
        let Some((layer, lock)) = layer else {
            service.remove(session)?;
            removed(Removed { name, layer: None });
            return Ok(());
        };
        let agreed = all || self.losses.iter().any(|loss| loss.id == layer.record().id);
        if let Some(work) = review::unapplied(&layer).filter(|_| !agreed) {
            return Err(RemovalError::Unapplied { name, work });
        }
        service.remove(session)?;
        remove_layer(self.layers, &layer, lock, removed)
    }
}

fn remove_layer(
    layers: &LayerSessions,
    layer: &LayerSession,
    lock: Lock,
    removed: &mut dyn FnMut(Removed),
) -> Result<(), RemovalError> {
    let told = Removed::layer(layer);
    layers.remove(layer, lock)?;
    removed(told);
    Ok(())
}

/// Locks a layer that no process uses.
fn locked(
    mut layer: LayerSession,
    service: Option<&Service>,
) -> Result<(LayerSession, Lock), RemovalError> {
    release_orphan(&mut layer, service)?;
    let lock = layer.lock()?;
    Ok((layer, lock))
}

/// Finds the session with this name, else the only one of either kind with this prefix.
fn meant(
    name: &str,
    directory: &Path,
    service: Option<&Service>,
    layers: &LayerSessions,
) -> Result<Named, ControlError> {
    let up = |matching| match service.map(|service| service.find(name, matching)) {
        None | Some(Err(ControlError::Unknown(_))) => Ok(None),
        Some(found) => found.map(Some),
    };
    if let Some(session) = up(Matching::Name)? {
        return Ok(Named::Up(session));
    }
    let kept = layers.find(&Selector::named(directory, name));
    let is_whole = |kept: &LayerSession| kept.record().name == name || kept.record().id == name;
    match (kept, up(Matching::Prefix)?) {
        (Ok(kept), None) => Ok(Named::Layered(kept)),
        (Ok(kept), Some(_)) if is_whole(&kept) => Ok(Named::Layered(kept)),
        (Ok(kept), Some(session)) if !is_layer(&kept, &session) => {
            let matches = [session.name.as_str(), kept.record().name.as_str()];
            let matches = matches.map(|name| format!("`{name}`")).to_vec();
            Err(ControlError::Ambiguous { word: name.into(), matches })
        }
        (Ok(_) | Err(SessionError::Unknown(_)), Some(session)) => Ok(Named::Up(session)),
        (Err(error), _) => Err(error.into()),
    }
}

/// Returns true when `layer` is the layer of `up`.
fn is_layer(layer: &LayerSession, up: &Session) -> bool {
    let record = layer.record();
    up.cow && record.name == up.name.as_str() && record.project == up.project
}

/// Releases a layer whose session no longer exists. Returns true if it did.
pub(crate) fn release_orphan(
    layer: &mut LayerSession,
    service: Option<&Service>,
) -> Result<bool, SessionError> {
    let RunState::Held(holder) = layer.state() else { return Ok(false) };
    let find = |service: &Service| service.find(&holder, Matching::Name);
    if !matches!(service.map(find), None | Some(Err(ControlError::Unknown(_)))) {
        return Ok(false);
    }
    layer.release(&holder)?;
    Ok(true)
}

/// Returns the layer of a session, if it has one.
fn own_layer(
    session: &Session,
    layers: &LayerSessions,
) -> Result<Option<LayerSession>, SessionError> {
    if !session.cow {
        return Ok(None);
    }
    layers.of(&session.project, session.name.as_str())
}
