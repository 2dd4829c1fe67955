//! Names in patches, as git writes them.

use std::os::unix::ffi::OsStrExt;

use crate::RelPath;

/// The name behind a prefix such as `a/`, in quotes and with escapes where git would do so.
pub fn quoted(prefix: &str, path: &RelPath) -> String {
    let bytes = path.as_path().as_os_str().as_bytes();
    let plain = |byte: &u8| matches!(byte, 0x20..0x7f) && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(plain) {
        return format!("{prefix}{}", path.as_path().display());
    }
    let escaped: String = bytes.iter().map(|byte| escape(*byte)).collect();
    format!("\"{prefix}{escaped}\"")
}

fn escape(byte: u8) -> String {
    match byte {
        0x07 => "\\a".into(),
        0x08 => "\\b".into(),
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        0x0b => "\\v".into(),
        0x0c => "\\f".into(),
        b'\r' => "\\r".into(),
        b'"' => "\\\"".into(),
        b'\\' => "\\\\".into(),
        0x20..0x7f => char::from(byte).to_string(),
        other => format!("\\{other:03o}"),
    }
}

/// A name for a line `---` or `+++`: where it holds a space, a tab says where it ends.
pub(crate) fn header(prefix: &str, path: &RelPath) -> String {
    let name = quoted(prefix, path);
    if name.starts_with('"') || !name.contains(' ') { name } else { format!("{name}\t") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_when_git_quotes_them() {
        for (name, expected) in [
            ("a", "a/a"),
            ("a b", "a/a b"),
            ("tab\there", "\"a/tab\\there\""),
            ("quo\"te", "\"a/quo\\\"te\""),
            ("back\\slash", "\"a/back\\\\slash\""),
            ("\u{fc}", "\"a/\\303\\274\""),
            ("\u{1b}[31m", "\"a/\\033[31m\""),
        ] {
            assert_eq!(quoted("a/", &RelPath::new(name).unwrap()), expected);
        }
        assert_eq!(header("b/", &RelPath::new("a b").unwrap()), "b/a b\t");
    }
}
