//! Audit log with one line for each request.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Maximum logged length of a request, so that clients cannot fill the disk.
const MOST: usize = 16 << 10;
/// Maximum size of the log. Further requests are refused until an administrator has reviewed it.
const FULL: u64 = 256 << 20;

/// Audit log.
#[derive(Debug)]
pub(crate) struct Audit {
    file: PathBuf,
}

/// Log entry of a request.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub transport: &'static str,
    pub argv: &'a [OsString],
    pub cwd: Option<&'a std::path::Path>,
    /// Program that ran, if any.
    pub program: Option<&'a std::path::Path>,
    /// Digest of its file.
    pub sha256: Option<&'a str>,
    /// `ended`, `denied`, `timeout`, `flood`, `gone` or `failed`.
    pub outcome: &'static str,
    pub reason: Option<&'a str>,
    pub code: u8,
    /// Number of bytes printed.
    pub output: u64,
    pub milliseconds: u128,
}

impl Audit {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Checks that the log can be written, because an unlogged request is not carried out.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Writes one line in one call, so that lines of concurrent requests do not mix.
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
            let why = format!("it is full; review `{}`, then move it", self.file.display());
            return Err(io::Error::other(why));
        }
        Ok(file)
    }
}

/// Returns the words of a request as far as they fit.
fn words(argv: &[OsString]) -> Vec<Value> {
    let mut left = MOST;
    let mut words = Vec::new();
    for (at, word) in argv.iter().enumerate() {
        words.push(text(word, left));
        // Every word takes space, even an empty one.
        left = left.saturating_sub(word.len() + 3);
        if left == 0 && at + 1 < argv.len() {
            words.push(Value::String(format!("… and {} more words", argv.len() - at - 1)));
            break;
        }
    }
    words
}

/// Returns a text, cut to the given length.
fn text(word: &OsStr, room: usize) -> Value {
    let bytes = word.as_bytes();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(room)]).into_owned();
    let cut = bytes.len().saturating_sub(room);
    Value::String(if cut > 0 { format!("{shown}… and {cut} more bytes") } else { shown })
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
        assert!(shown[1].as_str().is_some_and(|word| word.ends_with("more bytes")));
        let many = vec![OsString::new(); 1 << 20];
        let shown = words(&many);
        assert!(
            shown.len() < MOST && shown.last().unwrap().as_str().unwrap().contains("more words")
        );
        assert!(serde_json::to_string(&words(&long)).unwrap().len() < 2 * MOST);
    }
}
