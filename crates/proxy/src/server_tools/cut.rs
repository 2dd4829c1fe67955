//! Removal of tools from a body. All other bytes are left in place, because providers cache conversations by prefix.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Asked<'b> {
    #[serde(borrow)]
    tools: &'b RawValue,
}

/// Returns the body without these tools, or `None` when none would be left.
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
