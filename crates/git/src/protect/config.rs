//! Parser for git's configuration syntax. Git itself never runs on a repository that a sandbox could
//! write, because it would already apply the configuration that it reads.

use thiserror::Error;

/// One `key = value` line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var {
    /// The section, lower case.
    pub section: String,
    /// The subsection, as written.
    pub subsection: Option<Vec<u8>>,
    /// The key, lower case.
    pub key: String,
    /// The value; `None` for a key alone, which git reads as true.
    pub value: Option<Vec<u8>>,
}

impl Var {
    /// Returns true when this is `section.key` or `section.*.key`.
    pub fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.key == key
    }

    /// Splits a name as git does. Git keeps names and values as C strings, which end at a NUL byte, and
    /// splits a name at its first and its last dot: `[filter.a "b"]` is the filter `a.b`, and `[core
    /// "editor\0"]` is `core.editor`.
    fn of(name: Vec<u8>, value: Option<Vec<u8>>) -> Self {
        let name = c_string(name);
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_dot = |byte: &u8| *byte == b'.';
        let (section, rest) = match name.iter().position(is_dot) {
            Some(dot) => (&name[..dot], &name[dot + 1..]),
            None => (&[][..], &name[..]),
        };
        let (subsection, key) = match rest.iter().rposition(is_dot) {
            Some(dot) => (Some(rest[..dot].to_vec()), &rest[dot + 1..]),
            None => (None, rest),
        };
        let value = value.map(c_string);
        Self { section: lossy(section), subsection, key: lossy(key), value }
    }

    /// Returns the value if it is valid UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.value.as_deref().and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// Syntax error in a file, which git would refuse too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("line {line} is not valid git configuration")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
}

/// Parses a configuration file.
///
/// ```
/// let vars = sandbox_git::protect::config::parse(b"[Core]\n\thooksPath = \"tools/hooks\" ; ours")?;
/// assert!(vars[0].is("core", "hookspath"));
/// assert_eq!(vars[0].text(), Some("tools/hooks"));
/// # Ok::<(), sandbox_git::protect::config::ConfigError>(())
/// ```
pub fn parse(text: &[u8]) -> Result<Vec<Var>, ConfigError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut parser = Parser { text, at: 0, line: 1 };
    let mut vars = Vec::new();
    let mut base = Vec::new();
    while let Some(byte) = parser.next() {
        match byte {
            b'#' | b';' => parser.skip_line(),
            b'[' => base = parser.section()?,
            byte if byte.is_ascii_alphabetic() => {
                let (key, value) = parser.variable(byte)?;
                vars.push(Var::of([&base, key.as_bytes()].concat(), value));
            }
            byte if is_space(byte) => {}
            _ => return Err(parser.error()),
        }
    }
    Ok(vars)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl Parser<'_> {
    fn error(&self) -> ConfigError {
        ConfigError { line: self.line }
    }

    /// Returns the next byte, with `\r\n` read as `\n`.
    fn next(&mut self) -> Option<u8> {
        let mut byte = *self.text.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.text.get(self.at) == Some(&b'\n') {
            self.at += 1;
            byte = b'\n';
        }
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    /// Returns the next byte, or a newline at the end of the file.
    fn next_or_newline(&mut self) -> u8 {
        self.next().unwrap_or(b'\n')
    }

    fn skip_line(&mut self) {
        while self.next_or_newline() != b'\n' {}
    }

    /// Parses a section header. Returns the prefix of its keys, including the last dot.
    fn section(&mut self) -> Result<Vec<u8>, ConfigError> {
        let mut name = Vec::new();
        loop {
            match self.next().ok_or(self.error())? {
                b']' => break,
                byte if is_space(byte) => {
                    name.push(b'.');
                    name.extend(self.quoted_subsection(byte)?);
                    break;
                }
                byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return Err(self.error()),
            }
        }
        name.push(b'.');
        Ok(name)
    }

    fn quoted_subsection(&mut self, mut byte: u8) -> Result<Vec<u8>, ConfigError> {
        while is_space(byte) {
            if byte == b'\n' {
                return Err(self.error());
            }
            byte = self.next_or_newline();
        }
        if byte != b'"' {
            return Err(self.error());
        }
        let mut name = Vec::new();
        loop {
            match self.next_or_newline() {
                b'\n' => return Err(self.error()),
                b'"' => break,
                b'\\' => match self.next_or_newline() {
                    b'\n' => return Err(self.error()),
                    escaped => name.push(escaped),
                },
                byte => name.push(byte),
            }
        }
        if self.next_or_newline() == b']' { Ok(name) } else { Err(self.error()) }
    }

    fn variable(&mut self, first: u8) -> Result<(String, Option<Vec<u8>>), ConfigError> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next_or_newline();
        while is_key(byte) {
            key.push(char::from(byte.to_ascii_lowercase()));
            byte = self.next_or_newline();
        }
        while byte == b' ' || byte == b'\t' {
            byte = self.next_or_newline();
        }
        match byte {
            b'\n' => Ok((key, None)),
            b'=' => Ok((key, Some(self.value()?))),
            _ => Err(self.error()),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, ConfigError> {
        let (mut value, mut kept, mut quoted) = (Vec::new(), 0, false);
        loop {
            match self.next_or_newline() {
                b'\n' if quoted => return Err(self.error()),
                b'\n' => break,
                byte if is_space(byte) && !quoted => {
                    // Blanks count between words only.
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    self.skip_line();
                    break;
                }
                b'\\' => match self.next_or_newline() {
                    // The line continues, and the blanks before its end are part of the value.
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return Err(self.error()),
                },
                b'"' => quoted = !quoted,
                byte => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Ok(value)
    }
}

fn c_string(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Returns true for the bytes that git's `isspace` accepts, which excludes vertical tab and form feed.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_agrees_with_git_on_odd_spellings() {
        for (why, text, expected) in [
            ("no section", "k=1", &["k=1"][..]),
            ("plain", "[core]\n\teditor = vi\n", &["core.editor=vi"]),
            ("one line, any case", "[CoRe]EdItOr=vi", &["core.editor=vi"]),
            ("subsection keeps its case", "[Diff \"A.b\"]\ncommand=x", &["diff.A.b.command=x"]),
            ("escapes in a subsection", "[a \"x\\\"y\\\\\"]k=1", &["a.x\"y\\.k=1"]),
            ("old subsection", "[a.B]\nk=1", &["a.b.k=1"]),
            ("comments", "# x\n[a] ; y\nk = v # z\n l = \"a;b\" ; c", &["a.k=v", "a.l=a;b"]),
            ("continuation", "[a]\nk = one \\\n  two\n", &["a.k=one   two"]),
            ("escaped", "[a]\nk = \"a\\tb\\\\\\\"\" ", &["a.k=a\tb\\\""]),
            ("quoted blanks", "[a]\nk =   \" x \"  \n", &["a.k= x "]),
            ("no value", "[a]\nk\n", &["a.k"]),
            ("byte order mark and crlf", "\u{feff}[a]\r\nk = v\r\n", &["a.k=v"]),
            ("value up to a NUL", "[core]\nhooksPath = x\0y", &["core.hookspath=x"]),
            ("name up to a NUL", "[core \"hookspath\0\"]\ny = x", &["core.hookspath=x"]),
            ("both subsections", "[filter.a \"b\"]\nclean = x", &["filter.a.b.clean=x"]),
            ("comment swallows a backslash", "[a]\nk = v # \\\nl = w\n", &["a.k=v", "a.l=w"]),
        ] {
            let vars = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{why}: {error}"));
            assert_eq!(vars.iter().map(show).collect::<Vec<_>>(), expected, "{why}");
            assert_eq!(from_git(text), expected.join("\0"), "git itself: {why}");
        }
    }

    #[test]
    fn parse_finds_the_key_when_the_name_is_spelled_oddly() {
        for (text, section, key) in [
            ("[core \"hookspath\0\"]\ny = x", "core", "hookspath"),
            ("[filter.a \"b\"]\nclean = x", "filter", "clean"),
            ("[filter.a.b]\nclean = x", "filter", "clean"),
            ("[filter \"a.b\"]\nclean = x", "filter", "clean"),
        ] {
            assert!(parse(text.as_bytes()).unwrap()[0].is(section, key), "{text:?}");
        }
    }

    #[test]
    fn parse_fails_where_git_fails() {
        for text in
            ["[a", "[a b]", "[a \"b\nc\"]", "[a]\n-k=1", "[a]k=\"x\n", "[a]k=\\q", "[a]\n=x"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
            assert_eq!(from_git(text), "failed", "git itself: {text:?}");
        }
    }

    fn show(var: &Var) -> String {
        let mut name = var.section.clone();
        if let Some(sub) = &var.subsection {
            name = format!("{name}.{}", String::from_utf8_lossy(sub));
        }
        let value = var.value.as_deref().map(String::from_utf8_lossy);
        let dot = if name.is_empty() { "" } else { "." };
        format!(
            "{name}{dot}{}{}",
            var.key,
            value.map_or(String::new(), |value| format!("={value}"))
        )
    }

    fn from_git(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config"), text).unwrap();
        let output = std::process::Command::new("git")
            .args(["config", "-z", "--list", "--file"])
            .arg(dir.path().join("config"))
            .output()
            .unwrap();
        if !output.status.success() {
            return "failed".to_owned();
        }
        let list = String::from_utf8(output.stdout).unwrap();
        list.trim_end_matches('\0')
            .split('\0')
            .map(|var| var.replacen('\n', "=", 1))
            .collect::<Vec<_>>()
            .join("\0")
    }
}
