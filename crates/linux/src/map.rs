//! A file as memory that its other readers and writers share.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// A shared mapping of the start of a file.
///
/// Whoever cuts the file shorter meanwhile makes the kernel end this process with `SIGBUS` when it
/// touches what is gone; nothing is read or written then.
#[derive(Debug)]
pub struct SharedMap {
    start: NonNull<u8>,
    length: usize,
}

impl SharedMap {
    /// Maps the first `length` bytes, to read and, if the descriptor allows it, to write.
    pub fn of(file: impl AsFd, length: usize, writable: bool) -> io::Result<Self> {
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the kernel chooses a place that nothing else uses.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Copies bytes out; no further than the mapping goes.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let length = into.len().min(self.length.saturating_sub(at));
        for (index, byte) in into.iter_mut().enumerate().take(length) {
            // SAFETY: the index is below the length of the mapping, which lives as long as `self`.
            let place = unsafe { self.start.add(at + index) };
            // SAFETY: the place is mapped and readable. Others may write meanwhile: the access is
            // volatile, and any value of a byte will do.
            *byte = unsafe { place.read_volatile() };
        }
    }

    /// Copies bytes in; no further than the mapping goes. It must be writable.
    pub fn write(&mut self, at: usize, from: &[u8]) {
        let length = from.len().min(self.length.saturating_sub(at));
        for (index, byte) in from.iter().enumerate().take(length) {
            // SAFETY: the index is below the length of the mapping, which lives as long as `self`.
            let place = unsafe { self.start.add(at + index) };
            // SAFETY: the place is mapped; a mapping that cannot be written faults and changes nothing.
            unsafe { place.write_volatile(*byte) };
        }
    }

    /// Waits until what was written is the file's.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is exactly what was mapped.
        let done = unsafe { libc::msync(self.start.as_ptr().cast(), self.length, libc::MS_SYNC) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what was mapped, and nobody can use it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn shared_map_and_file_see_the_same_bytes() {
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
