//! Audit log, one JSON object per line. It holds metadata only: no bodies, queries or headers.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::token;
use crate::usage::Tokens;

/// Size at which the log is rotated. The previous log is kept as `.1`.
const LONGEST: u64 = 32 << 20;

/// Audit log. Lines are written concurrently, because `O_APPEND` writes are atomic (`open(2)`). Only a rotation takes
/// the write lock.
#[derive(Debug)]
pub(crate) struct Audit(RwLock<Log>);

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    length: AtomicU64,
}

/// Log line of one exchange.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'l> {
    pub session: Option<&'l str>,
    pub sandbox: Option<&'l str>,
    pub provider: &'static str,
    pub method: &'l str,
    pub path: &'l str,
    pub status: u16,
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub taken_out: &'l [String],
    pub bytes_in: u64,
    pub bytes_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    pub ms: u64,
    pub tokens: Tokens,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Replacement for a token in a log.
const REDACTED: &str = "[token]";

/// Returns a request's text with every word replaced that is a token, looks like one, or contains one, in any encoding.
/// `is_token` recognizes the tokens of sessions.
pub(crate) fn redacted(text: &str, is_token: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let plain = decoded(text);
    let mut out = String::new();
    let mut found = false;
    for piece in pieces(&plain) {
        let hides = looks_like_token(piece) || piece.len() >= token::SHORTEST && is_token(piece);
        found |= hides;
        out.push_str(if hides { REDACTED } else { piece });
    }
    if found { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

/// Decodes all layers of percent-encoding.
fn decoded(text: &str) -> Cow<'_, str> {
    let mut plain = Cow::Borrowed(text);
    while let Some(once) = crate::path::decode_text(&plain) {
        plain = Cow::Owned(once);
    }
    plain
}

/// Splits text into words of token characters and the separators between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let in_word = token::has_letter(first);
        let end = rest.find(|letter| token::has_letter(letter) != in_word).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

/// Returns true for a word that contains `session-` and enough characters after it, or as many hexadecimal digits as a
/// generated token.
fn looks_like_token(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let named = lower
        .match_indices(token::PREFIX)
        .any(|(at, prefix)| lower.len() - at - prefix.len() >= token::SHORTEST);
    let digits = lower.split(|letter: char| !letter.is_ascii_hexdigit());
    named || digits.into_iter().any(|digits| digits.len() >= token::GENERATED)
}

#[derive(Serialize)]
struct Stamped<'l> {
    time: &'l str,
    #[serde(flatten)]
    line: &'l Line<'l>,
}

impl Audit {
    /// Opens a log that only its owner can read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(RwLock::new(Log::open(path)?)))
    }

    /// Writes a line immediately, so it is recorded even if the proxy is killed next.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let time = rfc3339(SystemTime::now());
        let Ok(mut text) = serde_json::to_vec(&Stamped { time: &time, line }) else { return };
        text.push(b'\n');
        // A full disk must not stop the proxy. The gap is visible in the log.
        let length = self.0.read().unwrap_or_else(PoisonError::into_inner).append(&text);
        if length > LONGEST {
            let _ = self.0.write().unwrap_or_else(PoisonError::into_inner).rotate();
        }
    }
}

impl Log {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = AtomicU64::new(file.metadata()?.len());
        Ok(Self { path: path.to_owned(), file, length })
    }

    /// Appends a line. Returns the new length of the log.
    fn append(&self, text: &[u8]) -> u64 {
        let _ = (&self.file).write_all(text);
        let more = text.len() as u64;
        self.length.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Rotates the log, unless another thread just did.
    fn rotate(&mut self) -> io::Result<()> {
        if *self.length.get_mut() > LONGEST {
            std::fs::rename(&self.path, before(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

/// Usage fields of a log line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditEntry {
    /// Time in RFC 3339 format.
    pub time: String,
    /// The sandbox that sent the request.
    pub sandbox: Option<String>,
    /// The provider.
    pub provider: String,
    /// How the exchange ended.
    pub outcome: String,
    /// Size of the request's body.
    pub bytes_in: u64,
    /// Size of the response's body.
    pub bytes_out: u64,
    /// Token usage.
    pub tokens: Tokens,
    /// True when the token counts are estimates.
    #[serde(default)]
    pub estimated: bool,
}

/// Calls `each` for every log entry since the given time, oldest first. Skips lines that a full disk truncated.
pub fn read(path: &Path, since: SystemTime, mut each: impl FnMut(AuditEntry)) -> io::Result<()> {
    let since = rfc3339(since);
    for path in [&before(path), path] {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            if let Ok(entry) = serde_json::from_slice::<AuditEntry>(&line?)
                && entry.time >= since
            {
                each(entry);
            }
        }
    }
    Ok(())
}

/// Path of the rotated log.
fn before(path: &Path) -> PathBuf {
    path.with_extension("jsonl.1")
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = date(days);
    let mut text = String::from("0000-00-00T00:00:00.000Z").into_bytes();
    let mut put = |end: usize, mut number: u64| {
        for digit in text[..end].iter_mut().rev().take_while(|digit| digit.is_ascii_digit()) {
            *digit = b"0123456789"[usize::try_from(number % 10).unwrap_or(0)];
            number /= 10;
        }
    };
    put(4, year);
    put(7, month);
    put(10, day);
    put(13, second / 3600);
    put(16, second / 60 % 60);
    put(19, second % 60);
    put(23, since.subsec_millis().into());
    String::from_utf8(text).unwrap_or_default()
}

/// Converts days since 1970 to a date. The computed year begins in March, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let civil = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(civil <= 2), civil, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_leaves_tokens_out_in_every_spelling() {
        let token = "0123456789abcdef".repeat(4);
        let own = "a-token.of_another~maker-with-32-letters";
        let encoded = token.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
        let twice = encoded.replace('%', "%25");
        for (text, expected) in [
            (format!("/session-{token}/v1"), "/[token]/v1"),
            (format!("/{token}/v1"), "/[token]/v1"),
            (format!("/v1/key-{token}"), "/v1/[token]"),
            (format!("/{}", token.to_uppercase()), "/[token]"),
            (format!("/a/{encoded}"), "/a/[token]"),
            (format!("/a/{twice}"), "/a/[token]"),
            (format!("/%73ession%2d{token}"), "/[token]"),
            (format!("/x/{own}/y"), "/x/[token]/y"),
            (format!("/x/session-{own}"), "/x/[token]"),
        ] {
            assert_eq!(redacted(&text, |word| word == own), expected, "{text}");
        }
        for text in
            ["/v1/messages", "/v1/a%20b", "/v1/responses/resp_68af4030592c81938ec0a5fb", "/%", "/ü"]
        {
            assert_eq!(redacted(text, |_| false), text);
        }
    }
    use std::time::Duration;

    #[test]
    fn read_returns_entries_since_a_time_and_skips_broken_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let line = |time: &str, rest: &str| {
            format!(
                "{{\"time\":\"{time}\",\"sandbox\":null,\"provider\":\"x\",\"outcome\":\"complete\",\"bytes_in\":1,{rest}\n"
            )
        };
        let whole = "\"bytes_out\":2,\"tokens\":{\"input\":3,\"output\":4,\"cached\":0}}";
        std::fs::write(before(&path), line("2026-11-15T00:00:00.000Z", whole)).unwrap();
        let lines = [line("2026-11-16T00:00:00.000Z", whole), line("2026-11-17", "\"bytes_o")];
        std::fs::write(&path, lines.concat()).unwrap();
        let seen = |since: u64| {
            let mut seen = Vec::new();
            read(&path, UNIX_EPOCH + Duration::from_secs(since), |entry| seen.push(entry.time))
                .unwrap();
            seen
        };
        assert_eq!(seen(0), ["2026-11-15T00:00:00.000Z", "2026-11-16T00:00:00.000Z"]);
        assert_eq!(seen(1_794_787_200), ["2026-11-16T00:00:00.000Z"]);
        assert_eq!(read(&dir.path().join("none"), UNIX_EPOCH, |_| {}).unwrap(), ());
    }

    #[test]
    fn rfc3339_formats_times_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_794_787_200, "2026-11-16T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
