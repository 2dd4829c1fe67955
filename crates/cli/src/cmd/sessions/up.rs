//! `up` and `restart`: a sandbox that stays.

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

/// Brings a session up, and says its name.
pub(crate) fn run(up: &Up, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if flags.session.is_some() {
        return Err(Failed::usage("a session that is to be made gets its name by `--name`"));
    }
    let name = up.name.as_deref().map(Name::parse).transpose()?;
    let request = absolute(crate::cmd::request(flags, Vec::new(), host)?, host)?;
    let mut service = service::open(host)?;
    let decision = decide(&service, name, request, host, io)?;
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

/// Takes a session down and brings it up again, by what its configuration says now.
pub(crate) fn restart(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    let mut request = recorded(&session)?;
    if crate::cmd::trusts(flags, host) {
        (request.trust, request.accepted) = (true, None);
    }
    let name = Some(session.name.clone());
    let decision = decide(&service, name, request, host, io)?;
    service.down(&session)?;
    let brought = service.up(&decision.new, Differing::Recreate);
    service::warn(&service, io);
    let (session, brought) = brought?;
    tell(&session, &brought, flags, host, io)
}

/// Reads the configuration of a request, decides, and says what the user should know.
fn decide(
    service: &Service,
    name: Option<Name>,
    mut request: Request,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<Decision, Failed> {
    let config = crate::cmd::load_bound(host, &mut request, io)?;
    let decision = service.decide(host, name, request, config)?;
    decision.notices.iter().for_each(|notice| tell_notice(notice, io));
    Ok(decision)
}

/// Prints a remark about a plan.
pub(super) fn tell_notice(notice: &Notice, io: &mut Stdio<'_>) {
    match notice {
        Notice::Note(text) => io.labelled(Tone::Warning, "note", &visible(text)),
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
        io.labelled(
            Tone::Warning,
            "note",
            &format!("settings changed{changed}; session recreated"),
        );
    }
    if flags.json {
        return inspect::json(session, host, io);
    }
    tell_key(session, host, io)?;
    let word = if *brought == Brought::WasUp { "is up already" } else { "is up" };
    io.say(&format!("{name} {word}: agent-sandbox exec -s {name} COMMAND"));
    io.data(&format!("{name}\n"));
    Ok(0)
}

/// Says what has to be done on the host before host commands by SSH work, or what was.
fn tell_key(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Result<(), Failed> {
    let Some(Authorized { user, line, own: true, place }) =
        service::open(host)?.authorized(session)
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
