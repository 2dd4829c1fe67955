//! Shims: shell scripts that call the launcher, for `launcher = "shim"`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sandbox_protocol::layout::RUNTIME_BINARY;
use sandbox_protocol::multicall::MULTICALL;

use super::find;

const SHIM_START: &str = "#!/bin/sh\nexec ";

/// Returns the text of a shim. It passes `$0`, the path it was called by, if one file has several names.
pub(super) fn shim(target: &Path, names: &BTreeSet<String>) -> String {
    let name = match names.first() {
        Some(name) if names.len() == 1 && name != "git" && find::multicall(target).is_none() => {
            quoted(name)
        }
        _ => "\"$0\"".to_owned(),
    };
    format!("{SHIM_START}{RUNTIME_BINARY} {MULTICALL} {name} \"$@\"\n")
}

fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    if name.bytes().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// Returns true for a file that a shim covers.
pub(super) fn is_shim(target: &Path) -> bool {
    let start = format!("{SHIM_START}{RUNTIME_BINARY} {MULTICALL} ");
    // Shims are short. A larger file is not read at all.
    let short = fs::metadata(target).is_ok_and(|meta| meta.len() < 4096);
    short && fs::read(target).is_ok_and(|text| text.starts_with(start.as_bytes()))
}
