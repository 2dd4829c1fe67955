//! The session that a request comes to, decided before anything is made.

use std::path::PathBuf;

use sandbox_launch::layers;
use sandbox_layers::review;
use sandbox_layers::session::LayerEngine;
use sandbox_policy::Host;
use sandbox_policy::config::{Config, Cow, CowEngine, Origin, Request, Sourced};

use super::Service;
use crate::backend::{Notice, Planned};
use crate::error::ControlError;
use crate::session::{Name, NewSession, Session, Wanted};

/// Request that was decided.
pub struct Decision {
    /// The session that it comes to.
    pub new: NewSession,
    /// How its backend would make it.
    pub planned: Box<dyn Planned>,
    /// Remarks for the user, before anything is made.
    pub notices: Vec<Notice>,
}

/// Makes the paths of a request absolute. A supervisor works elsewhere, where relative ones would mean something else.
pub fn absolute(mut request: Request, host: &Host) -> Result<Request, ControlError> {
    let here = host.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));
    let cwd = here.join(request.cwd.take().unwrap_or_default());
    let cwd = std::fs::canonicalize(&cwd)
        .map_err(|error| ControlError::Directory { path: cwd.clone(), why: error.to_string() })?;
    request.config = request.config.map(|file| here.join(file));
    for path in [Some(cwd.as_path()), request.config.as_deref()].into_iter().flatten() {
        if path.to_str().is_none() {
            return Err(ControlError::NotText(path.to_path_buf()));
        }
    }
    request.cwd = Some(cwd);
    Ok(request)
}

/// Returns the request that a session was brought up by. It accepts the contents that were accepted then, and no
/// others.
pub fn recorded(session: &Session) -> Result<Request, ControlError> {
    Request::recall(&session.request)
        .map_err(|error| ControlError::Recorded { name: session.name.as_str().to_owned(), error })
}

impl Service {
    /// Decides what a session is to be. One that kept its changes in a layer continues with the layer.
    pub fn decide(
        &self,
        host: &Host,
        name: Option<Name>,
        mut request: Request,
        mut config: Config,
    ) -> Result<Decision, ControlError> {
        let mut notices = Vec::new();
        let kept = self.kept(host, name.as_ref(), &config)?;
        if let Some(kept) = &kept
            && !keeps_apart(&config)
        {
            if request.cow.is_some() {
                return Err(kept.refused());
            }
            request.cow = Some(kept.cow);
            // As the supervisor will load it.
            config.cow = Sourced::new(kept.cow, Origin::Flag(kept.cow.flag()));
            let text =
                format!("the session `{}` continues with the changes in its layer", kept.name);
            notices.push(Notice::Note(text));
        }
        let (project, backend) = (config.cwd.clone(), config.session.backend(&config.mounts));
        let planned = self.backend(backend)?.plan(config)?;
        if let Some(kept) = kept.filter(|_| !planned.keeps_changes()) {
            return Err(kept.refused());
        }
        notices.extend(planned.notices());
        let new = NewSession {
            name,
            project,
            backend,
            request: planned.settings()?.record(&request)?,
            policy: planned.policy(),
            cow: planned.keeps_changes(),
        };
        Ok(Decision { new, planned, notices })
    }

    /// Finds the layer of the session that is asked for. A layer without changes binds only a request that says
    /// nothing about `cow`.
    fn kept(
        &self,
        host: &Host,
        name: Option<&Name>,
        config: &Config,
    ) -> Result<Option<ExistingLayer>, ControlError> {
        // A name that is another project's is refused when the session is made.
        let Ok(existing) = self.existing(name, &config.cwd) else { return Ok(None) };
        let called = self.name_of(name, &config.cwd)?;
        let sessions = layers::sessions(host)?;
        let layer = sessions.of(&config.cwd, called.as_str()).map_err(layers::LayersError::from)?;
        let keeps = match &existing {
            Some(session) if session.cow => true,
            Some(session) if session.wanted == Wanted::Up => false,
            _ => layer.is_some(),
        };
        if !keeps {
            return Ok(None);
        }
        let made = layer.as_ref().map(|layer| layer.record().engine);
        if let (Some(made), Some(asked)) = (made, named_engine(config.cow.value.engine))
            && made != asked
        {
            // Refused before it is recorded: what is on record is what the next `up` continues with.
            let name = called.as_str().to_owned();
            return Err(layers::LayersError::OtherEngine { name, made, asked }.into());
        }
        let work = layer.as_ref().and_then(review::unapplied);
        let off = !config.cow.value.is_on() && matches!(config.cow.origin, Origin::Flag(_));
        if off && work.is_none() {
            return Ok(None);
        }
        let before = existing.as_ref().and_then(|session| recorded(session).ok()?.cow);
        let fits = |cow: &Cow| {
            let asked = named_engine(cow.engine);
            cow.is_on() && (made.is_none() || asked.is_none() || asked == made)
        };
        Ok(Some(ExistingLayer {
            name: called.as_str().to_owned(),
            cow: before.filter(fits).unwrap_or(Cow::ON),
            work: work.unwrap_or_else(|| "none yet".into()),
        }))
    }
}

/// Changes that a session of this name has kept apart.
struct ExistingLayer {
    name: String,
    cow: Cow,
    work: String,
}

impl ExistingLayer {
    fn refused(&self) -> ControlError {
        ControlError::KeepsChanges { name: self.name.clone(), work: self.work.clone() }
    }
}

/// Returns the engine that a request names, if it does not leave the choice to us.
fn named_engine(asked: CowEngine) -> Option<LayerEngine> {
    match asked {
        CowEngine::Overlay => Some(LayerEngine::Overlay),
        CowEngine::Agentfs => Some(LayerEngine::Agentfs),
        CowEngine::On | CowEngine::Off => None,
    }
}

/// Returns true when a configuration asks for a layer already.
fn keeps_apart(config: &Config) -> bool {
    let workspace = config.session.workspace.as_ref().and_then(|workspace| workspace.value.cow);
    config.cow.value.is_on() || workspace.is_some_and(|engine| engine != CowEngine::Off)
}
