//! What happened, one JSON object a line. Never what was said: no bodies, no queries, no headers.

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

/// A longer log begins anew; the one before it stays as `.1`.
const LONGEST: u64 = 32 << 20;

/// The log. Lines are written by many at once: the kernel puts each at the end as a whole. Only who begins
/// a new file keeps the others out.
#[derive(Debug)]
pub(crate) struct Audit(RwLock<Log>);

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    length: AtomicU64,
}

/// One exchange.
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

/// The text that stands in a log where a token stood.
const REDACTED: &str = "[token]";

/// Text of a request as a log may hold it. Every word that is a token, looks like one, or holds one is left
/// out, however it is encoded; `is_token` knows the tokens of sessions.
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

/// Text without percent-encoding, in as many layers as there are.
fn decoded(text: &str) -> Cow<'_, str> {
    let mut plain = Cow::Borrowed(text);
    while let Some(once) = crate::path::decode_text(&plain) {
        plain = Cow::Owned(once);
    }
    plain
}

/// Words of the letters of tokens, and what stands between them.
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

/// A word with `session-` and enough behind it, or with as many hexadecimal digits as our tokens have.
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
    /// One in a file that only its owner reads.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(RwLock::new(Log::open(path)?)))
    }

    /// Writes a line at once: what was done is on record even if the proxy is killed next.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let time = rfc3339(SystemTime::now());
        let Ok(mut text) = serde_json::to_vec(&Stamped { time: &time, line }) else { return };
        text.push(b'\n');
        // A full disk must not stop what is being logged; the gap shows in the log itself.
        let length = self.0.read().unwrap_or_else(PoisonError::into_inner).append(&text);
        if length > LONGEST {
            let _ = self.0.write().unwrap_or_else(PoisonError::into_inner).begin_anew();
        }
    }
}

impl Log {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = AtomicU64::new(file.metadata()?.len());
        Ok(Self { path: path.to_owned(), file, length })
    }

    /// Writes a line, and returns how long the log is then.
    fn append(&self, text: &[u8]) -> u64 {
        let _ = (&self.file).write_all(text);
        let more = text.len() as u64;
        self.length.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Unless somebody else has done so meanwhile.
    fn begin_anew(&mut self) -> io::Result<()> {
        if *self.length.get_mut() > LONGEST {
            std::fs::rename(&self.path, before(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

/// What a line says about use, read again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// When, as RFC 3339 writes it.
    pub time: String,
    /// Whose request it was.
    pub sandbox: Option<String>,
    /// Who was asked.
    pub provider: String,
    /// What came of it.
    pub outcome: String,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's.
    pub bytes_out: u64,
    /// What it cost.
    pub tokens: Tokens,
    /// Whether the provider did not say what it cost.
    #[serde(default)]
    pub estimated: bool,
}

/// Goes through what is left of a log since then, the oldest first. A line that was cut off by a full
/// disk is left out.
pub fn read(path: &Path, since: SystemTime, mut each: impl FnMut(Entry)) -> io::Result<()> {
    let since = rfc3339(since);
    for path in [&before(path), path] {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line?)
                && entry.time >= since
            {
                each(entry);
            }
        }
    }
    Ok(())
}

/// Where the log lies that was too long to go on with.
fn before(path: &Path) -> PathBuf {
    path.with_extension("jsonl.1")
}

/// UTC with milliseconds, as RFC 3339 writes it.
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

/// The date of a day since 1970. Years begin in March here, so that leap days come last.
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
    fn read_gives_back_what_was_written_since_then_and_skips_what_is_broken() {
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
    fn time_is_written_as_everybody_reads_it() {
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
