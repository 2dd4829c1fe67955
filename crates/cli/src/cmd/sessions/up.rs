//! `up` and `restart`: starts sessions.

use sandbox_policy::Host;
use sandbox_policy::config::Request;
use sandbox_sessions::backend::{Authorized, Form, Notice};
use sandbox_sessions::service::{Brought, Decision, Differing, absolute, recorded};
use sandbox_sessions::session::{Name, Session};
use sandbox_sessions::{ControlError, Service};

use super::{inspect, service};
use crate::args::Flags;
use crate::args::sessions::{One, Up};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Starts a session, and prints its name.
pub(crate) fn run(up: &Up, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if flags.session.is_some() {
        return Err(Failed::usage("`up` takes the name of the session with `--name`"));
    }
    let name = up.name.as_deref().map(Name::parse).transpose()?;
    let request = absolute(crate::cmd::request(flags, Vec::new(), host)?, host)?;
    let mut service = service::open(host)?;
    let decision = decide(&service, name, request, flags, host, io)?;
    if flags.dry_run {
        let form = if flags.json { Form::Json } else { Form::Text };
        let shown = decision.planned.show(form).map_err(ControlError::from)?;
        io.data(&shown);
        return Ok(0);
    }
    let differing = if up.recreate { Differing::Recreate } else { Differing::Refuse };
    let brought = service.up(&decision.new, differing);
    service::warn(&service, io);
    let (session, brought) = brought?;
    tell(&session, &brought, flags, host, io)
}

/// Stops a session and starts it again with its current configuration.
pub(crate) fn restart(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    let mut request = recorded(&session)?;
    if crate::cmd::trusts(flags, host) {
        (request.trust, request.accepted) = (true, None);
    }
    let name = Some(session.name.clone());
    let decision = decide(&service, name, request, flags, host, io)?;
    service.down(&session)?;
    let brought = service.up(&decision.new, Differing::Recreate);
    service::warn(&service, io);
    let (session, brought) = brought?;
    tell(&session, &brought, flags, host, io)
}

/// Loads the configuration, decides what to start, and prints notices.
fn decide(
    service: &Service,
    name: Option<Name>,
    mut request: Request,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<Decision, Failed> {
    let config = crate::cmd::load_bound(host, &mut request, io)?;
    crate::cmd::name_policies(&config, &request, flags, io);
    let decision = service.decide(host, name, request, config)?;
    decision.notices.iter().for_each(|notice| tell_notice(notice, io));
    Ok(decision)
}

/// Prints a notice about a plan.
pub(super) fn tell_notice(notice: &Notice, io: &mut Stdio<'_>) {
    match notice {
        Notice::Note(text) => io.note(&visible(text)),
        Notice::Granted(text) => io.labelled(Tone::Warning, "granted", &visible(text)),
    }
}

fn tell(
    session: &Session,
    brought: &Brought,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let name = &session.name;
    if let Brought::Replaced(lines) = brought {
        let changed =
            if lines.is_empty() { String::new() } else { format!(" ({})", lines.join(", ")) };
        io.note(&format!("settings changed{changed}; session `{name}` was recreated"));
    }
    if flags.json {
        return inspect::json(session, host, io);
    }
    tell_key(session, host, io)?;
    let word = if *brought == Brought::WasUp { "is already running" } else { "is running" };
    io.say(&format!("session `{name}` {word}: agent-sandbox exec -s {name} COMMAND"));
    io.data(&format!("{name}\n"));
    Ok(0)
}

/// Reports the SSH key for host commands: the file that authorizes it, or the line that the user has to add.
fn tell_key(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Result<(), Failed> {
    let Some(Authorized { user, line, own: true, place }) =
        service::open(host)?.authorized(session)
    else {
        return Ok(());
    };
    match place {
        Some(place) => io.say(&format!(
            "its SSH key is authorized in `{}` until the session stops",
            place.display()
        )),
        None => io.note(&format!(
            "host commands need this line in the `authorized_keys` of `{user}`:\n{}",
            line.trim_end()
        )),
    }
    Ok(())
}
