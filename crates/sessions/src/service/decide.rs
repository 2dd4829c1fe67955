//! Decision which session a request refers to, and how it will be made. Nothing is created here.

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

/// Decided request.
pub struct Decision {
    /// Requested session.
    pub new: NewSession,
    /// Plan of its backend.
    pub planned: Box<dyn Planned>,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

/// Makes the paths of a request absolute: a supervisor has another working directory.
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

/// Returns the request that a session was brought up with. It trusts the file contents that were trusted then.
pub fn recorded(session: &Session) -> Result<Request, ControlError> {
    Request::recall(&session.request)
        .map_err(|error| ControlError::Recorded { name: session.name.as_str().to_owned(), error })
}

impl Service {
    /// Decides a session. One that has a layer keeps using it.
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
            // The supervisor loads it as this flag.
            config.cow = Sourced::new(kept.cow, Origin::Flag(kept.cow.flag()));
            let text = format!("session `{}` continues with the changes in its layer", kept.name);
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

    /// Finds the layer of the requested session. A layer without changes only matters if the request does not mention
    /// `cow`.
    fn kept(
        &self,
        host: &Host,
        name: Option<&Name>,
        config: &Config,
    ) -> Result<Option<ExistingLayer>, ControlError> {
        // `claim` refuses a name that another project uses.
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
            // Refuse before the request is recorded: the next `up` reads the record.
            let name = called.as_str().to_owned();
            return Err(layers::LayersError::OtherEngine { name, made, requested: asked }.into());
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

/// Existing layer of a session.
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

/// Returns the engine that a request names, if it names one.
fn named_engine(asked: CowEngine) -> Option<LayerEngine> {
    match asked {
        CowEngine::Overlay => Some(LayerEngine::Overlay),
        CowEngine::Agentfs => Some(LayerEngine::Agentfs),
        CowEngine::On | CowEngine::Off => None,
    }
}

/// Returns true when a configuration asks for a layer.
fn keeps_apart(config: &Config) -> bool {
    let workspace = config.session.workspace.as_ref().and_then(|workspace| workspace.value.cow);
    config.cow.value.is_on() || workspace.is_some_and(|engine| engine != CowEngine::Off)
}
