//! `doctor`: checks what sandboxes need, and suggests fixes.

use std::fmt::Write as _;

use sandbox_core::doctor::{self, Check, Status};
use sandbox_policy::Host;
use sandbox_protocol::ExitCode;

use crate::args::Flags;
use sandbox_linux::escape::joined;

use crate::ui::{Stdio, Tone};

/// Prints a row for each check. Returns 1 when a requirement is missing.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> u8 {
    let checks = doctor::examine(host);
    if flags.json {
        io.data(&json(&checks));
    } else {
        let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        for check in &checks {
            let text = row(check, width, io);
            io.data(&text);
        }
    }
    let missing = checks.iter().filter(|check| check.status == Status::Fail).count();
    if missing > 0 && !flags.json {
        io.say("no sandbox can start here: see the rows marked FAIL");
    }
    ExitCode::failed_if(missing > 0).code()
}

fn json(checks: &[Check]) -> String {
    let rows: Vec<_> = checks
        .iter()
        .map(|check| {
            let mut row = serde_json::json!(check);
            row["ok"] = (check.status == Status::Ok).into();
            row
        })
        .collect();
    format!("{:#}\n", serde_json::Value::from(rows))
}

fn row(check: &Check, width: usize, io: &Stdio<'_>) -> String {
    let (word, tone) = match check.status {
        Status::Ok => ("ok  ", Tone::Good),
        Status::Warn => ("warn", Tone::Warning),
        Status::Fail => ("FAIL", Tone::Bad),
    };
    let indent = " ".repeat(width + 8);
    let name = format!("{:width$}", check.name.replace('-', " "));
    let mut text = format!("{}  {name}  {}\n", io.tone(tone, word), joined(&check.detail));
    for limit in &check.limits {
        let _ = writeln!(text, "{indent}- {limit}");
    }
    if let Some(remedy) = &check.remedy {
        let fix = io.tone(Tone::Strong, "fix:");
        let _ = writeln!(text, "{indent}{fix} {}", joined(remedy));
    }
    text
}
