//! Parser for the output of strace.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Successful system call, with the time of its end.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Time of its start.
    pub(crate) time: f64,
    pub(crate) call: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) result: i64,
    /// File of the descriptor that it returned.
    pub(crate) opened: Option<PathBuf>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Returns a descriptor with its path.
    Descriptor(i64, PathBuf),
    Bytes(Vec<u8>),
    Word(String),
}

impl Event {
    /// Returns true when it waits for the disk.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.call.as_str(), "fsync" | "fdatasync")
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        let Argument::Word(word) = &self.arguments[index] else { panic!("no number: {self:?}") };
        let word = word.trim_start_matches('[').trim_end_matches(']');
        word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
    }

    pub(crate) fn path(&self, index: usize) -> PathBuf {
        use std::os::unix::ffi::OsStringExt;
        match &self.arguments[index] {
            Argument::Descriptor(_, path) => path.clone(),
            Argument::Bytes(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes.clone())),
            Argument::Word(word) => panic!("no path: {word}"),
        }
    }

    pub(crate) fn descriptor(&self) -> i64 {
        let Some(Argument::Descriptor(number, _)) = self.arguments.first() else { return -1 };
        *number
    }

    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        let Argument::Bytes(bytes) = &self.arguments[index] else {
            panic!("no bytes: {}", self.call)
        };
        bytes
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.arguments
            .iter()
            .any(|argument| matches!(argument, Argument::Word(words) if words.contains(word)))
    }
}

/// Returns all calls, ordered by their end.
pub(crate) fn read(text: &str) -> Vec<Event> {
    let mut open = BTreeMap::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').unwrap();
        let (time, rest) = rest.trim_start().split_once(' ').unwrap();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            open.insert(thread.to_owned(), (time.to_owned(), start.to_owned()));
        } else if let Some(end) = rest.strip_prefix("<... ") {
            let (_, end) = end.split_once(" resumed>").unwrap();
            let (time, start) = open.remove(thread).unwrap();
            events.extend(event(&time, &format!("{start}{end}")));
        } else {
            events.extend(event(time, rest));
        }
    }
    events
}

/// Parses one line. Returns nothing for a call that failed.
fn event(time: &str, text: &str) -> Option<Event> {
    let (call, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let number: String = result.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    let code: i64 = number.parse().ok()?;
    let opened = result.strip_prefix(&number).and_then(angle);
    (code >= 0).then(|| Event {
        time: time.parse().unwrap(),
        call: call.to_owned(),
        arguments: split(arguments).iter().map(|word| argument(word)).collect(),
        result: code,
        opened,
    })
}

/// Splits at commas outside strings, brackets and paths.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut depth, mut quoted) = (Vec::new(), String::new(), 0, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' | '<' if !quoted => depth += 1,
            ']' | '}' | '>' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                words.push(std::mem::take(&mut word).trim().to_owned());
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    words.push(word.trim().to_owned());
    words
}

fn argument(word: &str) -> Argument {
    if let Some(string) = word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
        return Argument::Bytes(unescape(string));
    }
    let number: String = word.chars().take_while(char::is_ascii_digit).collect();
    let name = word
        .strip_prefix("AT_FDCWD")
        .or_else(|| word.strip_prefix(&*number).filter(|_| !number.is_empty()));
    match name.and_then(angle) {
        Some(path) => Argument::Descriptor(number.parse().unwrap_or(-100), path),
        None => Argument::Word(word.to_owned()),
    }
}

/// Returns `<path>`, which strace prints after a descriptor.
fn angle(text: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let inner = text.trim().strip_prefix('<')?.split('>').next()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(unescape(inner))))
}

/// Decodes `\xNN`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let (b'\\', [b'x', high, low, tail @ ..]) = (*first, tail) {
            let digit = |byte: &u8| u8::try_from((*byte as char).to_digit(16).unwrap()).unwrap();
            bytes.push(digit(high) << 4 | digit(low));
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}
