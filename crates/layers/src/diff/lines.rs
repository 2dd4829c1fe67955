//! Line differences of two texts, with hunks to show, to choose and to compose.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use similar::algorithms::{DiffHook, diff_deadline};
use similar::{Algorithm, DiffOp, DiffTag, group_diff_ops};

/// Context lines around a change.
const CONTEXT: usize = 3;

/// Difference of two texts. Lines keep their line ends, so that nothing is lost.
#[derive(Debug)]
pub struct LineDiff<'t> {
    old: Vec<&'t [u8]>,
    new: Vec<&'t [u8]>,
    ops: Vec<DiffOp>,
}

/// Adjacent changes with context lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk(Vec<DiffOp>);

/// Splits a text into lines with their line ends.
pub(crate) fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the edits from one list of lines to another. Two completely different texts could take minutes, so after a
/// limit the rest counts as one change, which is equally correct.
pub(crate) fn steps(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let mut same = Same(Vec::new());
    let (all_old, all_new) = (0..old.len(), 0..new.len());
    let Ok(()) = diff_deadline(Algorithm::Myers, &mut same, old, all_old, new, all_new, deadline);
    same.steps(old.len(), new.len())
}

/// Common lines in order, as old line, new line and length. Lines between them are changes. The library's own list of
/// changes is optimised for display, and the positions of its insertions are not exact.
struct Same(Vec<(usize, usize, usize)>);

impl DiffHook for Same {
    type Error = Infallible;

    fn equal(&mut self, old: usize, new: usize, len: usize) -> Result<(), Infallible> {
        self.0.push((old, new, len));
        Ok(())
    }
}

impl Same {
    fn steps(self, old_end: usize, new_end: usize) -> Vec<DiffOp> {
        let (mut ops, mut old, mut new) = (Vec::new(), 0, 0);
        for (old_index, new_index, len) in self.0.into_iter().chain([(old_end, new_end, 0)]) {
            let (old_len, new_len) = (old_index - old, new_index - new);
            if let (0, 0, Some(DiffOp::Equal { len: before, .. })) =
                (old_len, new_len, ops.last_mut())
            {
                *before += len;
            } else {
                ops.extend(change(old, old_len, new, new_len));
                ops.extend((len > 0).then_some(DiffOp::Equal { old_index, new_index, len }));
            }
            (old, new) = (old_index + len, new_index + len);
        }
        ops
    }
}

fn change(old_index: usize, old_len: usize, new_index: usize, new_len: usize) -> Option<DiffOp> {
    match (old_len, new_len) {
        (0, 0) => None,
        (0, _) => Some(DiffOp::Insert { old_index, new_index, new_len }),
        (_, 0) => Some(DiffOp::Delete { old_index, old_len, new_index }),
        _ => Some(DiffOp::Replace { old_index, old_len, new_index, new_len }),
    }
}

impl<'t> LineDiff<'t> {
    /// Compares two texts.
    pub fn new(old: &'t [u8], new: &'t [u8]) -> Self {
        let (old, new) = (lines(old), lines(new));
        let ops = steps(&old, &new);
        Self { old, new, ops }
    }

    /// Returns the number of added and removed lines.
    pub fn counts(&self) -> (usize, usize) {
        let changes = self.ops.iter().filter(|op| op.tag() != DiffTag::Equal);
        changes.fold((0, 0), |(added, removed), op| {
            (added + op.new_range().len(), removed + op.old_range().len())
        })
    }

    /// Returns the hunks in order.
    pub fn hunks(&self) -> Vec<Hunk> {
        let groups = group_diff_ops(self.ops.clone(), CONTEXT);
        groups.into_iter().filter(|ops| !ops.is_empty()).map(Hunk).collect()
    }

    /// Splits a hunk into one hunk for each of its changes.
    pub fn split(&self, hunk: &Hunk) -> Vec<Hunk> {
        let changes = hunk.0.iter().filter(|op| op.tag() != DiffTag::Equal);
        changes.filter_map(|op| self.around(*op)).collect()
    }

    /// Returns a hunk of a single change with its context.
    fn around(&self, change: DiffOp) -> Option<Hunk> {
        let at = self.ops.iter().position(|op| *op == change)?;
        let equal = |at: usize| self.ops.get(at).filter(|op| op.tag() == DiffTag::Equal);
        let before = at.checked_sub(1).and_then(equal).map(|op| {
            let len = op.old_range().len().min(CONTEXT);
            let (old, new) = (op.old_range().end - len, op.new_range().end - len);
            DiffOp::Equal { old_index: old, new_index: new, len }
        });
        let after = equal(at + 1).map(|op| DiffOp::Equal {
            old_index: op.old_range().start,
            new_index: op.new_range().start,
            len: op.old_range().len().min(CONTEXT),
        });
        Some(Hunk(before.into_iter().chain([change]).chain(after).collect()))
    }

    /// Returns the old text with only the changes of these hunks.
    pub fn compose(&self, chosen: &[Hunk]) -> Vec<u8> {
        let is_chosen = |op: &DiffOp| chosen.iter().any(|hunk| hunk.0.contains(op));
        let mut text = Vec::new();
        for op in &self.ops {
            let taken = if op.tag() == DiffTag::Equal || !is_chosen(op) {
                &self.old[op.old_range()]
            } else {
                &self.new[op.new_range()]
            };
            text.extend(taken.iter().flat_map(|line| line.iter()));
        }
        text
    }

    /// Writes a hunk in unified diff format.
    pub fn write(&self, hunk: &Hunk, out: &mut dyn Write) -> io::Result<()> {
        let (Some(first), Some(last)) = (hunk.0.first(), hunk.0.last()) else { return Ok(()) };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        writeln!(out, "@@ -{} +{} @@", range(&old), range(&new))?;
        for op in &hunk.0 {
            if op.tag() == DiffTag::Equal {
                write_lines(b' ', &self.old[op.old_range()], out)?;
                continue;
            }
            write_lines(b'-', &self.old[op.old_range()], out)?;
            write_lines(b'+', &self.new[op.new_range()], out)?;
        }
        Ok(())
    }
}

/// Formats a range as `start,length` for a unified diff: counted from one, and an empty range refers to the line before
/// it.
fn range(range: &std::ops::Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        len => format!("{},{len}", range.start + 1),
    }
}

fn write_lines(sign: u8, lines: &[&[u8]], out: &mut dyn Write) -> io::Result<()> {
    for line in lines {
        out.write_all(&[sign])?;
        out.write_all(line)?;
        if !line.ends_with(b"\n") {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let diff = LineDiff::new(old.as_bytes(), new.as_bytes());
        let mut out = Vec::new();
        diff.hunks().iter().for_each(|hunk| diff.write(hunk, &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hunks_are_written_in_unified_format() {
        for (old, new, expected) in [
            ("", "", ""),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
            ("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
            ("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"),
        ] {
            assert_eq!(shown(old, new), expected, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn compose_takes_only_what_was_chosen_when_a_hunk_is_split() {
        let (old, new) = (b"1\n2\n3\n4\n5\n", b"1\nX\n3\nY\n5\n");
        let diff = LineDiff::new(old, new);
        let hunks = diff.hunks();
        assert_eq!(hunks.len(), 1);
        let parts = diff.split(&hunks[0]);
        assert_eq!(parts.len(), 2);
        assert_eq!(diff.compose(&[]), old);
        assert_eq!(diff.compose(&hunks), new);
        assert_eq!(diff.compose(&parts), new);
        assert_eq!(diff.compose(&parts[1..]), b"1\n2\n3\nY\n5\n");
        assert_eq!(diff.counts(), (2, 2));
    }
}
