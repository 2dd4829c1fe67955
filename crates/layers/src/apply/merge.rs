//! Three-way merge of a text that both the layer and the host changed.

use std::ops::Range;

use similar::DiffTag;

use crate::diff::{lines, steps};

/// Lines of the ancestor that both sides changed differently, counted from one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Clash {
    /// First line in the ancestor.
    pub(super) line: usize,
    /// Number of lines, 0 when both sides inserted at the same position.
    pub count: usize,
}

/// Edit that replaces lines of the ancestor.
#[derive(Debug, Clone)]
struct Edit<'t> {
    old: Range<usize>,
    new: Vec<&'t [u8]>,
}

/// Merges, or returns the clashes. Adjacent edits count as one, because only a person can decide whether they fit
/// together.
pub(super) fn merge(ancestor: &[u8], host: &[u8], layer: &[u8]) -> Result<Vec<u8>, Vec<Clash>> {
    let base = lines(ancestor);
    let (host, layer) = (lines(host), lines(layer));
    let (mine, theirs) = (edits(&base, &host), edits(&base, &layer));
    let (mut mine, mut theirs) = (mine.as_slice(), theirs.as_slice());
    let (mut text, mut clashes, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(start) = first(mine, theirs) {
        let (left, right, region) = take_region(&mut mine, &mut theirs, start);
        push(&mut text, &base[at..region.start]);
        let one = replay(&base, left, &region);
        let two = replay(&base, right, &region);
        match (left.is_empty(), right.is_empty()) {
            (_, true) => push(&mut text, &one),
            (true, false) => push(&mut text, &two),
            _ if one == two => push(&mut text, &one),
            _ => clashes.push(Clash { line: region.start + 1, count: region.len() }),
        }
        at = region.end;
    }
    push(&mut text, &base[at..]);
    if clashes.is_empty() { Ok(text) } else { Err(clashes) }
}

fn edits<'t>(old: &[&'t [u8]], new: &[&'t [u8]]) -> Vec<Edit<'t>> {
    let ops = steps(old, new);
    let changes = ops.iter().filter(|op| op.tag() != DiffTag::Equal);
    changes.map(|op| Edit { old: op.old_range(), new: new[op.new_range()].to_vec() }).collect()
}

fn first(mine: &[Edit<'_>], theirs: &[Edit<'_>]) -> Option<usize> {
    let starts = [mine.first(), theirs.first()];
    starts.into_iter().flatten().map(|edit| edit.old.start).min()
}

type Region<'e, 't> = (&'e [Edit<'t>], &'e [Edit<'t>], Range<usize>);

/// Takes all connected edits of both sides from `start` on.
fn take_region<'e, 't>(
    mine: &mut &'e [Edit<'t>],
    theirs: &mut &'e [Edit<'t>],
    start: usize,
) -> Region<'e, 't> {
    let (mut left, mut right, mut end) = (0, 0, start);
    loop {
        let touching = |edit: Option<&Edit<'_>>| {
            edit.filter(|edit| edit.old.start <= end).map(|edit| edit.old.end)
        };
        if let Some(to) = touching(mine.get(left)) {
            (left, end) = (left + 1, end.max(to));
        } else if let Some(to) = touching(theirs.get(right)) {
            (right, end) = (right + 1, end.max(to));
        } else {
            break;
        }
    }
    let (taken, rest) = mine.split_at(left);
    let (also, others) = theirs.split_at(right);
    (*mine, *theirs) = (rest, others);
    (taken, also, start..end)
}

/// Returns a region of the ancestor with the edits of one side.
fn replay<'t>(base: &[&'t [u8]], edits: &[Edit<'t>], region: &Range<usize>) -> Vec<&'t [u8]> {
    let (mut text, mut at) = (Vec::new(), region.start);
    for edit in edits {
        text.extend_from_slice(&base[at..edit.old.start]);
        text.extend_from_slice(&edit.new);
        at = edit.old.end;
    }
    text.extend_from_slice(&base[at..region.end]);
    text
}

fn push(text: &mut Vec<u8>, lines: &[&[u8]]) {
    text.extend(lines.iter().flat_map(|line| line.iter()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_takes_both_sides_when_they_do_not_touch() {
        for (why, base, host, layer, expected) in [
            ("nothing", "a\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n", Some("a\nb\nc\n")),
            ("host only", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nc\n", Some("A\nb\nc\n")),
            ("layer only", "a\nb\nc\n", "a\nb\nc\n", "a\nb\nC\n", Some("a\nb\nC\n")),
            ("both, apart", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", Some("A\nb\nC\n")),
            ("both, the same", "a\nb\n", "a\nX\n", "a\nX\n", Some("a\nX\n")),
            ("both, one line", "a\nb\n", "a\nX\n", "a\nY\n", None),
            ("side by side", "a\nb\n", "A\nb\n", "a\nB\n", None),
            ("both append", "a\n", "a\nX\n", "a\nY\n", None),
            ("both append the same", "a\n", "a\nX\n", "a\nX\n", Some("a\nX\n")),
            ("insert apart", "a\nb\nc\n", "0\na\nb\nc\n", "a\nb\nc\nd\n", Some("0\na\nb\nc\nd\n")),
            ("delete and edit", "a\nb\nc\n", "b\nc\n", "a\nb\nC\n", Some("b\nC\n")),
            ("delete what is edited", "a\nb\n", "b\n", "A\nb\n", None),
            ("no newline", "a\nb\nc", "A\nb\nc", "a\nb\nC", Some("A\nb\nC")),
        ] {
            let merged = merge(base.as_bytes(), host.as_bytes(), layer.as_bytes()).ok();
            assert_eq!(merged.as_deref(), expected.map(str::as_bytes), "{why}");
        }
    }

    #[test]
    fn clashes_name_the_lines_of_the_ancestor() {
        let clash = merge(b"1\n2\n3\n4\n", b"1\n2\nX\n4\n", b"1\n2\nY\n4\n").unwrap_err();
        assert_eq!(clash, [Clash { line: 3, count: 1 }]);
    }

    proptest::proptest! {
        #[test]
        fn one_side_alone_is_taken_whole(base in "[ab\n]{0,40}", other in "[abc\n]{0,40}") {
            let (base, other) = (base.as_bytes(), other.as_bytes());
            proptest::prop_assert_eq!(merge(base, other, base).unwrap(), other);
            proptest::prop_assert_eq!(merge(base, base, other).unwrap(), other);
            proptest::prop_assert_eq!(merge(base, other, other).unwrap(), other);
        }

        #[test]
        fn sides_may_be_exchanged(
            base in "[ab\n]{0,30}", one in "[abc\n]{0,30}", two in "[abd\n]{0,30}",
        ) {
            let (base, one, two) = (base.as_bytes(), one.as_bytes(), two.as_bytes());
            proptest::prop_assert_eq!(merge(base, one, two), merge(base, two, one));
        }
    }
}
