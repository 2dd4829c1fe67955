//! Counts tokens in a response stream without delaying it.
//!
//! Providers report counts as numbers with known names, in plain JSON and in events. A model's text is inside JSON
//! strings with escaped quotes, so it cannot imitate such a name. Counts within a response grow, so the largest one is
//! used. A forged count can therefore only increase the charge.

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use sandbox_policy::catalog::PROVIDERS;
use sandbox_policy::catalog::provider::Usage;
use serde::{Deserialize, Serialize};

/// Token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from or written to the provider's cache, if the provider counts them separately.
    pub cached: u64,
}

impl Tokens {
    /// Returns the number that counts against a budget.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output).saturating_add(self.cached)
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cached = self.cached.saturating_add(more.cached);
    }
}

/// Names of counts, from the catalog of providers.
struct Names {
    input: BTreeSet<&'static [u8]>,
    output: BTreeSet<&'static [u8]>,
    /// Each of these is a separate running total.
    cached: Vec<&'static [u8]>,
    /// Last words of the names, with the closing quote.
    ends: Vec<Finder<'static>>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let of = |names: fn(&'static Usage) -> &'static [&'static str]| {
        PROVIDERS.iter().flat_map(move |row| names(&row.usage)).map(|name| name.as_bytes())
    };
    let cached: BTreeSet<_> = of(|usage| usage.cached).collect();
    let mut names = Names {
        input: of(|usage| usage.input).collect(),
        output: of(|usage| usage.output).collect(),
        cached: cached.into_iter().collect(),
        ends: Vec::new(),
    };
    let all = names.input.iter().chain(&names.output).chain(&names.cached);
    let ends: BTreeSet<Vec<u8>> = all.map(|name| [last_word(name), b"\""].concat()).collect();
    names.ends = ends.iter().map(|end| Finder::new(end).into_owned()).collect();
    names
});

/// Returns the last word of a name: `_count` of `eval_count`, `Count` of `TokenCount`.
fn last_word(name: &[u8]) -> &[u8] {
    let begin = name.iter().rposition(|byte| *byte == b'_' || byte.is_ascii_uppercase());
    &name[begin.unwrap_or(0)..]
}

/// Longest entry: a name with quotes, a colon, blanks and a number.
const WINDOW: usize = 96;

/// Relation of the counts in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// One response. Later counts include earlier ones.
    Answer,
    /// Several responses on a connection. Counts add up.
    Conversation,
}

/// Counter of the tokens reported in a stream.
#[derive(Debug)]
pub(crate) struct Counter {
    counting: Counting,
    tokens: Tokens,
    /// Counts in the order of `NAMES.cached`.
    cached: Vec<u64>,
    /// End of the previous pieces, if an entry may have begun there.
    tail: Vec<u8>,
    seen: bool,
}

impl Counter {
    pub(crate) fn new(counting: Counting) -> Self {
        Self {
            counting,
            tokens: Tokens::default(),
            cached: Vec::new(),
            tail: Vec::new(),
            seen: false,
        }
    }

    /// Processes the next piece.
    pub(crate) fn see(&mut self, piece: &[u8]) {
        if self.tail.is_empty() {
            self.scan(piece, piece.len());
            self.tail.extend_from_slice(unfinished(piece));
            return;
        }
        let mut joint = std::mem::take(&mut self.tail);
        let old = joint.len();
        joint.extend_from_slice(&piece[..piece.len().min(WINDOW)]);
        if piece.len() <= WINDOW {
            self.scan(&joint, joint.len());
            self.tail.extend_from_slice(unfinished(&joint));
        } else {
            // An entry that began in the tail ends within the window.
            self.scan(&joint, old);
            self.scan(piece, piece.len());
            self.tail.extend_from_slice(unfinished(piece));
        }
    }

    /// Returns the counts, or `None` if the stream had none.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.seen.then_some(self.tokens)
    }

    /// Counts all entries whose name begins before `end`.
    fn scan(&mut self, bytes: &[u8], end: usize) {
        for finder in &NAMES.ends {
            for at in finder.find_iter(bytes) {
                let quote = at + finder.needle().len() - 1;
                if let Some((name, number)) =
                    entry(bytes, quote).filter(|(name, _)| name.start <= end)
                {
                    self.note(&bytes[name], number);
                }
            }
        }
    }

    fn note(&mut self, name: &[u8], number: u64) {
        let sum = if NAMES.input.contains(name) {
            &mut self.tokens.input
        } else if NAMES.output.contains(name) {
            &mut self.tokens.output
        } else if let Some(at) = NAMES.cached.iter().position(|cached| *cached == name) {
            self.cached.resize(NAMES.cached.len(), 0);
            &mut self.cached[at]
        } else {
            return;
        };
        self.seen = true;
        match self.counting {
            Counting::Answer => *sum = (*sum).max(number),
            Counting::Conversation => *sum = sum.saturating_add(number),
        }
        self.tokens.cached = self.cached.iter().fold(0, |sum, count| sum.saturating_add(*count));
    }
}

/// Returns the name that ends at this quote, and the number after it. A number at the end of the bytes may continue in
/// the next piece and does not count yet.
fn entry(bytes: &[u8], quote: usize) -> Option<(std::ops::Range<usize>, u64)> {
    let begin = memchr::memrchr(b'"', &bytes[quote.saturating_sub(WINDOW)..quote])?;
    let begin = quote.saturating_sub(WINDOW) + begin + 1;
    let mut rest = skip_blanks(&bytes[quote + 1..]).strip_prefix(b":")?;
    rest = skip_blanks(rest);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits == rest.len() || digits > 15 {
        return None;
    }
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((begin..quote, number))
}

/// Returns the end of a piece if it may be the beginning of an entry, such as `"name` or `"name": 12`.
fn unfinished(bytes: &[u8]) -> &[u8] {
    let window = &bytes[bytes.len().saturating_sub(WINDOW)..];
    let before = |bytes: &[u8], is: fn(&u8) -> bool| {
        bytes.iter().rposition(|byte| !is(byte)).map_or(0, |at| at + 1)
    };
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let mut end = before(window, u8::is_ascii_digit);
    end = before(&window[..end], blank);
    end -= usize::from(window[..end].ends_with(b":"));
    end = before(&window[..end], blank);
    let closed = end - usize::from(window[..end].ends_with(b"\""));
    let name = before(&window[..closed], letter);
    let quoted = window[..name].ends_with(b"\"");
    match () {
        // A complete name, or one that continues in the next piece.
        () if quoted && (closed < end || end == window.len()) => &window[name - 1..],
        // A quote that may begin a name.
        () if closed < end && end == window.len() => &window[closed..],
        () => &[],
    }
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    &bytes[blanks..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, size: usize) -> Option<Tokens> {
        let mut counter = Counter::new(Counting::Answer);
        text.as_bytes().chunks(size).for_each(|piece| counter.see(piece));
        counter.tokens()
    }

    const STREAM: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,",
        "\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\n",
        "event: content_block_delta\ndata: {\"delta\":{\"text\":\"\\\"output_tokens\\\": 99999, it said\"}}\n\n",
        "event: message_delta\ndata: {\"usage\":{\"output_tokens\": 15}}\n\n",
    );

    #[test]
    fn counts_are_found_in_every_dialect_and_split() {
        let tokens = |input, output, cached| Some(Tokens { input, output, cached });
        for (text, expected) in [
            (STREAM, tokens(25, 15, 10)),
            (
                r#"{"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":4}}}"#,
                tokens(9, 12, 0),
            ),
            (r#"{"usage" : { "input_tokens" : 3 , "output_tokens" : 4 } }"#, tokens(3, 4, 0)),
            (
                r#"{"done":true,"prompt_eval_count":26,"eval_count":298,"eval_duration":4709213000}"#,
                tokens(26, 298, 0),
            ),
            (
                r#"{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":6,"totalTokenCount":11}}"#,
                tokens(5, 6, 0),
            ),
            (r#"{"max_tokens":1024,"text":"no usage"}"#, None),
            (r#"{"output_tokens":-5,"input_tokens":null}"#, None),
            ("", None),
        ] {
            for size in (1..40).chain([100, 1000]) {
                assert_eq!(count(text, size), expected, "{size}: {text}");
            }
        }
    }

    #[test]
    fn counts_of_a_conversation_add_up() {
        let mut counter = Counter::new(Counting::Conversation);
        for _ in 0..3 {
            counter.see(
                br#"{"type":"response.completed","usage":{"input_tokens":5,"output_tokens":2}}"#,
            );
        }
        assert_eq!(counter.tokens(), Some(Tokens { input: 15, output: 6, cached: 0 }));
    }
}
