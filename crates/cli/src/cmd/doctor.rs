//! `doctor`: what sandboxes need, and the remedy for what is missing.

use sandbox_core::Host;
use sandbox_core::doctor::{self, Check, Status};

use crate::args::Flags;
use crate::run::Outcome;
use crate::ui::{Stdio, Tone, visible};

/// Prints a row for each check; ends with 1 when something needed is missing.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
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
        io.say(&format!("no sandbox can start here: {missing} of what is needed is missing"));
    }
    Ok(u8::from(missing > 0))
}

/// Why no sandbox starts here, if that is so.
pub(crate) fn cause(host: &Host) -> Option<String> {
    doctor::cause(host)
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
    let mut text = format!("{}  {name}  {}\n", io.tone(tone, word), one_line(&check.detail));
    for limit in &check.limits {
        text.push_str(&format!("{indent}- {limit}\n"));
    }
    if let Some(remedy) = &check.remedy {
        text.push_str(&format!("{indent}{} {}\n", io.tone(Tone::Strong, "fix:"), one_line(remedy)));
    }
    text
}

fn one_line(text: &str) -> String {
    visible(text).replace('\n', " ")
}
