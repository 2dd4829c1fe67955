//! Output: data on stdout, everything else on stderr, colours only on terminals.

pub(crate) mod ask;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

#[cfg(feature = "sessions")]
use sandbox_linux::escape::tamed;
pub(crate) use sandbox_linux::escape::{one_line, visible};
use sandbox_policy::Host;

use crate::args::When;

/// Number of lines of a list that are printed on a terminal.
#[cfg(feature = "layers")]
const LONGEST_LIST: usize = 40;

/// Describes the lines of a list that are left out.
#[cfg(feature = "layers")]
pub(crate) fn and_more(count: usize) -> String {
    format!("… and {count} more; pipe the output to see all")
}

/// Standard output and standard error, and their properties.
#[allow(clippy::struct_excessive_bools, reason = "each field is an independent property")]
pub(crate) struct Stdio<'s> {
    out: Box<dyn Write + Send + 's>,
    err: Box<dyn Write + Send + 's>,
    out_colour: bool,
    err_colour: bool,
    /// True when the user can be asked: stdin and stderr are terminals.
    pub interactive: bool,
    /// True when stdout is a terminal.
    pub terminal: bool,
    /// True when stderr is a terminal.
    pub err_terminal: bool,
}

/// Colour or style of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warning,
    Quiet,
    Strong,
    /// Removed line.
    Removed,
    /// Position in a file.
    Position,
}

impl Stdio<'_> {
    /// Returns the process's own descriptors.
    pub(crate) fn real() -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        Self {
            out_colour: out.is_terminal(),
            err_colour: err.is_terminal(),
            interactive: io::stdin().is_terminal() && err.is_terminal(),
            terminal: out.is_terminal(),
            err_terminal: err.is_terminal(),
            out: Box::new(out),
            err: Box::new(err),
        }
    }

    /// Applies `--color`, `NO_COLOR` and `TERM=dumb`.
    pub(crate) fn colour(&mut self, when: When, host: &Host) {
        let unwanted =
            host.var("NO_COLOR").is_some() || host.var("TERM").is_some_and(|term| term == "dumb");
        let decide = |terminal: bool| match when {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal && !unwanted,
        };
        (self.out_colour, self.err_colour) = (decide(self.out_colour), decide(self.err_colour));
    }

    /// Prints data on stdout. A closed pipe (`| head`) is not an error.
    pub(crate) fn data(&mut self, text: &str) {
        let text = if self.terminal { own_tones(self.out_colour, text) } else { text.to_owned() };
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Prints a message on stderr. It may contain file names and other text from a sandbox, so all control characters
    /// except our own tones are escaped.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", own_tones(self.err_colour, text));
    }

    /// Prints a message with a label: `error: …`, `hint: …`, `note: …`.
    pub(crate) fn labelled(&mut self, tone: Tone, label: &str, text: &str) {
        let label = paint(self.err_colour, tone, label);
        self.say(&format!("{label}: {text}"));
    }

    /// Prints a note.
    pub(crate) fn note(&mut self, text: &str) {
        self.labelled(Tone::Warning, "note", text);
    }

    /// Prints a hint.
    pub(crate) fn hint(&mut self, text: &str) {
        self.labelled(Tone::Good, "hint", text);
    }

    /// Prints an error, its chain of causes, and its hint.
    pub(crate) fn error(&mut self, error: &dyn std::error::Error, hint: Option<String>) {
        let mut text = indented(&error.to_string());
        let mut source = error.source();
        while let Some(error) = source {
            let _ = write!(text, "\n  because: {}", indented(&error.to_string()));
            source = error.source();
        }
        self.labelled(Tone::Bad, "error", &text);
        if let Some(hint) = hint {
            self.hint(&indented(&hint));
        }
    }

    /// Formats text for stdout in a tone.
    pub(crate) fn tone(&self, tone: Tone, text: &str) -> String {
        paint(self.out_colour, tone, text)
    }

    /// Formats text for stderr in a tone.
    pub(crate) fn err_tone(&self, tone: Tone, text: &str) -> String {
        paint(self.err_colour, tone, text)
    }
}

#[cfg(feature = "layers")]
impl Stdio<'_> {
    /// Returns how many lines of a list are printed: on a terminal the first ones of a long list.
    pub(crate) fn most(&self, count: usize) -> usize {
        if self.terminal && count > LONGEST_LIST { LONGEST_LIST } else { count }
    }

    /// Prints output of a program. On a terminal only its colours take effect. Returns false when stdout is closed.
    #[cfg(feature = "sessions")]
    pub(crate) fn said(&mut self, bytes: &[u8]) -> bool {
        if self.terminal { self.bytes(tamed(bytes).as_bytes()) } else { self.bytes(bytes) }
    }

    /// Prints bytes on stdout. Returns false when stdout is closed.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.out.write_all(bytes).and_then(|()| self.out.flush()).is_ok()
    }
}

fn paint(colour: bool, tone: Tone, text: &str) -> String {
    if colour { format!("{}{text}{RESET}", start(tone)) } else { text.to_owned() }
}

const RESET: &str = "\x1b[0m";
const TONES: [Tone; 7] = [
    Tone::Good,
    Tone::Bad,
    Tone::Warning,
    Tone::Quiet,
    Tone::Strong,
    Tone::Removed,
    Tone::Position,
];

/// Returns the escape sequence that starts a tone.
fn start(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "\x1b[32m",
        Tone::Bad => "\x1b[1;31m",
        Tone::Warning => "\x1b[33m",
        Tone::Quiet => "\x1b[2m",
        Tone::Strong => "\x1b[1m",
        Tone::Removed => "\x1b[31m",
        Tone::Position => "\x1b[36m",
    }
}

/// Escapes control characters in a message, except our own tones if there is colour.
fn own_tones(colour: bool, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let known = || TONES.into_iter().map(start).chain([RESET]);
        let own = known().find(|own| colour && rest.starts_with(own));
        let length = own.map_or(1, str::len);
        shown.push_str(&own.map_or_else(|| visible(&rest[..length]), str::to_owned));
        rest = &rest[length..];
    }
    shown + &visible(rest)
}

/// Escapes a message and indents its continuation lines, so that text with line breaks cannot imitate our labels.
pub(crate) fn indented(text: &str) -> String {
    let visible = visible(text);
    let mut lines = visible.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| {
        let margin = if line.is_empty() || line.starts_with([' ', '\t']) { "" } else { "  " };
        format!("{text}\n{margin}{line}")
    })
}

#[cfg(test)]
mod tests {
    use super::{RESET, Tone, own_tones, paint};

    #[test]
    fn only_our_own_tones_take_effect() {
        let tone = paint(true, Tone::Quiet, "quiet");
        assert_eq!(own_tones(true, &tone), tone);
        for (text, expected) in [
            ("\x1b[8mgone", "\\u{1b}[8mgone"),
            ("\x1b[38;5;0m", "\\u{1b}[38;5;0m"),
            ("a\rb\u{9b}8m", "a\\u{d}b\\u{9b}8m"),
            ("\u{202e}x\u{2066}", "\\u{202e}x\\u{2066}"),
            ("\x1b", "\\u{1b}"),
            ("\x07\x7f\u{85}", "\\u{7}\\u{7f}\\u{85}"),
        ] {
            assert_eq!(own_tones(true, text), expected, "{text:?}");
        }
        assert_eq!(
            own_tones(false, RESET),
            "\\u{1b}[0m",
            "without colour, our own tones are escaped too"
        );
    }
}
