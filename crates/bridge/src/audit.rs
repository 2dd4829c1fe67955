//! One line for each request, whatever came of it.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// How much of a request is written down: whoever asks must not choose how much disk that takes.
const MOST: usize = 16 << 10;
/// A log that has grown to this is full. Somebody should look at it before more is asked for.
const FULL: u64 = 256 << 20;

/// Where requests are written down.
#[derive(Debug)]
pub(crate) struct Audit {
    file: PathBuf,
}

/// A request, for the record.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub transport: &'static str,
    pub argv: &'a [OsString],
    pub cwd: Option<&'a std::path::Path>,
    /// The program that ran, if one did.
    pub program: Option<&'a std::path::Path>,
    /// What it was.
    pub sha256: Option<&'a str>,
    /// `ended`, `denied`, `timeout`, `flood`, `gone` or `failed`.
    pub outcome: &'static str,
    pub reason: Option<&'a str>,
    pub code: u8,
    /// Bytes that it printed.
    pub output: u64,
    pub milliseconds: u128,
}

impl Audit {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Whether a request could be written down now. One that cannot is not carried out.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Writes one line, in one call: lines of requests at the same time do not mix.
    pub(crate) fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let (seconds, nanos) = sandbox_linux::clock::wall_exactly();
        let line = json!({
            "time": format!("{seconds}.{:03}", nanos / 1_000_000),
            "transport": record.transport,
            "uid": sandbox_linux::process::uid(),
            "argv": words(record.argv),
            "cwd": record.cwd.map(|cwd| text(cwd.as_os_str(), MOST)),
            "program": record.program.map(|program| text(program.as_os_str(), MOST)),
            "sha256": record.sha256,
            "outcome": record.outcome,
            "reason": record.reason.map(|reason| text(OsStr::new(reason), MOST)),
            "code": record.code,
            "output": record.output,
            "milliseconds": u64::try_from(record.milliseconds).unwrap_or(u64::MAX),
        });
        self.open()?.write_all(format!("{line}\n").as_bytes())
    }

    fn open(&self) -> io::Result<std::fs::File> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.file)?;
        if file.metadata()?.len() >= FULL {
            let why = format!("it is full; look at `{}`, then move it away", self.file.display());
            return Err(io::Error::other(why));
        }
        Ok(file)
    }
}

/// The words of a request, as many as there is room for.
fn words(argv: &[OsString]) -> Vec<Value> {
    let mut left = MOST;
    let mut words = Vec::new();
    for (at, word) in argv.iter().enumerate() {
        words.push(text(word, left));
        // A word takes room, also an empty one.
        left = left.saturating_sub(word.len() + 3);
        if left == 0 && at + 1 < argv.len() {
            words.push(Value::String(format!("… and {} words more", argv.len() - at - 1)));
            break;
        }
    }
    words
}

/// A text, cut where there is no more room for it.
fn text(word: &OsStr, room: usize) -> Value {
    let bytes = word.as_bytes();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(room)]).into_owned();
    let cut = bytes.len().saturating_sub(room);
    Value::String(if cut > 0 { format!("{shown}… and {cut} bytes more") } else { shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_of_a_request_has_an_end() {
        let plain: Vec<OsString> = ["git", "", "status"].map(Into::into).to_vec();
        assert_eq!(words(&plain), ["git", "", "status"]);
        let long = [OsString::from("rm"), "x".repeat(1 << 20).into()];
        let shown = words(&long);
        assert!(shown[1].as_str().is_some_and(|word| word.ends_with("bytes more")));
        let many = vec![OsString::new(); 1 << 20];
        let shown = words(&many);
        assert!(
            shown.len() < MOST && shown.last().unwrap().as_str().unwrap().contains("words more")
        );
        assert!(serde_json::to_string(&words(&long)).unwrap().len() < 2 * MOST);
    }
}
