//! `serve`: sessions over HTTP.

use std::sync::Arc;

use sandbox_control::serve::wire::{Create, Problem};
use sandbox_control::serve::{self, Operator, ServeError, Settings, TOKEN};
use sandbox_control::session::{Name, NewSession, Session};
use sandbox_control::{ControlError, Place, Service};
use sandbox_core::Host;
use sandbox_core::config::{self, Access, Backend, Request};

use super::{container, rm, service, up};
use crate::args::sessions::Serve;
use crate::args::words::{COW, network};
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// A token that is shorter can be guessed.
const SHORTEST: usize = 32;

/// Serves until a signal ends it.
pub(crate) fn run(serve: &Serve, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if serve.openapi {
        crate::cmd::json(&serve::document(), io);
        return Ok(0);
    }
    // Makes the directory that the socket lies in, and says what is wrong with it.
    let place = service::open(host)?.place().clone();
    let socket = serve.socket.clone().unwrap_or_else(|| place.data().join("api.sock"));
    let tcp = serve.listen.map(|address| token(host).map(|token| (address, token))).transpose()?;
    let operator = Arc::new(Local { host: host.clone(), place });
    let settings = Settings { socket: socket.clone(), tcp, sessions: serve.max_sessions };
    let told = |bound: Option<std::net::SocketAddr>| {
        io.say(&format!("serving at {}", socket.display()));
        if let Some(bound) = bound {
            io.say(&format!("serving at http://{bound}"));
        }
    };
    serve::run(settings, operator, told).map_err(|error: ServeError| {
        let hint = error.hint();
        Failed::new(error, hint)
    })?;
    Ok(0)
}

fn token(host: &Host) -> Result<String, Failed> {
    let token = host.var(TOKEN).and_then(|token| token.to_str()).unwrap_or_default();
    if token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    let mut failed = Failed::usage(format!(
        "`--listen` needs a token of at least {SHORTEST} characters in `{TOKEN}`"
    ));
    failed.hint = Some(format!("{TOKEN}=$(openssl rand -hex 32) agent-sandbox serve --listen …"));
    Err(failed)
}

/// What configurations mean on this machine.
struct Local {
    host: Host,
    place: Place,
}

impl Operator for Local {
    fn service(&self) -> Result<Service, ControlError> {
        Service::open(self.place.clone(), service::backends(&self.place, &self.host))
    }

    fn prepare(&self, create: &Create) -> Result<NewSession, Problem> {
        let name = create.name.as_deref().map(Name::parse).transpose()?;
        let request = request(create)?;
        let request =
            up::absolute(request, &self.host).map_err(|failed| problem("invalid", &failed))?;
        self.decide(name, &request)
    }

    fn prepare_again(&self, session: &Session) -> Result<NewSession, Problem> {
        let request = up::recorded(session).map_err(|failed| problem("storage", &failed))?;
        self.decide(Some(session.name.clone()), &request)
    }

    fn forget(&self, session: &Session) -> Result<(), Problem> {
        rm::forget_layer(session, &self.host).map_err(|failed| problem("storage", &failed))
    }
}

impl Local {
    fn decide(&self, name: Option<Name>, request: &Request) -> Result<NewSession, Problem> {
        let config = config::load(&self.host, request);
        let config = config.map_err(|error| problem("refused", &Failed::from(error)))?;
        let decided = if config.session.backend(&config.mounts) == Backend::Docker {
            // What has to be said about exceptions goes to whoever reads what this program says.
            let io = &mut Stdio::real();
            service::docker(&self.host).and_then(|docker| {
                Ok(container::look_ahead(name, request, &config, &docker, io)?.0)
            })
        } else {
            up::look_ahead(name, request, config, &self.host).map(|(new, _)| new)
        };
        decided.map_err(|failed| problem("refused", &failed))
    }
}

/// What is asked for over the wire, as flags would ask for it.
fn request(create: &Create) -> Result<Request, Problem> {
    let invalid = |why: String| Problem::new("invalid", why);
    if !std::path::Path::new(&create.cwd).is_absolute() {
        return Err(invalid("`cwd` is no absolute path".into()));
    }
    let shared = create.network.as_deref().map(network).transpose();
    let lists =
        [(Access::Ro, &create.ro), (Access::Rw, &create.rw), (Access::Exclude, &create.exclude)];
    let paths = lists
        .into_iter()
        .flat_map(|(access, list)| list.iter().map(move |path| (access, path.clone())));
    let env = create.env.iter().map(|(name, value)| (name.clone(), Some(value.into())));
    let cow = |on: bool| if on { COW } else { sandbox_core::config::Cow::OFF };
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

fn problem(code: &str, failed: &Failed) -> Problem {
    let mut message = failed.error.to_string();
    let mut source = failed.error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Problem { code: code.to_owned(), message, hint: failed.hint.clone() }
}
