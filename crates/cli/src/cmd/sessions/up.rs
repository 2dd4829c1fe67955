//! `up` and `restart`: a sandbox that stays.

use std::path::{Path, PathBuf};

use sandbox_control::backend::bwrap::{ShapeError, policy, shape};
use sandbox_control::backend::docker::Authorized;
use sandbox_control::service::Brought;
use sandbox_control::session::{BackendKind, Name, NewSession, Session};
use sandbox_core::Host;
use sandbox_core::config::{Backend, Config, Request};
use sandbox_core::guard;
use sandbox_core::plan::{Draft, Plan};

use super::{container, inspect, service};
use crate::args::Flags;
use crate::args::sessions::{One, Up};
use crate::cmd::{cow, dry_run};
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Brings a session up, and says its name.
pub(crate) fn run(up: &Up, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if flags.session.is_some() {
        return Err(Failed::usage("a session that is to be made gets its name by `--name`"));
    }
    let name = up.name.as_deref().map(Name::parse).transpose()?;
    let request = absolute(crate::cmd::request(flags, Vec::new(), host)?, host)?;
    let mut service = service::open(host)?;
    let config = crate::cmd::load(host, &request, io)?;
    if config.session.backend(&config.mounts) == Backend::Docker {
        let docker = service::docker(host)?;
        let (new, plan) = container::look_ahead(name, &request, &config, &docker, io)?;
        if flags.dry_run {
            return container::show(&plan, flags, io);
        }
        let (session, brought) = service::with(host, docker)?.up(&new)?;
        return tell(&session, brought, flags, host, io);
    }
    let (new, plan) = look_ahead(name, &request, config, host)?;
    if flags.dry_run {
        return Ok(dry_run::run(flags, &plan, host, io));
    }
    for note in &plan.notes {
        io.labelled(Tone::Warning, "note", &visible(note));
    }
    let (session, brought) = service.up(&new)?;
    tell(&session, brought, flags, host, io)
}

/// Takes a session down and brings it up again, by what its configuration says now.
pub(crate) fn restart(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    let request: Request = recorded(&session)?;
    let config = crate::cmd::load(host, &request, io)?;
    let name = Some(session.name.clone());
    let new = if config.session.backend(&config.mounts) == Backend::Docker {
        container::look_ahead(name, &request, &config, &service::docker(host)?, io)?.0
    } else {
        look_ahead(name, &request, config, host)?.0
    };
    service.down(&session)?;
    let (session, brought) = service.up(&new)?;
    tell(&session, brought, flags, host, io)
}

fn tell(
    session: &Session,
    brought: Brought,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let name = &session.name;
    if brought == Brought::Replaced {
        io.labelled(Tone::Warning, "note", "what was asked for has changed: it was started anew");
    }
    if flags.json {
        return inspect::json(session, host, io);
    }
    tell_key(session, host, io)?;
    let word = if brought == Brought::WasUp { "is up already" } else { "is up" };
    io.say(&format!("{name} {word}: agent-sandbox exec -s {name} COMMAND"));
    io.data(&format!("{name}\n"));
    Ok(0)
}

/// Says what has to be done on the host before host commands by SSH work, or what was.
fn tell_key(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Result<(), Failed> {
    let Some(Authorized { user, line, own: true, place }) =
        service::docker(host)?.authorized(session)
    else {
        return Ok(());
    };
    match place {
        Some(place) => io.say(&format!("its key is in `{}` until it goes down", place.display())),
        None => io.labelled(
            Tone::Warning,
            "note",
            &format!("host commands wait until this line stands in the `authorized_keys` of `{user}`:\n{}", line.trim_end()),
        ),
    }
    Ok(())
}

/// What was asked for when a session was brought up.
pub(crate) fn recorded(session: &Session) -> Result<Request, Failed> {
    serde_json::from_str(&session.request).map_err(|error| {
        let hint = format!("bring it up anew: agent-sandbox up --name {}", session.name);
        Failed::new(error, Some(hint))
    })
}

/// The supervisor works elsewhere: relative paths would mean something else there.
pub(crate) fn absolute(mut request: Request, host: &Host) -> Result<Request, Failed> {
    let here = host.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));
    let cwd = here.join(request.cwd.take().unwrap_or_default());
    let cwd = std::fs::canonicalize(&cwd).map_err(|source| {
        let what = format!("cannot work in `{}`: {source}", cwd.display());
        Failed::new(std::io::Error::other(what), Some("pass another `--cwd`".into()))
    })?;
    request.config = request.config.map(|file| here.join(file));
    for path in [Some(cwd.as_path()), request.config.as_deref()].into_iter().flatten() {
        if path.to_str().is_none() {
            return Err(not_text(path));
        }
    }
    request.cwd = Some(cwd);
    Ok(request)
}

fn not_text(path: &Path) -> Failed {
    let what = format!("`{}` is no text, and cannot be put on record", path.display());
    Failed::new(std::io::Error::other(what), Some("give the directory another name".into()))
}

/// The session that is asked for, and the plan that the supervisor will make: what is wrong with it
/// is told here and now.
pub(crate) fn look_ahead(
    name: Option<Name>,
    request: &Request,
    config: Config,
    host: &Host,
) -> Result<(NewSession, Plan), Failed> {
    let (config, _) = shape(config).map_err(refused)?;
    let request = serde_json::to_string(request).map_err(|error| Failed::new(error, None))?;
    let new = NewSession {
        name,
        project: config.cwd.clone(),
        backend: BackendKind::Bwrap,
        request,
        policy: policy(&config),
        cow: config.cow.value.is_on(),
    };
    cow::make_room(&config, host)?;
    let draft = Draft::of(host, config)?;
    let known = guard::known(host, &draft.roots());
    Ok((new, draft.finish(host, &known, Vec::new())?))
}

/// What the backend refuses.
pub(crate) fn refused(error: ShapeError) -> Failed {
    let hint = error.hint().into();
    Failed::new(error, Some(hint))
}
