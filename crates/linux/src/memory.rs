//! Memory allocator for short-lived sandboxes and long-lived services.
//!
//! musl's allocator requests a few pages at a time and returns them at once, which costs the start of a sandbox as much
//! as all its mounts. This one requests large pieces and reuses freed blocks for allocations of the same size. Worker
//! threads of a service cache some blocks, so that they rarely contend for the lock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Up to this size, size classes differ by [`ALIGN`]; above it, by powers of two.
const FINE: usize = 512;
/// Larger blocks go to musl, which maps each separately.
const LARGEST: usize = 64 << 10;
/// Alignment of every block. Every block size is a multiple of it.
const ALIGN: usize = 16;
const CLASSES: usize = FINE / ALIGN + (LARGEST / FINE).ilog2() as usize;
/// Bytes requested from the kernel at once.
const PIECE: usize = 128 << 10;
/// Blocks from this size on are buffers. A service has many and fills few, so each begins on a new page, and the kernel
/// allocates a page only when it is written to.
const BUFFER: usize = 8 << 10;
/// Bytes requested at once for buffers.
const BUFFERS: usize = 1 << 20;

/// True once a thread has called [`cache_per_thread`], so the process is long-lived.
static STAYS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Cache of this thread. It needs no destructor, so it can be used at any time.
    static NEAR: Near = const { Near::new() };
}

/// Makes this thread cache freed blocks. Only for threads that run until the process exits, which would leak otherwise.
pub fn cache_per_thread() {
    STAYS.store(true, Ordering::Relaxed);
    NEAR.with(|near| near.on.set(true));
}

/// Releases the pages of this program's code. The kernel maps them from the page cache again on use: madvise(2).
pub fn release_code() {
    unsafe extern "C" {
        /// Start of the program, set by the linker.
        static __executable_start: u8;
        /// End of its code, set by the linker.
        static etext: u8;
    }
    let start = (&raw const __executable_start).addr() & !(PAGE - 1);
    let length = ((&raw const etext).addr() & !(PAGE - 1)).saturating_sub(start);
    // SAFETY: nothing in this range is ever written, so the kernel reads the same bytes again from the file. An error
    // changes nothing.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), length, libc::MADV_DONTNEED) };
}

/// Smallest page size of any machine. The kernel rounds up to its own.
const PAGE: usize = 4096;

/// Allocator for `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator {
    locked: AtomicBool,
    store: UnsafeCell<Store>,
}

// SAFETY: only the holder of the lock accesses the store.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// Creates an empty allocator.
    #[allow(clippy::new_without_default, reason = "a static needs a const function")]
    pub const fn new() -> Self {
        let store =
            Store { free: [ptr::null_mut(); CLASSES], small: Piece::NONE, buffers: Piece::NONE };
        Self { locked: AtomicBool::new(false), store: UnsafeCell::new(store) }
    }

    fn take(&self, class: usize) -> *mut u8 {
        NEAR.with(|near| {
            if !near.on.get() {
                return self.with(|store| store.take(class));
            }
            let block = near.take(class);
            if block.is_null() { self.with(|store| near.fetch(class, store)) } else { block }
        })
    }

    fn give(&self, class: usize, block: *mut u8) {
        NEAR.with(|near| {
            if !near.on.get() {
                return self.with(|store| store.give(class, block));
            }
            near.give(class, block);
            if near.count[class].get() > most(class) {
                self.with(|store| near.send(class, store));
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: this thread holds the lock, so this is the only reference; `act` does not allocate.
        let done = act(unsafe { &mut *self.store.get() });
        self.locked.store(false, Ordering::Release);
        done
    }
}

/// Returns the size class of an allocation; `None` if musl serves it.
fn class(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN || layout.size() > LARGEST {
        return None;
    }
    let steps = layout.size().div_ceil(ALIGN).max(1) - 1;
    let fine = FINE / ALIGN;
    Some(if steps < fine { steps } else { fine + (steps / fine).ilog2() as usize })
}

/// Returns the block size of a size class.
fn size(class: usize) -> usize {
    let fine = FINE / ALIGN;
    if class < fine { (class + 1) * ALIGN } else { FINE << (class - fine + 1) }
}

/// Pointer to a free block, which in turn holds the pointer to the next one.
type Free = *mut u8;

#[allow(clippy::cast_ptr_alignment, reason = "every block is aligned to `ALIGN`")]
fn read_next(block: *mut u8) -> Free {
    // SAFETY: a block in a free list is owned by the list, aligned, and holds the value written by `write_next`.
    unsafe { block.cast::<Free>().read() }
}

#[allow(clippy::cast_ptr_alignment, reason = "every block is aligned to `ALIGN`")]
fn write_next(block: *mut u8, next: Free) {
    // SAFETY: its owner has freed the block, which is at least [`ALIGN`] bytes long.
    unsafe { block.cast::<Free>().write(next) };
}

/// Returns the number of blocks of a class that a thread may cache.
fn most(class: usize) -> usize {
    ((64 << 10) / size(class)).clamp(4, 64)
}

/// Block cache of one thread.
struct Near {
    on: Cell<bool>,
    free: [Cell<Free>; CLASSES],
    count: [Cell<usize>; CLASSES],
}

impl Near {
    const fn new() -> Self {
        Self {
            on: Cell::new(false),
            free: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            count: [const { Cell::new(0) }; CLASSES],
        }
    }

    fn take(&self, class: usize) -> *mut u8 {
        let block = self.free[class].get();
        if !block.is_null() {
            self.free[class].set(read_next(block));
            self.count[class].set(self.count[class].get() - 1);
        }
        block
    }

    fn give(&self, class: usize, block: *mut u8) {
        write_next(block, self.free[class].get());
        self.free[class].set(block);
        self.count[class].set(self.count[class].get() + 1);
    }

    /// Takes a block from the shared store and caches some more freed ones.
    fn fetch(&self, class: usize, store: &mut Store) -> *mut u8 {
        for _ in 0..most(class) / 4 {
            if store.free[class].is_null() {
                break;
            }
            self.give(class, store.take(class));
        }
        let block = self.take(class);
        if block.is_null() { store.take(class) } else { block }
    }

    /// Returns half of the cached blocks to the shared store.
    fn send(&self, class: usize, store: &mut Store) {
        for _ in 0..most(class) / 2 {
            store.give(class, self.take(class));
        }
    }
}

#[derive(Debug)]
struct Store {
    free: [Free; CLASSES],
    small: Piece,
    buffers: Piece,
}

/// Unused memory from the kernel.
#[derive(Debug)]
struct Piece {
    next: *mut u8,
    left: usize,
}

impl Store {
    fn take(&mut self, class: usize) -> *mut u8 {
        let block = self.free[class];
        if !block.is_null() {
            self.free[class] = read_next(block);
            return block;
        }
        let size = size(class);
        if size >= BUFFER && STAYS.load(Ordering::Relaxed) {
            self.buffers.cut(size, BUFFERS, Fill::Later)
        } else {
            self.small.cut(size, PIECE, Fill::Now)
        }
    }

    fn give(&mut self, class: usize, block: *mut u8) {
        write_next(block, self.free[class]);
        self.free[class] = block;
    }
}

impl Piece {
    const NONE: Self = Self { next: ptr::null_mut(), left: 0 };

    /// Cuts off an unused block. The rest of a piece that is too small is abandoned.
    fn cut(&mut self, size: usize, piece: usize, fill: Fill) -> *mut u8 {
        if self.left < size {
            let start = map(piece, fill);
            if start.is_null() {
                return start;
            }
            *self = Self { next: start, left: piece };
        }
        let block = self.next;
        // SAFETY: `left` shows that the piece is at least `size` bytes longer.
        self.next = unsafe { block.add(size) };
        self.left -= size;
        block
    }
}

/// Time at which the kernel allocates pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Immediately, because one call is cheaper than a page fault for each page.
    Now,
    /// On first use of each page.
    Later,
}

/// Maps new memory; null on failure.
fn map(length: usize, fill: Fill) -> *mut u8 {
    let (access, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, -1);
    let populate = if fill == Fill::Now { libc::MAP_POPULATE } else { 0 };
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate;
    // SAFETY: creates a new mapping at an address that the kernel chooses.
    let piece = unsafe { libc::mmap(ptr::null_mut(), length, access, kind, anonymous, 0) };
    if piece == libc::MAP_FAILED { ptr::null_mut() } else { piece.cast() }
}

// SAFETY: blocks have at least the requested size and alignment and one owner at a time. Their class follows from the
// layout, which is the same when they are freed.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class(layout) {
            Some(class) => self.take(class),
            // SAFETY: guaranteed by the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            Some(class) => self.give(class, block),
            // SAFETY: a block of this layout came from `System`.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is valid for this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (class(layout), class(new)) {
            // SAFETY: a block of the old layout came from `System`, and so will the new one.
            (None, None) => unsafe { System.realloc(block, layout, new_size) },
            (old, new) if old == new => block,
            _ => {
                // SAFETY: the caller promises a size that is not zero.
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    // SAFETY: both blocks are at least this long and do not overlap.
                    unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size)) };
                    // SAFETY: the caller gives up the old block.
                    unsafe { self.dealloc(block, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for_and_no_more_than_needed() {
        for bytes in 1..=LARGEST {
            let class = class(Layout::from_size_align(bytes, 8).unwrap()).unwrap();
            assert!(class < CLASSES && size(class) >= bytes, "{bytes}");
            assert!(class == 0 || size(class - 1) < bytes, "{bytes}");
        }
        assert_eq!(class(Layout::from_size_align(LARGEST + 1, 8).unwrap()), None);
        assert_eq!(class(Layout::from_size_align(64, 64).unwrap()), None);
    }

    #[test]
    fn blocks_never_overlap_when_threads_take_grow_and_free_them() {
        let allocator = Allocator::new();
        let work = |seed: u8| {
            let mut blocks = Vec::new();
            for step in 1..3000_usize {
                let layout = Layout::from_size_align(step * 37 % 70_000 + 1, 16).unwrap();
                // SAFETY: the size is not zero.
                let block = unsafe { allocator.alloc(layout) };
                // SAFETY: the block has this length.
                unsafe { block.write_bytes(seed, layout.size()) };
                blocks.push((block, layout));
                if step % 3 == 0 {
                    let (block, layout) = blocks.swap_remove(step % blocks.len());
                    check(block, layout.size(), seed);
                    // SAFETY: allocated above with this layout.
                    let grown = unsafe { allocator.realloc(block, layout, layout.size() * 2) };
                    check(grown, layout.size(), seed);
                    let layout = Layout::from_size_align(layout.size() * 2, 16).unwrap();
                    // SAFETY: reallocated to this layout above.
                    unsafe { allocator.dealloc(grown, layout) };
                }
            }
            for (block, layout) in blocks {
                check(block, layout.size(), seed);
            }
        };
        std::thread::scope(|scope| {
            for seed in 1..=4 {
                let work = &work;
                scope.spawn(move || {
                    // Half of the threads cache blocks, and all of them free blocks of each other.
                    if seed % 2 == 0 {
                        cache_per_thread();
                    }
                    work(seed);
                });
            }
        });
    }

    #[test]
    fn blocks_come_back_to_all_when_one_thread_takes_and_another_frees() {
        let allocator = Allocator::new();
        let layout = Layout::from_size_align(1000, 16).unwrap();
        let (send, blocks) = std::sync::mpsc::sync_channel::<usize>(0);
        let mut seen = std::collections::HashSet::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cache_per_thread();
                for block in blocks {
                    // SAFETY: allocated below with this layout and no longer used there.
                    unsafe { allocator.dealloc(ptr::with_exposed_provenance_mut(block), layout) };
                }
            });
            for _ in 0..5000 {
                // SAFETY: the size is not zero.
                let block = unsafe { allocator.alloc(layout) }.expose_provenance();
                seen.insert(block);
                send.send(block).unwrap();
            }
            drop(send);
        });
        assert!(seen.len() <= 2 * most(class(layout).unwrap()), "{}", seen.len());
    }

    fn check(block: *mut u8, length: usize, seed: u8) {
        // SAFETY: the block has this length and was written.
        let bytes = unsafe { std::slice::from_raw_parts(block, length) };
        assert!(bytes.iter().all(|byte| *byte == seed));
    }
}
