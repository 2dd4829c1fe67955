//! Proof that this process has a single thread.
//!
//! A fork copies only the calling thread. A lock that another thread holds at that moment, such as the allocator's,
//! stays locked in the child forever: see fork(2) and signal-safety(7).

use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// Number of attempts. A joined thread stays in the kernel's list for a moment, because `pthread_join` returns before
/// the kernel has released it.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Proof that no other thread existed when it was made. Only this thread could start one afterwards, so the proof must
/// be made right before its use.
#[derive(Debug)]
pub struct SingleThreaded(PhantomData<*const ()>);

impl SingleThreaded {
    /// Checks that the calling thread is the only one; fails with `EDEADLK` otherwise.
    pub fn prove() -> io::Result<Self> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            if is_alone() {
                return Ok(Self(PhantomData));
            }
        }
        Err(io::Error::from_raw_os_error(libc::EDEADLK))
    }
}

fn is_alone() -> bool {
    // SAFETY: in a process with one thread this flag does nothing, and in others it is invalid: unshare(2). Unlike
    // reading `/proc`, this also works in a new namespace without it.
    let unshared = unsafe { libc::unshare(libc::CLONE_THREAD) };
    // A container's seccomp filter may refuse this call altogether.
    let tasks = || std::fs::read_dir("/proc/self/task").map(Iterator::count);
    unshared == 0 || tasks().is_ok_and(|count| count == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_fails_while_there_is_another_thread() {
        // The test harness has a thread besides this one.
        let failed = SingleThreaded::prove().unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EDEADLK));
        assert!(crate::process::fork(|| 0).is_err());
    }
}
