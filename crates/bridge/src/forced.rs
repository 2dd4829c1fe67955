//! A request from sshd in `SSH_ORIGINAL_COMMAND`, on the standard streams of this process.

mod slot;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Instant;

use sandbox_linux::{descendants, fd};
use sandbox_policy::Host;
use sandbox_policy::config::command::line;

use crate::audit::Record;
use crate::request::{self, Prepared, Refused};
use crate::route::CWD;
use crate::runner::{self, Ends, Event, Input};
use crate::server::{ServeError, Server};
use crate::verdict::Denial;

/// Carries out the request of this process.
pub(crate) fn run(server: &Server, host: &Host) -> Result<u8, ServeError> {
    let start = Instant::now();
    let text =
        host.var("SSH_ORIGINAL_COMMAND").map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    let (argv, cwd) = match line::parse(&text) {
        Ok(words) => split(words),
        Err(error) => {
            let words = [OsString::from(String::from_utf8_lossy(&text).into_owned())];
            let denial = Denial { name: first_word(&text), reason: error.to_string() };
            return Ok(refuse(server, &words, None, &Refused::Denied(denial), start));
        }
    };
    // End together with sshd, without waiting for a failed write.
    let _ = descendants::end_with_parent(std::os::unix::process::parent_id().cast_signed());
    let limit = server.limit(|list| list.parallel).unwrap_or(1);
    let slot = slot::take(&server.slots, limit).map_err(ServeError::Serve)?;
    if slot.is_none() {
        let reason = format!("{limit} host commands are already running");
        return Ok(refuse(
            server,
            &argv,
            cwd.as_deref(),
            &Refused::Denied(Denial::new(&argv, reason)),
            start,
        ));
    }
    server.audit.check().map_err(ServeError::Serve)?;
    match request::prepare(server, &argv, cwd.as_deref()) {
        Ok(prepared) => {
            let finished = carry_out(&prepared);
            Ok(report(server, &argv, cwd.as_deref(), &prepared, finished, start))
        }
        Err(refused) => Ok(refuse(server, &argv, cwd.as_deref(), &refused, start)),
    }
}

fn split(mut words: Vec<OsString>) -> (Vec<OsString>, Option<PathBuf>) {
    let cwd = words[0].as_bytes().strip_prefix(CWD.as_bytes());
    let cwd = cwd.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)));
    if cwd.is_some() && words.len() > 1 {
        words.remove(0);
    }
    (words, cwd)
}

fn first_word(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

fn carry_out(prepared: &Prepared) -> io::Result<runner::Finished> {
    let (stdout, stderr) =
        (io::stdout().as_fd().try_clone_to_owned()?, io::stderr().as_fd().try_clone_to_owned()?);
    let ends = Ends {
        input: Input::Own,
        output: Box::new(File::from(stdout.try_clone()?)),
        error: Box::new(File::from(stderr.try_clone()?)),
    };
    runner::run(prepared, ends, |events| tell_of_client(stdout.into(), stderr.into(), events))
}

/// Watches for a closed stream, because sshd sends no signal to a command without a terminal.
fn tell_of_client(stdout: File, stderr: File, events: Sender<Event>) {
    std::thread::spawn(move || {
        if fd::wait_until_unread(&[stdout.as_fd(), stderr.as_fd()]).is_ok() {
            let _ = events.send(Event::Gone);
        }
    });
}

/// Reports the reason for a refusal and logs it.
fn refuse(
    server: &Server,
    argv: &[OsString],
    cwd: Option<&Path>,
    refused: &Refused,
    start: Instant,
) -> u8 {
    let (text, code, outcome) = refused.answer();
    let _ = io::stderr().write_all(text.as_bytes());
    let record = Record {
        transport: "ssh",
        argv,
        cwd,
        program: None,
        sha256: None,
        outcome,
        reason: Some(text.trim_end()),
        code,
        output: 0,
        milliseconds: start.elapsed().as_millis(),
    };
    complain(server.audit.write(&record));
    code
}

fn report(
    server: &Server,
    argv: &[OsString],
    cwd: Option<&Path>,
    prepared: &Prepared,
    finished: io::Result<runner::Finished>,
    start: Instant,
) -> u8 {
    let ending = runner::ending(prepared, finished);
    if let Some(reason) = &ending.reason {
        let _ = writeln!(io::stderr(), "agent-sandbox: {reason}");
    }
    let record = Record {
        transport: "ssh",
        argv,
        cwd,
        program: Some(&prepared.program),
        sha256: ending.sha256.as_deref(),
        outcome: ending.outcome,
        reason: ending.reason.as_deref(),
        code: ending.code,
        output: ending.printed,
        milliseconds: start.elapsed().as_millis(),
    };
    complain(server.audit.write(&record));
    ending.code
}

/// Reports that the log could not be written. The request has already ended.
fn complain(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = writeln!(io::stderr(), "agent-sandbox: cannot write the audit log: {error}");
    }
}
