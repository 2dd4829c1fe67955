//! Takes tools out of a body, and leaves every other byte where it was: a provider's cache knows a
//! conversation by its beginning.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Asked<'b> {
    #[serde(borrow)]
    tools: &'b RawValue,
}

/// The body without these of its tools; `None` when none would be left.
pub(super) fn without(body: &[u8], gone: &[usize]) -> Option<Vec<u8>> {
    let asked: Asked<'_> = serde_json::from_slice(body).ok()?;
    let list = asked.tools.get();
    let tools: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let kept: Vec<&str> = tools
        .iter()
        .enumerate()
        .filter(|(index, _)| !gone.contains(index))
        .map(|(_, tool)| tool.get())
        .collect();
    if kept.is_empty() {
        return None;
    }
    let start = list.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    let (before, after) = (body.get(..start)?, body.get(start + list.len()..)?);
    Some([before, b"[", kept.join(",").as_bytes(), b"]", after].concat())
}
