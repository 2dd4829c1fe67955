//! Case folding of names that some filesystems treat as equal.
//!
//! A tree may be applied, copied or checked out to a filesystem that ignores case or
//! invisible characters (ext4 and f2fs with `casefold`, HFS+, NTFS). There `.GIT` is
//! `.git`. Protected names are therefore compared in folded form.

use std::ffi::OsStr;

/// Returns the name in lower case, without invisible characters, as these filesystems compare it. All
/// protected names are ASCII, and no sequence of combining marks composes to ASCII. Besides case, the
/// canonical forms only matter for two letters: the Kelvin sign and the long s.
pub fn fold(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let plain = name.trim_end_matches(['.', ' ']);
    // NTFS accepts the short name `GIT~1`, and stream names such as `.git::$INDEX_ALLOCATION`.
    let plain = plain.split_once("::").map_or(plain, |(before, _)| before);
    let folded: String = plain
        .chars()
        .filter(|c| !is_ignored(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c == '\u{17f}' { 's' } else { c })
        .collect();
    if folded == "git~1" { ".git".to_owned() } else { folded }
}

/// Returns true for characters that HFS+ and casefolded directories ignore in comparisons.
fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_names_fold_to_one_name() {
        for twin in [
            ".git",
            ".GIT",
            ".Git",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git.",
            ".git ",
            "GIT~1",
            ".git::$INDEX_ALLOCATION",
        ] {
            assert_eq!(fold(OsStr::new(twin)), ".git", "{twin:?}");
        }
        assert_eq!(fold(OsStr::new(".v\u{17f}code")), ".vscode");
        assert_eq!(fold(OsStr::new("Ma\u{212a}efile")), "makefile");
        for other in ["git", ".gitignore", ".gi", "a.git"] {
            assert_ne!(fold(OsStr::new(other)), ".git", "{other}");
        }
    }
}
