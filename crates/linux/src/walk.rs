//! Bounded walk through a directory tree: nearby directories first, large named directories last.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::tree::{Dir, Kind, Mounts, buffer};

/// Limits of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Time limit.
    pub time: Duration,
    /// Maximum number of directory entries.
    pub entries: usize,
}

/// Caller's choice of directories to enter and entries to see.
pub trait Guide: Send {
    /// Value passed from a directory to its subdirectories.
    type Mark: Copy + Default + Send;

    /// Judges an entry by its name.
    fn entry(
        &mut self,
        place: &Visited<Self::Mark>,
        name: &OsStr,
        kind: Kind,
    ) -> Verdict<Self::Mark>;

    /// Receives a directory with its path below the root and the entries that were kept.
    fn visit(&mut self, dir: &Dir, place: &Visited<Self::Mark>, kept: &[(OsString, Kind)]);
}

/// Directory of a walk.
#[derive(Debug, Clone)]
pub struct Visited<M> {
    /// Path below the root; empty for the root.
    pub path: PathBuf,
    /// Value from the parent directory.
    pub mark: M,
}

impl<M> Visited<M> {
    /// Returns its absolute path.
    pub fn below(&self, root: &Path) -> PathBuf {
        // Joining an empty path would append a slash.
        if self.path.as_os_str().is_empty() { root.to_path_buf() } else { root.join(&self.path) }
    }
}

/// Treatment of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Verdict<M> {
    /// True to pass it to [`Guide::visit`].
    pub keep: bool,
    /// Treatment if it is a directory.
    pub enter: Enter<M>,
}

/// Order in which a directory is entered.
#[derive(Debug, Clone, Copy)]
pub enum Enter<M> {
    /// Never.
    Never,
    /// In breadth-first order.
    Soon(M),
    /// After all others.
    Last(M),
}

/// Extent of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Number of directories read.
    pub dirs: usize,
    /// Number of entries seen.
    pub entries: usize,
    /// True if the budget ran out first.
    pub stopped_early: bool,
}

impl std::ops::Add for Extent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            dirs: self.dirs + other.dirs,
            entries: self.entries + other.entries,
            stopped_early: self.stopped_early || other.stopped_early,
        }
    }
}

/// Number of directories that one thread reads before others are started.
const ALONE: usize = 256;
/// Minimum number of directories to share with an idle thread.
const WORTH_SHARING: usize = 16;

/// Walks the tree below `root` breadth first, with one thread per guide if the tree is large. Does not follow symlinks
/// or enter other mounts. Skips directories that cannot be read, because git and editors cannot read them either.
pub fn walk<G: Guide>(root: &Dir, budget: Budget, guides: &mut [G]) -> Extent {
    let shared = Shared {
        root,
        deadline: Instant::now() + budget.time,
        entries: budget.entries,
        seen: AtomicUsize::new(0),
        busy: AtomicUsize::new(1),
        queue: Mutex::default(),
    };
    let Some((first, others)) = guides.split_first_mut() else { return Extent::default() };
    let mut queue = Queue::default();
    queue.soon.push_back(Visited { path: PathBuf::new(), mark: G::Mark::default() });
    let mut extent = Extent::default();
    if shared.work(&mut queue, first, &mut extent, ALONE) {
        return extent;
    }
    shared.busy.store(1 + others.len(), Ordering::Release);
    std::thread::scope(|scope| {
        let start = |guide| {
            let shared = &shared;
            scope.spawn(move || shared.help(Queue::default(), guide))
        };
        let threads: Vec<_> = others.iter_mut().map(start).collect();
        let part = shared.help(queue, first);
        let parts = threads.into_iter().filter_map(|thread| thread.join().ok());
        parts.fold(extent + part, |sum, part| sum + part)
    })
}

/// State shared by the threads of a walk.
struct Shared<'a, M> {
    root: &'a Dir,
    deadline: Instant,
    entries: usize,
    seen: AtomicUsize,
    /// Number of threads that may still find work to share.
    busy: AtomicUsize,
    /// Shared work.
    queue: Mutex<Queue<M>>,
}

impl<M: Copy + Default + Send> Shared<'_, M> {
    /// Reads up to `dirs` directories; returns true if no work is left or the budget ran out.
    fn work<G: Guide<Mark = M>>(
        &self,
        queue: &mut Queue<M>,
        guide: &mut G,
        extent: &mut Extent,
        dirs: usize,
    ) -> bool {
        let mut buffer = buffer();
        for _ in 0..dirs {
            let Some(place) = queue.next() else { return true };
            if self.seen.load(Ordering::Relaxed) >= self.entries || Instant::now() >= self.deadline
            {
                extent.stopped_early = true;
                return true;
            }
            let before = extent.entries;
            visit(self.root, &place, &mut buffer, guide, queue, extent);
            self.seen.fetch_add(extent.entries - before, Ordering::Relaxed);
        }
        false
    }

    /// Works until no thread has work left. Shares half of its queue whenever the shared queue is empty.
    fn help<G: Guide<Mark = M>>(&self, mut queue: Queue<M>, guide: &mut G) -> Extent {
        let mut extent = Extent::default();
        loop {
            while !self.work(&mut queue, guide, &mut extent, WORTH_SHARING) {
                self.hand_over(&mut queue);
            }
            if extent.stopped_early {
                self.busy.fetch_sub(1, Ordering::AcqRel);
                return extent;
            }
            if !self.take_over(&mut queue) {
                return extent;
            }
        }
    }

    fn hand_over(&self, queue: &mut Queue<M>) {
        if let Ok(mut handed) = self.queue.try_lock()
            && handed.is_empty()
        {
            *handed = queue.split();
        }
    }

    /// Waits for work; returns false if there will be none.
    fn take_over(&self, queue: &mut Queue<M>) -> bool {
        self.busy.fetch_sub(1, Ordering::AcqRel);
        loop {
            {
                let mut handed = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                if !handed.is_empty() {
                    self.busy.fetch_add(1, Ordering::AcqRel);
                    *queue = std::mem::take(&mut *handed);
                    return true;
                }
                if self.busy.load(Ordering::Acquire) == 0 {
                    return false;
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

struct Queue<M> {
    soon: VecDeque<Visited<M>>,
    last: VecDeque<Visited<M>>,
}

impl<M> Default for Queue<M> {
    fn default() -> Self {
        Self { soon: VecDeque::new(), last: VecDeque::new() }
    }
}

impl<M> Queue<M> {
    fn next(&mut self) -> Option<Visited<M>> {
        self.soon.pop_front().or_else(|| self.last.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.soon.is_empty() && self.last.is_empty()
    }

    /// Splits off the second half.
    fn split(&mut self) -> Self {
        let half = |queue: &mut VecDeque<_>| queue.split_off(queue.len().div_ceil(2));
        Self { soon: half(&mut self.soon), last: half(&mut self.last) }
    }
}

fn visit<G: Guide>(
    root: &Dir,
    place: &Visited<G::Mark>,
    buffer: &mut [MaybeUninit<u8>],
    guide: &mut G,
    queue: &mut Queue<G::Mark>,
    extent: &mut Extent,
) {
    let Ok(dir) = root.dir(&place.path, Mounts::Stay) else { return };
    let mut kept = Vec::new();
    extent.dirs += 1;
    // A directory that vanishes or fails midway counts as far as it was read.
    let _ = dir.each(buffer, |name, kind| {
        extent.entries += 1;
        let verdict = guide.entry(place, name, kind);
        if verdict.keep {
            kept.push((name.to_owned(), kind));
        }
        if kind == Kind::Dir {
            let below = |mark| Visited { path: join(&place.path, name), mark };
            match verdict.enter {
                Enter::Never => {}
                Enter::Soon(mark) => queue.soon.push_back(below(mark)),
                Enter::Last(mark) => queue.last.push_back(below(mark)),
            }
        }
    });
    if !kept.is_empty() {
        guide.visit(&dir, place, &kept);
    }
}

fn join(path: &Path, name: &OsStr) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(name) } else { path.join(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names(Vec<String>);

    impl Guide for Names {
        type Mark = ();

        fn entry(&mut self, _: &Visited<()>, name: &OsStr, _: Kind) -> Verdict<()> {
            let enter = if name == "heap" { Enter::Last(()) } else { Enter::Soon(()) };
            Verdict { keep: true, enter }
        }

        fn visit(&mut self, _: &Dir, place: &Visited<()>, kept: &[(OsString, Kind)]) {
            let mut names: Vec<_> =
                kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            names.sort();
            self.0.push(format!("{}: {}", place.path.display(), names.join(" ")));
        }
    }

    #[test]
    fn walk_goes_near_first_heaps_last_and_never_through_links() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("heap/x")).unwrap();
        std::fs::create_dir_all(base.join("src/deep/er")).unwrap();
        std::os::unix::fs::symlink("/etc", base.join("link")).unwrap();
        let mut names = [Names(Vec::new())];
        let budget = Budget { time: Duration::from_secs(5), entries: 1000 };
        let extent = walk(&Dir::open(&base).unwrap(), budget, &mut names);
        assert_eq!(names[0].0, [": heap link src", "src: deep", "src/deep: er", "heap: x"]);
        assert_eq!((extent.dirs, extent.stopped_early), (6, false));
    }

    #[test]
    fn walk_sees_everything_once_when_threads_share_it() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        for n in 0..2000 {
            std::fs::create_dir_all(base.join(format!("{}/{}/{n}/leaf", n % 3, n % 50))).unwrap();
        }
        let budget = Budget { time: Duration::from_secs(30), entries: usize::MAX };
        let dir = Dir::open(&base).unwrap();
        let mut one = [Names(Vec::new())];
        let alone = walk(&dir, budget, &mut one);
        let mut three = [(); 3].map(|()| Names(Vec::new()));
        let together = walk(&dir, budget, &mut three);
        assert_eq!(alone, together);
        let sorted = |names: &[Names]| {
            let mut all: Vec<_> = names.iter().flat_map(|names| names.0.clone()).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&one), sorted(&three));
    }

    #[test]
    fn walk_ends_when_the_budget_ends_for_several_threads() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        (0..1000).for_each(|n| std::fs::create_dir_all(base.join(format!("{n}/x"))).unwrap());
        let dir = Dir::open(&base).unwrap();
        for entries in [1200, 1500, 1900] {
            let mut three = [(); 3].map(|()| Names(Vec::new()));
            let budget = Budget { time: Duration::from_secs(30), entries };
            assert!(walk(&dir, budget, &mut three).stopped_early, "{entries}");
        }
    }

    #[test]
    fn walk_says_so_when_the_budget_ends() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b/c")).unwrap();
        let mut names = [Names(Vec::new())];
        let budget = Budget { time: Duration::from_secs(5), entries: 2 };
        assert!(walk(&Dir::open(&base).unwrap(), budget, &mut names).stopped_early);
    }
}
