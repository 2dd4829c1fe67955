//! The agent's command line, from variables or from the arguments of this process.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use sandbox_protocol::Hint;
use sandbox_protocol::variable::{AGENT_ARGS, AGENT_ARGS_JSON};
use thiserror::Error;

use crate::environment::Environment;

/// A program to search for, and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// Arguments that cannot be parsed.
#[derive(Debug, Error)]
#[error("`{AGENT_ARGS_JSON}` is not a JSON array of strings")]
pub(crate) struct ArgumentsError {
    /// Position of the error. The value may be secret and is not repeated.
    place: String,
}

impl Hint for ArgumentsError {
    fn hint(&self) -> Option<String> {
        Some(format!(r#"write it like ["--flag", "two words"]; the error is at {}"#, self.place))
    }
}

/// Returns the command line. The program is `named` by a variable, or the first of `words`. Without either, there is no
/// command. The arguments come from the first of the two variables that is set, else from `words`.
pub(crate) fn command_line(
    environment: &Environment,
    named: Option<OsString>,
    words: &[OsString],
) -> Result<Option<CommandLine>, ArgumentsError> {
    let (program, rest) = match (named, words.split_first()) {
        (Some(program), _) => (program, words),
        (None, Some((first, rest))) if !first.is_empty() => (first.clone(), rest),
        (None, _) => return Ok(None),
    };
    let arguments = match (environment.set(AGENT_ARGS_JSON), environment.set(AGENT_ARGS)) {
        (Some(json), _) => from_json(json)?,
        (None, Some(text)) => split(text),
        (None, None) => rest.to_vec(),
    };
    Ok(Some(CommandLine { program, arguments }))
}

fn from_json(text: &[u8]) -> Result<Vec<OsString>, ArgumentsError> {
    let words: Vec<String> = serde_json::from_slice(text).map_err(|error| ArgumentsError {
        place: format!("line {}, column {}", error.line(), error.column()),
    })?;
    if words.iter().any(|word| word.contains('\0')) {
        return Err(ArgumentsError { place: "a NUL character".to_owned() });
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Splits at white space, including that of Unicode. Quotes and backslashes are ordinary characters, because no shell
/// is involved.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = vec![Vec::new()];
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_whitespace() {
                words.push(Vec::new());
            } else if let Some(word) = words.last_mut() {
                word.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if let Some(word) = words.last_mut() {
            word.extend(chunk.invalid());
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a text at `|`.
    fn words(text: &str) -> Vec<OsString> {
        text.split('|').filter(|_| !text.is_empty()).map(OsString::from).collect()
    }

    #[test]
    fn command_line_takes_the_first_source_that_is_set() {
        for (why, variables, named, own, expected) in [
            ("nothing", "", None, "", None),
            ("the words", "", None, "a|b|c", Some("a|b|c")),
            ("an empty word is none", "", None, "|b", None),
            ("the variable", "", Some("cmd"), "", Some("cmd")),
            ("the variable and all words", "", Some("cmd"), "a|b", Some("cmd|a|b")),
            ("ARGS beat words", "AGENT_ARGS=x  y", Some("cmd"), "a", Some("cmd|x|y")),
            ("ARGS for our first word", "AGENT_ARGS=x", None, "a|b", Some("a|x")),
            ("blanks are set, and no argument", "AGENT_ARGS=  \t", Some("cmd"), "a", Some("cmd")),
            ("empty is unset", "AGENT_ARGS=", Some("cmd"), "a", Some("cmd|a")),
            (
                "quotes stay",
                r#"AGENT_ARGS=a "b c" d\ $X"#,
                Some("cmd"),
                "",
                Some(r#"cmd|a|"b|c"|d\|$X"#),
            ),
            (
                "white space of Unicode",
                "AGENT_ARGS=a\u{2003}b\u{a0}c",
                Some("cmd"),
                "",
                Some("cmd|a|b|c"),
            ),
            (
                "JSON beats both",
                r#"AGENT_ARGS_JSON=["a b","","ü"];AGENT_ARGS=x"#,
                Some("cmd"),
                "y",
                Some("cmd|a b||ü"),
            ),
            (
                "an empty array is set",
                "AGENT_ARGS_JSON=[];AGENT_ARGS=x",
                Some("cmd"),
                "y",
                Some("cmd"),
            ),
            (
                "empty JSON is unset",
                "AGENT_ARGS_JSON=;AGENT_ARGS=x",
                Some("cmd"),
                "",
                Some("cmd|x"),
            ),
        ] {
            let environment = Environment::of(variables.split(';').map(Into::into));
            let found = command_line(&environment, named.map(OsString::from), &words(own)).unwrap();
            let found = found.map(|line| [vec![line.program], line.arguments].concat());
            assert_eq!(found, expected.map(words), "{why}");
        }
    }

    #[test]
    fn command_line_refuses_json_that_is_no_array_of_strings_without_saying_it() {
        for json in [
            "{",
            "\"secret\"",
            "[1]",
            "[\"secret\", null]",
            "[\"secret\"] x",
            "[\"sec\\u0000ret\"]",
        ] {
            let environment = Environment::of([format!("AGENT_ARGS_JSON={json}").into_bytes()]);
            let error = command_line(&environment, Some("cmd".into()), &[]).unwrap_err();
            assert!(
                !format!("{error} {}", error.hint().unwrap()).contains("sec"),
                "{json}: {error}"
            );
        }
    }

    #[test]
    fn split_keeps_bytes_that_are_no_text() {
        assert_eq!(split(b"a\xff b"), [OsString::from_vec(b"a\xff".to_vec()), "b".into()]);
    }
}
