//! The environment as the kernel laid it down: every entry, also the second of a name and one that
//! has no `=`, and the memory that `/proc/PID/environ` reads.

use std::ffi::CStr;
use std::io;
use std::os::raw::c_char;

use crate::thread::SingleThreaded;

unsafe extern "C" {
    /// A list of C strings that ends with a null pointer.
    static environ: *mut *mut c_char;
}

/// A copy of every entry, in order.
pub fn entries() -> Vec<Vec<u8>> {
    places().into_iter().map(|place| text(place).to_vec()).collect()
}

/// Overwrites the entries that `chosen` picks where they lie. Fails if the process has other
/// threads, which could read the environment meanwhile.
pub fn erase(chosen: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    SingleThreaded::prove()?;
    for place in places() {
        let length = if chosen(text(place)) { text(place).len() } else { 0 };
        for offset in 0..length {
            // SAFETY: the string is `length` bytes long, and no reference to it is left.
            let byte = unsafe { place.add(offset) };
            // SAFETY: the kernel put the string into writable memory; volatile, so that it happens.
            unsafe { byte.write_volatile(0) };
        }
    }
    Ok(())
}

fn places() -> Vec<*mut c_char> {
    let mut places = Vec::new();
    // SAFETY: the C library sets the list up before `main`, and nobody here changes it.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: not yet at the end of the list.
        let place = unsafe { *next };
        if place.is_null() {
            break;
        }
        places.push(place);
        // SAFETY: the list goes on until its null pointer.
        next = unsafe { next.add(1) };
    }
    places
}

fn text<'e>(place: *mut c_char) -> &'e [u8] {
    // SAFETY: an entry of the list, which is a C string.
    unsafe { CStr::from_ptr(place) }.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_those_that_the_process_has() {
        let entries = entries();
        assert!(entries.iter().any(|entry| entry.starts_with(b"PATH=")), "{entries:?}");
        assert_eq!(entries.len(), std::env::vars_os().count());
    }
}
