//! `exec`, and the short form: run one command in the sandbox.

use std::ffi::OsString;

use sandbox_core::Host;
use sandbox_core::backend::find::{Bwrap, find};
use sandbox_core::config::Config;
use sandbox_core::exec::{self, Gateway, StartError};
use sandbox_core::first_run::FirstRun;
use sandbox_core::guard::{self, GuardInput, Known};
use sandbox_core::plan::{Draft, Plan};

use super::cow::{self, Kept};
use super::credentials::Credentials;
use super::gateway::Way;
use super::{debug, dry_run, report};
use crate::args::Flags;
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Reads the configuration, and runs.
pub(crate) fn run(
    flags: &Flags,
    command: Vec<OsString>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let started = sandbox_linux::clock::wall_exactly();
    let request = super::request(flags, command, host)?;
    let config = super::load(host, &request, io)?;
    let agent = request.command.clone();
    carry_out(Job { flags, config, command: request.command, agent: &agent, started }, host, io)
}

/// What is to be run.
pub(crate) struct Job<'j> {
    pub flags: &'j Flags,
    pub config: Config,
    /// The sandbox's command.
    pub command: Vec<OsString>,
    /// Whose state in the home directory may have to be made: the command's own, or that of the
    /// agent that it will start.
    pub agent: &'j [OsString],
    /// An instant before anything was looked at.
    pub started: (i64, u32),
}

/// Plans, says what has to be said, runs, looks at what was left behind.
pub(crate) fn carry_out(job: Job<'_>, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let Job { flags, config, command, agent, started } = job;
    if !flags.dry_run && !host.inside {
        guard::make_place(host).map_err(guard_failed)?;
        cow::make_room(&config, host)?;
    }
    let draft = Draft::of(host, config)?;
    if flags.dry_run {
        let known = guard::known(host, &draft.roots());
        let plan = draft.finish(host, &known, command)?;
        return Ok(dry_run::run(flags, &plan, host, io));
    }
    let (draft, _first_run) = first_run(host, draft, agent, flags, io)?;
    let known = recall(host, &draft, io)?;
    let mut plan = draft.finish(host, &known, command)?;
    for note in &plan.notes {
        io.labelled(Tone::Warning, "note", &visible(note));
    }
    if flags.debug {
        debug::plan(&plan, host, io);
    }
    let credentials = Credentials::begin(&mut plan, host)?;
    plan.describe();
    let bwrap = find(host, Some(&plan)).map_err(StartError::from).map_err(start_failed)?;
    let kept = Kept::begin(&mut plan, flags, host, started, io)?;
    let mut way = Way::of(&plan, credentials, host, started)?;
    let run = begin(host, &plan)?;
    let ended = enforce(&plan, &bwrap, host, way.as_mut(), flags, io);
    let ended = after(way.as_ref(), ended, flags, io);
    if let Some(run) = run {
        report::print(&run.finish(), "this run", io);
    }
    match kept {
        Some(kept) => kept.finish(ended, io),
        None => ended,
    }
}

/// Makes what an agent that has never run here cannot make itself in a read-only home, and looks
/// again at what there is. The second value takes back what was not used.
fn first_run(
    host: &Host,
    draft: Draft,
    command: &[OsString],
    flags: &Flags,
    io: &mut Stdio<'_>,
) -> Result<(Draft, FirstRun), Failed> {
    let missing = if host.inside { Vec::new() } else { draft.missing_state(command) };
    let run = FirstRun::prepare(missing).unwrap_or_else(|error| {
        io.labelled(Tone::Warning, "note", &visible(&error.to_string()));
        FirstRun::default()
    });
    if run.made().next().is_none() {
        return Ok((draft, run));
    }
    if flags.debug {
        run.made()
            .for_each(|path| debug::line("first run", &format!("made {}", path.display()), io));
    }
    Ok((Draft::of(host, draft.into_config())?, run))
}

/// Finishes what a killed run left here, before anything is decided by what exists.
fn recall(host: &Host, draft: &Draft, io: &mut Stdio<'_>) -> Result<Known, Failed> {
    if host.inside {
        return Ok(guard::known(host, &draft.roots()));
    }
    let recalled = guard::recall(host, &draft.roots()).map_err(guard_failed)?;
    report::print(&recalled.report, "an earlier run that was killed", io);
    Ok(recalled.known)
}

/// Puts the run on record. Inside a sandbox the outermost run looks after the whole tree.
fn begin(host: &Host, plan: &Plan) -> Result<Option<guard::Run>, Failed> {
    if host.inside {
        return Ok(None);
    }
    let guarded = &plan.guard;
    let input =
        GuardInput { roots: &guarded.roots, git: &guarded.git, config_files: &guarded.files };
    guard::begin(host, &input).map(Some).map_err(guard_failed)
}

/// What was refused on the way out is told, and may count.
fn after(way: Option<&Way>, ended: Outcome, flags: &Flags, io: &mut Stdio<'_>) -> Outcome {
    let refused = way.map_or(0, |way| way.tell(io));
    ended.map(|code| if code == 0 && refused > 0 && flags.fail_on_blocked { 4 } else { code })
}

fn enforce(
    plan: &Plan,
    bwrap: &Bwrap,
    host: &Host,
    way: Option<&mut Way>,
    flags: &Flags,
    io: &mut Stdio<'_>,
) -> Outcome {
    let renderings = exec::renderings(host);
    let gateway = way.map(|way| way as &mut dyn Gateway);
    let mut reasons = Vec::new();
    let ended = exec::run(plan, bwrap, &renderings, gateway, |reason| reasons.push(reason));
    if flags.debug {
        for reason in &reasons {
            debug::line("process", reason, io);
        }
    }
    match ended {
        Ok(ended) => {
            if flags.debug {
                debug::line(
                    "process",
                    &format!("ended with {} ({:?})", ended.code, ended.rendering),
                    io,
                );
            }
            if let Some(why) = &ended.why {
                io.labelled(Tone::Bad, "error", &visible(why));
            }
            Ok(ended.code)
        }
        Err(error) => {
            let apart = matches!(error, StartError::Apart(_));
            let mut failed = start_failed(error);
            failed.hint = if apart {
                Some(cow::remedy(plan))
            } else {
                super::doctor::cause(host).or(failed.hint)
            };
            Err(failed)
        }
    }
}

fn start_failed(error: StartError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn guard_failed(error: guard::GuardError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}
