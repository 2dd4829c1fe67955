//! Files of lines `NAME=VALUE`, as `.env` files are.

/// The value of a name; the last line that sets it counts.
pub(super) fn value(text: &str, name: &str) -> Option<String> {
    text.lines().rev().find_map(|line| assignment(line, name))
}

fn assignment(line: &str, name: &str) -> Option<String> {
    let line = line.trim();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (left, right) = line.split_once('=')?;
    (left.trim_end() == name).then(|| unquote(right.trim()))
}

/// Double quotes know `\n`, `\"`, `\\` and `\$`; single quotes know nothing. Without quotes, a value
/// ends at ` #`.
fn unquote(text: &str) -> String {
    if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
        return inner.0.to_owned();
    }
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find(" #").unwrap_or(text.len());
        return text[..end].trim_end().to_owned();
    };
    let mut value = String::new();
    let mut letters = inner.chars();
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
    fn values_are_read_as_shells_and_dotenv_read_them() {
        let text = "# A=commented\nA=plain # note\nexport B = two words\nC='a # b\\n'\nD=\"x\\n\\\"y\\\" $z\" # end\nA=last\nE=\n=F\nG";
        for (name, expected) in [
            ("A", Some("last")),
            ("B", Some("two words")),
            ("C", Some("a # b\\n")),
            ("D", Some("x\n\"y\" $z")),
            ("E", Some("")),
            ("F", None),
            ("G", None),
        ] {
            assert_eq!(value(text, name).as_deref(), expected, "{name}");
        }
    }
}
