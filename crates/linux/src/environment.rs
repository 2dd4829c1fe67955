//! Raw environment of this process: every entry, including duplicates and entries without `=`, in the memory that
//! `/proc/PID/environ` shows (`proc_pid_environ(5)`).

use std::ffi::CStr;
use std::io;
use std::os::raw::c_char;

use crate::thread::SingleThreaded;

unsafe extern "C" {
    /// Null-terminated list of C strings: environ(7).
    static environ: *mut *mut c_char;
}

/// Returns a copy of every entry, in order.
pub fn entries() -> Vec<Vec<u8>> {
    pointers().into_iter().map(|pointer| text(pointer).to_vec()).collect()
}

/// Overwrites the entries that `chosen` selects, in place. Fails if the process has other threads, which could read
/// the environment at the same time.
pub fn erase(chosen: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    SingleThreaded::prove()?;
    for pointer in pointers() {
        let length = if chosen(text(pointer)) { text(pointer).len() } else { 0 };
        for offset in 0..length {
            // SAFETY: the string is `length` bytes long, and no reference to it is left.
            let byte = unsafe { pointer.add(offset) };
            // SAFETY: the string is in writable memory. A volatile write is not optimized away.
            unsafe { byte.write_volatile(0) };
        }
    }
    Ok(())
}

fn pointers() -> Vec<*mut c_char> {
    let mut pointers = Vec::new();
    // SAFETY: the C library sets the list up before `main`, and this program never changes it.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: not yet at the end of the list.
        let pointer = unsafe { *next };
        if pointer.is_null() {
            break;
        }
        pointers.push(pointer);
        // SAFETY: the list continues up to its null pointer.
        next = unsafe { next.add(1) };
    }
    pointers
}

fn text<'e>(pointer: *mut c_char) -> &'e [u8] {
    // SAFETY: every entry of the list is a C string.
    unsafe { CStr::from_ptr(pointer) }.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_the_environment_of_the_process() {
        let entries = entries();
        assert!(entries.iter().any(|entry| entry.starts_with(b"PATH=")), "{entries:?}");
        assert_eq!(entries.len(), std::env::vars_os().count());
    }
}
