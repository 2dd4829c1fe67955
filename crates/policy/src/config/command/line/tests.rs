//! Tests of the parser against tables, against `quote` and against real shells.

use std::process::Command;

use proptest::prelude::*;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    for (line, expected) in [
        ("mytool", &["mytool"][..]),
        ("  mytool\t a  ", &["mytool", "a"]),
        ("mytool 'a b' \"c d\" e\\ f", &["mytool", "a b", "c d", "e f"]),
        ("mytool ''", &["mytool", ""]),
        ("mytool a'b'\"c\"d", &["mytool", "abcd"]),
        (r#"mytool "a\"b" "a\\b" "a\b" "a\$b""#, &["mytool", "a\"b", "a\\b", "a\\b", "a$b"]),
        (r"mytool 'a\b' \'", &["mytool", r"a\b", "'"]),
        ("mytool ';id' '$(id)' '*'", &["mytool", ";id", "$(id)", "*"]),
        ("git log HEAD~1 a#b a=b", &["git", "log", "HEAD~1", "a#b", "a=b"]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
}

#[test]
fn h1_lines_that_mean_more_to_a_shell_are_refused() {
    for (line, expected) in [
        ("git version; id", LineError::Meaning(b';')),
        ("mytool && id", LineError::Meaning(b'&')),
        ("mytool | id", LineError::Meaning(b'|')),
        ("mytool > /etc/x", LineError::Meaning(b'>')),
        ("mytool < /etc/x", LineError::Meaning(b'<')),
        ("mytool $(id)", LineError::Meaning(b'$')),
        ("mytool `id`", LineError::Meaning(b'`')),
        ("mytool \"$(id)\"", LineError::Meaning(b'$')),
        ("mytool \"`id`\"", LineError::Meaning(b'`')),
        ("mytool $HOME", LineError::Meaning(b'$')),
        ("mytool *", LineError::Meaning(b'*')),
        ("mytool a?", LineError::Meaning(b'?')),
        ("mytool [a]", LineError::Meaning(b'[')),
        ("mytool {a,b}", LineError::Meaning(b'{')),
        ("mytool ~root", LineError::Meaning(b'~')),
        ("a=~root mytool", LineError::Meaning(b'~')),
        ("mytool # x", LineError::Meaning(b'#')),
        ("(mytool)", LineError::Meaning(b'(')),
        ("mytool\nid", LineError::Control(b'\n')),
        ("mytool 'a\nb'", LineError::Control(b'\n')),
        ("mytool \0", LineError::Control(0)),
        ("mytool \x1b[2J", LineError::Control(0x1b)),
        ("mytool 'a", LineError::Open),
        ("mytool \"a", LineError::Open),
        ("mytool \\", LineError::Backslash),
        ("", LineError::Empty),
        ("   ", LineError::Empty),
        ("'' id", LineError::Empty),
    ] {
        assert_eq!(parse(line.as_bytes()), Err(expected), "{line:?}");
    }
    assert_eq!(parse(&vec![b'a'; LONGEST + 1]), Err(LineError::TooLong));
}

proptest! {
    #[test]
    fn lines_come_back_when_they_are_quoted(words in prop::collection::vec("[ -~äß]{0,12}", 1..6)) {
        prop_assume!(!words[0].is_empty());
        let line = quote(&words).unwrap();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        prop_assert_eq!(parse(line.as_bytes()).unwrap(), words);
    }

    #[test]
    fn no_bytes_make_the_parser_fail_or_invent(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(words) = parse(&bytes) {
            let length: usize = words.iter().map(|word| word.as_bytes().len()).sum();
            prop_assert!(length <= bytes.len());
            prop_assert!(!words[0].is_empty());
        }
    }
}

/// Compares the words of accepted lines with those of real shells.
#[test]
fn accepted_lines_have_the_words_that_shells_give_them() {
    let pieces = [
        "a",
        "b c",
        "'",
        "\"",
        "\\",
        " ",
        "\t",
        "'x y'",
        "\"x\\\"y\"",
        "\\'",
        "~",
        "#",
        "=",
        "-",
        ".",
        "%",
        "^",
        "é",
        "@",
        ":",
        ",",
    ];
    let mut state = 7_usize;
    let mut next = |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut accepted = Vec::new();
    while accepted.len() < 400 {
        let length = 1 + next(8);
        let text: String = (0..length).map(|_| pieces[next(pieces.len())]).collect();
        let line = format!("printf {text}");
        if let Ok(words) = parse(line.as_bytes()) {
            accepted.push((line, words));
        }
    }
    for shell in ["dash", "bash"] {
        let lines: Vec<String> =
            accepted.iter().map(|(line, _)| line.replacen("printf", "show", 1)).collect();
        let script = format!(
            "show() {{ printf '%s\\036' \"$@\"; printf '\\035'; }}\n{}\n",
            lines.join("\n")
        );
        let output = Command::new(testkit::need(shell)).args(["-c", &script]).output().unwrap();
        let answers: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0o35).collect();
        for ((line, words), answer) in accepted.iter().zip(answers) {
            let mut given: Vec<&[u8]> = answer.split(|byte| *byte == 0o36).collect();
            given.pop();
            let ours: Vec<&[u8]> = words[1..].iter().map(|word| word.as_bytes()).collect();
            // Without arguments, `printf` prints its format once.
            assert!(
                ours == given || (ours.is_empty() && given == [b""]),
                "{shell}: {line:?} {ours:?} {given:?}"
            );
        }
    }
}
