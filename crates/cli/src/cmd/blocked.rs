//! `blocked`: lists the hosts that the last run was refused, with the rule and the flag that allows each.

use sandbox_policy::Host;
use sandbox_policy::network::blocked::{Blocked, Journal, Run};
use sandbox_protocol::ExitCode;
use serde::Serialize;

use crate::args::Flags;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    run: Run,
    blocked: Vec<Blocked>,
}

/// Prints the refusals of the last run in this directory.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let request = super::request(flags, Vec::new(), host)?;
    let cwd = sandbox_policy::config::locate(host, &request)?.cwd;
    let failed = |error: std::io::Error| Failed {
        error: Box::new(error),
        hint: None,
        word: "storage",
        code: ExitCode::Failure.code(),
    };
    let last = Journal::last(host, &cwd).map_err(failed)?;
    let Some((run, blocked)) = last.map(|journal| journal.read()).transpose().map_err(failed)?
    else {
        if flags.json {
            super::json(&serde_json::Value::Null, io);
        } else {
            io.say("no run here used a list of hosts; `--allow-host NAME` sets one");
        }
        return Ok(0);
    };
    if flags.json {
        super::json(&Report { run, blocked }, io);
        return Ok(0);
    }
    if blocked.is_empty() {
        io.say(&format!("no host was refused to `{}`", one_line(&run.program)));
        return Ok(0);
    }
    let rows: Vec<[String; 4]> = blocked.iter().map(row).collect();
    let head = ["HOST", "BY", "RULE", "ALLOW WITH"].map(str::to_owned);
    let rows: Vec<_> = [head].into_iter().chain(rows).collect();
    let text = super::columns(&rows, |column, text, row| match column {
        0 if row[0] != "HOST" => io.tone(Tone::Bad, text),
        _ if row[0] == "HOST" => io.tone(Tone::Quiet, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    Ok(0)
}

fn row(blocked: &Blocked) -> [String; 4] {
    let refusal = &blocked.refusal;
    let port = refusal.port.map(|port| format!(":{port}")).unwrap_or_default();
    [
        one_line(&format!("{}{port}", refusal.host)),
        one_line(blocked.by.as_deref().unwrap_or("-")),
        one_line(&refusal.rule),
        one_line(refusal.allow_with.as_deref().unwrap_or("-")),
    ]
}
