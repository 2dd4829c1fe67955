//! Patch for a terminal. Text in it cannot move the cursor, hide text or reverse its direction.

use sandbox_linux::escape::visible_bytes;

use crate::ui::{Stdio, Tone};

/// Formats a patch in colours, line by line.
pub(crate) fn patch(bytes: &[u8], io: &Stdio<'_>) -> String {
    let mut text = String::new();
    let mut header = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        header = match line.first() {
            Some(b'd') => true,
            Some(b'@') => false,
            _ => header,
        };
        let tone = match line.first() {
            _ if header => Some(Tone::Strong),
            Some(b'@') => Some(Tone::Position),
            Some(b'+') => Some(Tone::Good),
            Some(b'-') => Some(Tone::Removed),
            _ => None,
        };
        let shown = visible_bytes(line.strip_suffix(b"\n").unwrap_or(line));
        text.push_str(&tone.map_or(shown.clone(), |tone| io.tone(tone, &shown)));
        text.push('\n');
    }
    text
}
