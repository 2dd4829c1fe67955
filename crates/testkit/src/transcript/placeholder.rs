//! Comparison of a command's output with the one in a page.

/// Returns true when an output matches that of a page.
///
/// A line `…` matches any lines, and `…` in a line matches any text. Some values match others of their kind:
/// hexadecimal numbers of at least seven digits, dates, times, durations, sizes, version numbers, ports after
/// `127.0.0.1:`, process ids after `pid`, and user ids after `/run/user/`. Columns may be wider or narrower.
pub fn matches(expected: &str, actual: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(narrow).collect::<Vec<_>>();
    lines_match(&lines(expected), &lines(actual))
}

fn lines_match(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=actual.len()).any(|skipped| lines_match(rest, &actual[skipped..]))
        }
        Some((line, rest)) => actual.split_first().is_some_and(|(first, others)| {
            line_matches(&shapes(line), &first.chars().collect::<Vec<_>>())
                && lines_match(rest, others)
        }),
    }
}

/// Reduces gaps, whose width depends on the widest cell of a column, to two blanks.
fn narrow(line: &str) -> String {
    let mut text = String::new();
    for c in line.trim_end().chars() {
        if !(c == ' ' && text.ends_with("  ")) {
            text.push(c);
        }
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    This(char),
    Anything,
    Hex,
    Digits,
    /// A number with a unit of one of these kinds.
    Measure(&'static [&'static str]),
}

const UNITS: [&[&str]; 2] =
    [&["ms", "s", "min", "h", "d"], &["B", "KiB", "MiB", "GiB", "KB", "MB", "GB"]];

fn shapes(line: &str) -> Vec<Shape> {
    let chars: Vec<char> = line.chars().collect();
    let mut shapes = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let before: String = chars[..at].iter().collect();
        let starts = !before.ends_with(|c: char| c.is_ascii_alphanumeric());
        let rest = &chars[at..];
        let hex = count(rest, |c| c.is_ascii_digit() || ('a'..='f').contains(&c));
        let ends = |length: usize| !rest.get(length).is_some_and(char::is_ascii_alphanumeric);
        let digits = count(rest, |c| c.is_ascii_digit());
        if rest[0] == '…' {
            shapes.push(Shape::Anything);
            at += 1;
        } else if starts && hex >= 7 && ends(hex) && rest[..hex].iter().any(char::is_ascii_digit) {
            shapes.push(Shape::Hex);
            at += hex;
        } else if starts && digits > 0 {
            let number = count(rest, |c| c.is_ascii_digit() || c == '.');
            if let Some((units, length)) = measure(&rest[number..]) {
                shapes.push(Shape::Measure(units));
                at += number + length;
            } else if is_changing(&before, &rest.iter().collect::<String>()) {
                shapes.push(Shape::Digits);
                at += digits;
            } else {
                shapes.extend(rest[..digits].iter().map(|c| Shape::This(*c)));
                at += digits;
            }
        } else {
            shapes.push(Shape::This(rest[0]));
            at += 1;
        }
    }
    shapes
}

/// Returns true for the digits of a date, a time, a version, a port, a process id or a user id.
fn is_changing(before: &str, rest: &str) -> bool {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_digit() || "-:.".contains(*c)).collect()
    };
    let reversed: String = before.chars().rev().collect();
    let start: String = word(&reversed).chars().rev().collect();
    let whole = start.clone() + word(rest).trim_end_matches(['.', ':', '-']);
    let parts = |separator: char| -> Vec<usize> { whole.split(separator).map(str::len).collect() };
    parts('-') == [4, 2, 2]
        || parts(':') == [2, 2]
        || parts(':') == [2, 2, 2]
        || (parts('.').len() == 3 && !whole.contains(['-', ':']))
        || ["127.0.0.1:", "pid ", "process ", "/run/user/"]
            .iter()
            .any(|text| before.ends_with(text))
}

fn measure(rest: &[char]) -> Option<(&'static [&'static str], usize)> {
    let text: String = rest.iter().collect();
    let word = text.strip_prefix(' ')?;
    let unit: String = word.chars().take_while(char::is_ascii_alphanumeric).collect();
    let units = UNITS.into_iter().find(|units| units.contains(&&*unit))?;
    Some((units, unit.len() + 1))
}

fn count(chars: &[char], is: impl Fn(char) -> bool) -> usize {
    chars.iter().take_while(|c| is(**c)).count()
}

fn line_matches(shapes: &[Shape], text: &[char]) -> bool {
    let Some((shape, rest)) = shapes.split_first() else { return text.is_empty() };
    let longest = match shape {
        Shape::This(c) => return text.first() == Some(c) && line_matches(rest, &text[1..]),
        Shape::Anything => return (0..=text.len()).any(|end| line_matches(rest, &text[end..])),
        Shape::Hex => count(text, |c| c.is_ascii_hexdigit()),
        Shape::Digits => count(text, |c| c.is_ascii_digit()),
        Shape::Measure(units) => {
            let number = count(text, |c| c.is_ascii_digit() || c == '.');
            match measure(&text[number..]) {
                Some((found, length)) if number > 0 && found == *units => number + length,
                _ => 0,
            }
        }
    };
    longest > 0 && line_matches(rest, &text[longest..])
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn matches_accepts_others_of_a_kind_and_nothing_else() {
        for (expected, actual, matched) in [
            ("a\nb", "a\nb\n", true),
            ("a", "b", false),
            ("a\n…\nd", "a\nb\nc\nd", true),
            ("a\n…", "a", true),
            ("b09d2bc notes", "1234567 notes", true),
            ("b09d2bc notes", "notes notes", false),
            ("at 127.0.0.1:8090", "at 127.0.0.1:41234", true),
            ("uid=1000", "uid=1001", false),
            ("2026-11-16 10:20 x", "2027-01-02 03:04 x", true),
            ("running  3 s  x", "running    120 ms  x", true),
            ("running  3 s  x", "running  3 B  x", false),
            ("0 files, 4096 B", "0 files, 12 KiB", true),
            ("ok  kernel  6.18.44", "ok  kernel  5.15.0", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("a … c", "a b b c", true),
        ] {
            assert_eq!(matches(expected, actual), matched, "{expected:?} {actual:?}");
        }
    }
}
