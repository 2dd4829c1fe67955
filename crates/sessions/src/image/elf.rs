//! Detection of static programs, the only ones that run in every image.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Program header type of a dynamic linker, elf(5).
const PT_INTERP: u32 = 3;

/// Returns true for a 64-bit ELF program without a dynamic linker.
pub(super) fn is_static(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let mut head = [0; 64];
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(false);
    }
    let mut offset = [0; 8];
    offset.copy_from_slice(&head[32..40]);
    let offset = u64::from_le_bytes(offset);
    let size = u64::from(u16::from_le_bytes([head[54], head[55]]));
    let count = u64::from(u16::from_le_bytes([head[56], head[57]]));
    for number in 0..count {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, offset.saturating_add(number * size))?;
        if u32::from_le_bytes(kind) == PT_INTERP {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_static_is_true_for_a_program_without_a_dynamic_linker() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("sh");
        let mut sh = std::fs::read("/bin/sh").unwrap();
        std::fs::write(&copy, &sh).unwrap();
        assert!(!is_static(&copy).unwrap());
        assert!(!is_static(Path::new("/etc/passwd")).unwrap());
        // The same program without program headers: like that of every static program, its header names no linker.
        sh[56..58].copy_from_slice(&[0, 0]);
        std::fs::write(&copy, &sh).unwrap();
        assert!(is_static(&copy).unwrap());
    }
}
