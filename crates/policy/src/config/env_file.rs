//! Parser for `.env` files, for `env_file` and for `from_env_file` of a secret.
//!
//! A line is `NAME=VALUE`, optionally after `export `, with optional blanks around the name and the value. Empty lines
//! and lines that start with `#` are ignored. The value
//!
//! - ends at a `#` after a blank if it has no quotes,
//! - is literal between single quotes,
//! - can contain `\n`, `\"`, `\\` and `\$` between double quotes. Variables are never expanded.

use std::io;

/// Returns every variable of a file, in order. Fails at the first line that does not set a variable.
pub fn variables(text: &str) -> io::Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
        let Some((name, value)) = assignment(line).filter(|(name, _)| is_variable(name)) else {
            let wrong = format!("line {} is not `NAME=VALUE`", index + 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
        };
        pairs.push((name.to_owned(), unquoted(value)));
    }
    Ok(pairs)
}

/// Returns the value of one variable. The last line with the name wins. Other lines need not be valid, and their values
/// are not copied.
pub fn value(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().rev().filter(|line| !is_comment(line)).filter_map(assignment);
    lines.find(|(left, _)| *left == name).map(|(_, right)| unquoted(right))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Splits a line into the name and the text after `=`.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = line.split_once('=')?;
    Some((name.trim_end(), value))
}

fn is_variable(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(letters)
}

fn unquoted(right: &str) -> String {
    let text = right.trim_start();
    if let Some((inner, _)) = text.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
        return inner.to_owned();
    }
    match text.strip_prefix('"') {
        Some(inner) => between_double_quotes(inner),
        None => right[..right.find(" #").unwrap_or(right.len())].trim().to_owned(),
    }
}

fn between_double_quotes(text: &str) -> String {
    let mut value = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n') => value.push('\n'),
                Some(other) => value.push(other),
                None => break,
            },
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_sets_a_variable_in_every_spelling() {
        for (line, expected) in [
            ("A=plain", "plain"),
            ("  A=plain  ", "plain"),
            ("export A=plain", "plain"),
            ("export  A = two words", "two words"),
            ("A=", ""),
            ("A=plain # note", "plain"),
            ("A= # note", ""),
            ("A=pass#word", "pass#word"),
            ("A=#word", "#word"),
            ("A='a # b\\n' # note", "a # b\\n"),
            ("A=\"x\\n\\\"y\\\" \\$z\\\\\" # note", "x\n\"y\" $z\\"),
            ("A=\"$HOME\"", "$HOME"),
            ("A=a=b", "a=b"),
            ("A='open", "'open"),
            ("A=5\"", "5\""),
            ("A=it's", "it's"),
            ("A=x\r", "x"),
        ] {
            let expected = expected.to_owned();
            assert_eq!(value(line, "A").as_ref(), Some(&expected), "{line}");
            assert_eq!(variables(line).unwrap(), [("A".to_owned(), expected)], "{line}");
        }
    }

    #[test]
    fn value_is_that_of_the_last_line_and_other_lines_may_be_anything() {
        let text = "# A=commented\nA=first\nif true; then\nB=2\nA=last\n=F\nG\n #A=no";
        for (name, expected) in
            [("A", Some("last")), ("B", Some("2")), ("F", None), ("G", None), ("#A", None)]
        {
            assert_eq!(value(text, name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn variables_are_refused_with_the_number_of_the_line() {
        for (text, number) in
            [("A=1\n\n# B\nnothing", 4), ("=x", 1), ("A=1\n1B=2", 2), ("a-b=c", 1)]
        {
            let error = variables(text).unwrap_err().to_string();
            assert_eq!(error, format!("line {number} is not `NAME=VALUE`"), "{text}");
        }
        assert_eq!(variables("A=1\n# note\n\nA=2").unwrap().len(), 2, "in order, with repetitions");
    }
}
