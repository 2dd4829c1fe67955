//! Shared memory mappings of files: mmap(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// Shared mapping of the start of a file.
///
/// If another process truncates the file, an access past its new end kills this process with `SIGBUS`.
#[derive(Debug)]
pub struct SharedMap {
    start: NonNull<u8>,
    length: usize,
}

impl SharedMap {
    /// Maps the first `length` bytes for reading and, if `writable`, for writing.
    pub fn of(file: impl AsFd, length: usize, writable: bool) -> io::Result<Self> {
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the kernel chooses an unused address.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Copies bytes from the mapping, up to its end.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let length = into.len().min(self.length.saturating_sub(at));
        for (index, byte) in into.iter_mut().enumerate().take(length) {
            // SAFETY: the index is below the length of the mapping, which lives as long as `self`.
            let address = unsafe { self.start.add(at + index) };
            // SAFETY: the address is mapped and readable. Another process may write to it at the same time, so the
            // access is volatile, and every value of a byte is valid.
            *byte = unsafe { address.read_volatile() };
        }
    }

    /// Copies bytes to the mapping, up to its end. The mapping must be writable.
    pub fn write(&mut self, at: usize, from: &[u8]) {
        let length = from.len().min(self.length.saturating_sub(at));
        for (index, byte) in from.iter().enumerate().take(length) {
            // SAFETY: the index is below the length of the mapping, which lives as long as `self`.
            let address = unsafe { self.start.add(at + index) };
            // SAFETY: the address is mapped; a write to a read-only mapping faults and changes nothing.
            unsafe { address.write_volatile(*byte) };
        }
    }

    /// Waits until the kernel has written all changes to the file: msync(2).
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: this is exactly the mapped range.
        let done = unsafe { libc::msync(self.start.as_ptr().cast(), self.length, libc::MS_SYNC) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: this is exactly the mapped range, and no reference to it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn shared_map_and_file_have_the_same_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut map = SharedMap::of(&file, 10, true).unwrap();
        let mut three = [0; 3];
        map.read(4, &mut three);
        assert_eq!(&three, b"456");
        map.write(8, b"xyz");
        map.sync().unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "01234567xy");
    }
}
