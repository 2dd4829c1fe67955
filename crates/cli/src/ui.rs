//! Speaking: data on stdout, everything else on stderr, colours only where somebody sees them.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use sandbox_core::Host;

use crate::args::When;

/// Where the program speaks to.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Stdio<'s> {
    out: Box<dyn Write + Send + 's>,
    err: Box<dyn Write + Send + 's>,
    out_colour: bool,
    err_colour: bool,
    /// Whether somebody can be asked.
    pub interactive: bool,
    /// Whether somebody reads stdout.
    pub terminal: bool,
}

/// How a piece of text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warning,
    Quiet,
    Strong,
    /// A line that goes.
    Removed,
    /// Where in a file.
    Place,
}

impl Stdio<'_> {
    /// The process's own descriptors.
    pub(crate) fn real() -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        Self {
            out_colour: out.is_terminal(),
            err_colour: err.is_terminal(),
            interactive: io::stdin().is_terminal() && err.is_terminal(),
            terminal: out.is_terminal(),
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

    /// Data. A reader that has gone away (`| head`) is no error.
    pub(crate) fn data(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// What a program said, and when it said it: on a terminal nothing of it is obeyed but its colours.
    /// Returns whether somebody still reads.
    pub(crate) fn said(&mut self, bytes: &[u8]) -> bool {
        if self.terminal { self.bytes(tamed(bytes).as_bytes()) } else { self.bytes(bytes) }
    }

    /// Data of any bytes. Returns whether somebody still reads.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.out.write_all(bytes).and_then(|()| self.out.flush()).is_ok()
    }

    /// Chatter.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "{text}");
    }

    /// A message with its kind in front: `error: …`, `hint: …`, `note: …`.
    pub(crate) fn labelled(&mut self, tone: Tone, label: &str, text: &str) {
        let label = paint(self.err_colour, tone, label);
        self.say(&format!("{label}: {text}"));
    }

    /// An error with everything that led to it, and what to do next.
    pub(crate) fn error(&mut self, error: &dyn std::error::Error, hint: Option<String>) {
        let mut text = visible(&error.to_string());
        let mut source = error.source();
        while let Some(error) = source {
            let _ = write!(text, "\n  because: {}", visible(&error.to_string()));
            source = error.source();
        }
        self.labelled(Tone::Bad, "error", &text);
        if let Some(hint) = hint {
            self.labelled(Tone::Good, "hint", &visible(&hint));
        }
    }

    /// Text for stdout in a tone.
    pub(crate) fn tone(&self, tone: Tone, text: &str) -> String {
        paint(self.out_colour, tone, text)
    }

    /// Text for stderr in a tone.
    pub(crate) fn err_tone(&self, tone: Tone, text: &str) -> String {
        paint(self.err_colour, tone, text)
    }
}

fn paint(colour: bool, tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "1;31",
        Tone::Warning => "33",
        Tone::Quiet => "2",
        Tone::Strong => "1",
        Tone::Removed => "31",
        Tone::Place => "36",
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Text that comes from files and file names, with everything that could fool a terminal or a
/// reader made visible: control characters, and marks that turn or hide text.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || is_trick(c) => {
                let _ = write!(shown, "{}", c.escape_unicode());
            }
            c => shown.push(c),
        }
    }
    shown
}

/// The same for what programs say, with colours and the beginnings of lines as they are.
fn tamed(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.find(['\r', '\x1b']) {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let length = colour(rest).unwrap_or(1);
        let kept = length > 1 || rest.starts_with('\r');
        shown.push_str(&if kept { rest[..length].into() } else { visible(&rest[..length]) });
        rest = &rest[length..];
    }
    shown + &visible(rest)
}

/// How long the sequence is that a text begins with, if it chooses a colour.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    numbers[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

fn is_trick(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::tamed;

    #[test]
    fn tamed_text_has_colours_and_commands_nobody() {
        for (text, expected) in [
            ("plain é\n", "plain é\n"),
            ("\x1b[1;31mred\x1b[0m\x1b[m", "\x1b[1;31mred\x1b[0m\x1b[m"),
            ("10%\r20%", "10%\r20%"),
            ("\x1b]52;c;eA==\x07", "\\u{1b}]52;c;eA==\\u{7}"),
            ("\x1b[2J\x1b[6n\x1bP", "\\u{1b}[2J\\u{1b}[6n\\u{1b}P"),
            ("\u{9b}2J\u{202e}", "\\u{9b}2J\\u{202e}"),
            ("\x1b[31", "\\u{1b}[31"),
            ("\x1b", "\\u{1b}"),
        ] {
            assert_eq!(tamed(text.as_bytes()), expected, "{text:?}");
        }
    }
}
