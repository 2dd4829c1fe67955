//! Execution of calls on this machine: loading configurations, deciding and opening sessions.

use sandbox_policy::Host;
use sandbox_policy::config::{self, Access, Cow, Network, Request};
use sandbox_protocol::Hint;

use super::wire::{Create, Problem};
use crate::backend::{self, Notice};
use crate::data_dir::DataDir;
use crate::error::ControlError;
use crate::service::{Service, absolute, recorded};
use crate::session::{Name, NewSession, Session};

/// Sink for entries of the server's log.
pub type Log = Box<dyn Fn(&LogEntry) + Send + Sync>;

/// Entry of the server's log.
#[derive(Debug)]
pub enum LogEntry {
    /// A notice about a planned session.
    Notice(Notice),
    /// A failure that did not fail the call.
    Warning(String),
}

/// Executor of calls, with the rights of the server's user.
pub(super) struct Operator {
    pub(super) host: Host,
    pub(super) data_dir: DataDir,
    pub(super) log: Log,
}

impl Operator {
    /// Opens the service for one call.
    pub(super) fn service(&self) -> Result<Service, ControlError> {
        Service::open(self.data_dir.clone(), backend::all(&self.data_dir, &self.host))
    }

    /// Decides the session that a call describes.
    pub(super) fn prepare(&self, create: &Create) -> Result<NewSession, Problem> {
        let name = create.name.as_deref().map(Name::parse).transpose()?;
        self.decide(name, absolute(request(create)?, &self.host)?)
    }

    /// Decides an existing session again, with its current configuration.
    pub(super) fn prepare_again(&self, session: &Session) -> Result<NewSession, Problem> {
        self.decide(Some(session.name.clone()), recorded(session)?)
    }

    /// Writes the warnings of a service to the log.
    pub(super) fn warn(&self, service: &Service) {
        service.warnings().into_iter().for_each(|text| (self.log)(&LogEntry::Warning(text)));
    }

    fn decide(&self, name: Option<Name>, mut request: Request) -> Result<NewSession, Problem> {
        let config = config::load_bound(&self.host, &mut request).map_err(|error| Problem {
            hint: error.hint(),
            ..Problem::caused("refused", &error)
        })?;
        let decision = self.service()?.decide(&self.host, name, request, config);
        let decision = decision.map_err(|error| {
            // All other errors mean that the request is refused, not that the server failed.
            let code = if error.code() == "unapplied" { "unapplied" } else { "refused" };
            Problem { hint: error.hint(), ..Problem::caused(code, &error) }
        })?;
        decision.notices.into_iter().for_each(|notice| (self.log)(&LogEntry::Notice(notice)));
        Ok(decision.new)
    }
}

/// Converts a call to the request that equivalent flags would make.
fn request(create: &Create) -> Result<Request, Problem> {
    let invalid = |why: String| Problem::new("invalid", why);
    if !std::path::Path::new(&create.cwd).is_absolute() {
        return Err(invalid("`cwd` must be an absolute path".into()));
    }
    let shared = create.network.as_deref().map(str::parse::<Network>).transpose();
    let lists =
        [(Access::Ro, &create.ro), (Access::Rw, &create.rw), (Access::Exclude, &create.exclude)];
    let paths = lists
        .into_iter()
        .flat_map(|(access, list)| list.iter().map(move |path| (access, path.clone())));
    let env = create.env.iter().map(|(name, value)| (name.clone(), Some(value.into())));
    let cow = |on: bool| if on { Cow::ON } else { Cow::OFF };
    Ok(Request {
        cwd: Some((&create.cwd).into()),
        config: create.config.as_ref().map(Into::into),
        network: shared.map_err(|why| invalid(format!("`network`: {why}")))?,
        cow: create.cow.map(cow),
        paths: paths.collect(),
        env: env.collect(),
        trust: create.trust,
        ..Request::default()
    })
}
