//! One line for each request, whatever came of it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Where requests are written down.
#[derive(Debug)]
pub(super) struct Audit {
    file: PathBuf,
}

/// A request, for the record.
#[derive(Debug)]
pub(super) struct Record<'a> {
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
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Whether a request could be written down now. One that cannot is not carried out.
    pub(super) fn check(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Writes one line, in one call: lines of requests at the same time do not mix.
    pub(super) fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let (seconds, nanos) = sandbox_linux::clock::wall_exactly();
        let words: Vec<Value> = record.argv.iter().map(|word| text(word)).collect();
        let line = json!({
            "time": format!("{seconds}.{:03}", nanos / 1_000_000),
            "transport": record.transport,
            "uid": sandbox_linux::process::uid(),
            "argv": words,
            "cwd": record.cwd.map(|cwd| text(cwd.as_os_str())),
            "program": record.program.map(|program| text(program.as_os_str())),
            "sha256": record.sha256,
            "outcome": record.outcome,
            "reason": record.reason,
            "code": record.code,
            "output": record.output,
            "milliseconds": u64::try_from(record.milliseconds).unwrap_or(u64::MAX),
        });
        self.open()?.write_all(format!("{line}\n").as_bytes())
    }

    fn open(&self) -> io::Result<std::fs::File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(&self.file)
    }
}

fn text(word: &std::ffi::OsStr) -> Value {
    Value::String(word.to_string_lossy().into_owned())
}
