//! Names that some filesystem takes for the same name.
//!
//! A tree may be applied, copied or checked out to a filesystem where case does not count, or where
//! invisible marks are ignored (ext4 and f2fs with `casefold`, HFS+, NTFS). There `.GIT` is
//! `.git`. So protected names are compared in the form that all of them share.

use std::ffi::OsStr;

/// Returns the name as such filesystems compare it: lower case, without invisible marks. All names in our
/// tables are ASCII, and no sequence of combining marks composes to ASCII: besides case, the
/// canonical forms only matter for two letters, the Kelvin sign and the long s.
pub fn fold(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let plain = name.trim_end_matches(['.', ' ']);
    // NTFS: the short name, and a stream of the directory.
    let plain = plain.split_once("::").map_or(plain, |(before, _)| before);
    let folded: String = plain
        .chars()
        .filter(|c| !is_ignored(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c == '\u{17f}' { 's' } else { c })
        .collect();
    if folded == "git~1" { ".git".to_owned() } else { folded }
}

/// Characters that HFS+ and casefolded directories leave out when they compare.
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
    fn twins_fold_to_one_name() {
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
