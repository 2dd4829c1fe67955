//! Words that this project does not use, in sources, docs and scripts: see "Words" in CONTRIBUTING.md.
//!
//! A line with the marker `words: quoted`, and the line after it, may say anything: it quotes another program or a rule.

use std::fs;
use std::path::{Path, PathBuf};

use crate::say::{Context, Failure, Outcome, say};

const MARKER: &str = "words: quoted";
// words: quoted
const PRONOUNS: [&str; 4] = ["somebody", "nobody", "whoever", "anybody"];
// words: quoted
const PHRASES: [&str; 3] = ["cannot be had", "makes no sense", "anew"];
const DENIAL: &str = "is no";
const OPENINGS: [&str; 3] = ["What", "Whether", "Who"];

/// Directories and files that are generated, or that others have written.
const SKIPPED: [&str; 7] =
    ["target", ".git", "corpus", "artifacts", "seeds", "LICENSE-APACHE", "Cargo.lock"];
const ENDINGS: [&str; 6] = ["rs", "md", "toml", "yml", "txt", "sh"];

/// Fails when a file below the root uses such a word.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut count = 0;
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue }; // not text
        for (line, reason) in faults(&text) {
            let place = file.strip_prefix(root).unwrap_or(&file).display();
            say(format_args!("{place}:{line}: {reason}"));
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        count => {
            let hint = format!("rephrase them; a quotation carries the marker `{MARKER}`");
            Err(Failure::new(format!("{count} lines use words that this project avoids"))
                .hint(hint))
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder).context(format_args!("read {}", folder.display()))? {
        let entry = entry.context(format_args!("read {}", folder.display()))?;
        let (path, kind) = (entry.path(), entry.file_type().context("read a file type")?);
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() && is_prose(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns true for sources, docs and scripts. Scripts have no ending.
fn is_prose(path: &Path) -> bool {
    path.extension().is_none_or(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Returns lines by number, from 1, with the rule that each breaks.
fn faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    let mut last = "";
    for (number, line) in text.lines().enumerate() {
        if !line.contains(MARKER) && !last.contains(MARKER) {
            let fault = fault(line).or_else(|| opening(last, line));
            faults.extend(fault.map(|fault| (number + 1, fault)));
        }
        last = line;
    }
    faults
}

fn fault(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let pronoun = PRONOUNS
        .iter()
        .find(|word| occurrences(&lower, word).any(|at| !is_name(&lower, at, word.len())));
    let phrase = PHRASES.iter().find(|phrase| occurrences(&lower, phrase).next().is_some());
    if let Some(word) = pronoun.or(phrase) {
        return Some(format!("says `{word}`"));
    }
    let is_comment = lower.trim_start().starts_with("//");
    let denies = !is_comment && occurrences(&lower, DENIAL).any(|at| is_denial(&lower, at));
    denies.then(|| format!("says `{DENIAL}`: write `is not a`, or name what is wrong"))
}

/// Returns the positions of a phrase between word boundaries.
fn occurrences<'a>(line: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        !line[..*at].ends_with(is_word) && !line[at + phrase.len()..].starts_with(is_word)
    })
}

/// Returns true for the Unix user: a literal of exactly this word.
fn is_name(line: &str, at: usize, length: usize) -> bool {
    let is_quote = |c: char| "\"`':".contains(c);
    line[..at].ends_with(is_quote) && line[at + length..].starts_with(is_quote)
}

/// Returns true when the phrase at a position denies a kind: not after `there`, not before `longer` or punctuation.
fn is_denial(line: &str, at: usize) -> bool {
    let before = line[..at].split_whitespace().next_back().unwrap_or_default();
    let after = line[at + DENIAL.len()..].split_whitespace().next().unwrap_or_default();
    let is_kind = after.starts_with(|c: char| c.is_alphabetic() || c == '`');
    is_kind
        && !before.ends_with("there")
        && !after.starts_with("longer")
        && !after.starts_with("more")
}

/// Names the first word of a doc comment that opens like a question.
fn opening(last: &str, line: &str) -> Option<String> {
    let doc = |line: &'static str| move |text: &str| text.trim_start().starts_with(line);
    let (outer, inner) = (doc("///"), doc("//!"));
    if outer(last) && outer(line) || inner(last) && inner(line) {
        return None;
    }
    let text = line.trim_start();
    let text = text.strip_prefix("/// ").or_else(|| text.strip_prefix("//! "))?;
    let word = text.split(|c: char| !c.is_alphabetic()).next()?;
    OPENINGS
        .contains(&word)
        .then(|| format!("doc comment opens with `{word}`: start with a noun or a verb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_a_fault_exactly_when_it_breaks_a_rule() {
        for (line, wrong) in [
            ("// Somebody else's file.", true),              // words: quoted
            ("`nobody` may read it, but nobody does", true), // words: quoted
            ("chown(\"nobody\", `nobody`)", false),          // words: quoted
            ("the somebody-else", false),                    // words: quoted
            ("the secret cannot be had", true),              // words: quoted
            ("it was started anew", true),                   // words: quoted
            ("a renewal", false),
            ("#[error(\"`{path}` is no directory\")]", true), // words: quoted
            ("there is no directory", false),
            ("There is no directory", false),
            ("the key is no longer valid", false),
            ("it is not a directory", false),
            ("the default is no, and `true` means yes", false),
            ("/// What it says.", true),     // words: quoted
            ("//! Whether it is so.", true), // words: quoted
            ("    /// Who asks.", true),     // words: quoted
            ("/// Whose key it is.", false),
            ("/// Returns what it says.", false),
            ("// What follows is short.", false),
        ] {
            assert_eq!(!faults(line).is_empty(), wrong, "{line}");
        }
    }

    #[test]
    fn only_the_first_line_of_a_doc_comment_is_an_opening() {
        assert!(faults("/// Returns a key.\n/// What it opens is not known.").is_empty()); // words: quoted
        assert_eq!(faults("//! Module.\n/// What it opens.").len(), 1); // words: quoted
    }

    #[test]
    fn marker_covers_its_line_and_the_next() {
        // words: quoted
        let text = "<!-- words: quoted -->\nsomebody\nsomebody\nanybody <!-- words: quoted -->\n";
        assert_eq!(faults(text).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3]);
    }
}
