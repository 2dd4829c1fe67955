//! Scan of a tree: compare with the record, undo, then walk for what is new.

mod compare;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use sandbox_linux::tree::{self, Dir, Instant, Kind, Mounts};
use sandbox_linux::walk::{self, Budget, Enter, Guide, Visited, Verdict};

use super::judge::{self, Finding};
use super::later::{self, Above};
use super::quarantine::Quarantine;
use super::record::{Known, Record};
use super::report::{Moved, Report, Restored, Why};
use compare::find_sibling;
use sandbox_git::protect::{LARGE_DIRS, is_dot_git, is_git_shape, pointer_path, settle};
use sandbox_policy::config::PROJECT_NAMES;

/// What the walk may cost: a tree of 100,000 files is seen whole, a larger one as far as it goes.
pub(super) const WALK: Budget = Budget { time: Duration::from_millis(100), entries: 2_000_000 };

const UNSEEN: &str = "git runs its hooks or settings; the repository was not seen at the start";

/// State of a scan.
pub(super) struct Scan<'a> {
    record: &'a Record,
    /// What changed since then was changed during the run.
    pub(super) since: Instant,
    pub(super) report: Report,
    quarantine: Quarantine,
    /// Git directories and entries that were there at the start.
    known: BTreeSet<&'a Path>,
    /// Entries that are there now.
    pub(super) repos: BTreeSet<PathBuf>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(record: &'a Record, since: Instant, quarantine: Quarantine) -> Self {
        let dirs =
            record.repos.iter().flat_map(|repo| [&repo.entry, &repo.git_dir, &repo.common_dir]);
        let kept = record.kept.iter().map(|kept| &kept.path);
        let known = dirs.chain(kept).map(|path| path.0.as_path()).collect();
        Self { record, since, report: Report::default(), quarantine, known, repos: BTreeSet::new() }
    }

    /// Scans everything.
    pub(super) fn run(&mut self) {
        let record = self.record;
        record.links.iter().for_each(|(link, target)| self.check_link(&link.0, &target.0));
        record.repos.iter().for_each(|repo| self.check_place(repo));
        record.absent.iter().for_each(|path| self.check_absent(&path.0, &Why::Planted));
        for path in &record.absent_config {
            let ours = PROJECT_NAMES.iter().any(|name| path.0.ends_with(name));
            let why = if ours { Why::PlantedConfig } else { Why::AgainstRule };
            self.check_absent(&path.0, &why);
        }
        record.kept.iter().for_each(|kept| self.compare(kept));
        record.repos.iter().for_each(|repo| self.check_inside(repo));
        self.walk();
    }

    /// Moves something aside, and says so.
    pub(super) fn aside(&mut self, path: &Path, why: Why) {
        match self.quarantine.aside(path) {
            Ok(to) => self.report.moved.push(Moved { path: path.to_path_buf(), to, why }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.report.fail(path, &format!("cannot move it aside ({why})"), &error),
        }
    }

    pub(super) fn restored(&mut self, path: PathBuf) {
        self.report.restored.push(Restored { path });
    }

    fn is_place(&self, path: &Path) -> bool {
        self.record.places.iter().any(|place| path.starts_with(&place.0))
    }

    /// The first link on the way to a path that led through none. Git would follow it.
    pub(super) fn link_on_the_way(&self, path: &Path) -> Option<PathBuf> {
        let place = self.record.places.iter().filter(|place| path.starts_with(&place.0)).max()?;
        let mut here = place.0.clone();
        let mut dir = Dir::open(&here).ok()?;
        for name in path.parent()?.strip_prefix(&place.0).ok()? {
            here.push(name);
            match dir.stat(name).ok()?.kind {
                Kind::Link => return Some(here),
                Kind::Dir => dir = dir.dir(Path::new(name), Mounts::Cross).ok()?,
                _ => return None,
            }
        }
        None
    }

    fn take_link(&mut self, path: &Path) {
        if let Some(link) = self.link_on_the_way(path) {
            self.aside(&link, Why::Link);
        }
    }

    fn check_absent(&mut self, path: &Path, why: &Why) {
        // Where the parent can be opened there is no link on the way.
        let Ok((dir, name)) = tree::parent(path) else {
            return self.take_link(path);
        };
        if dir.stat(name).is_ok() && !judge::is_harmless(&dir, name) {
            self.aside(path, why.clone());
        }
    }

    fn check_link(&mut self, path: &Path, target: &Path) {
        let Ok((dir, name)) = tree::parent(path) else { return };
        match dir.read_link(name) {
            Ok(now) if now == target => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => self.aside(path, Why::Swapped),
        }
        match dir.link(name, target) {
            Ok(()) => self.restored(path.to_path_buf()),
            Err(error) => self.report.fail(path, "cannot put the link back", &error),
        }
    }

    /// A git directory must be the same directory as before.
    fn check_place(&mut self, repo: &Known) {
        let entry = &repo.entry.0;
        let Some(id) = repo.id else { return };
        if tree::parent(entry).is_err() {
            self.take_link(entry);
        }
        let Ok((dir, name)) = tree::parent(entry) else { return };
        let now = dir.stat(name);
        if now.as_ref().is_ok_and(|stat| id == (*stat).into()) {
            return;
        }
        let original = find_sibling(&dir, id);
        let is_dir = now.as_ref().is_ok_and(|stat| stat.kind == Kind::Dir);
        // A harmless new repository where the old one is gone is somebody's fresh clone.
        if now.is_ok() && (original.is_some() || !is_dir || !judge::git_dir(entry).is_empty()) {
            self.aside(entry, Why::Swapped);
        }
        let Some(original) = original else { return };
        match dir.rename(original.as_os_str(), &dir, name) {
            Ok(()) => self.restored(entry.clone()),
            Err(error) => self.report.fail(entry, "cannot put the repository back", &error),
        }
    }

    /// Submodules and worktrees that appeared inside a repository that was there before.
    fn check_inside(&mut self, repo: &Known) {
        let mut findings = Vec::new();
        for dir in BTreeSet::from([&repo.git_dir.0, &repo.common_dir.0]) {
            if self.is_place(dir) {
                judge::inner_dirs(dir, &mut findings, |inner| !self.known.contains(inner));
            }
        }
        self.undo(findings, true);
        let entry = &repo.entry.0;
        if tree::parent(entry).and_then(|(dir, name)| dir.stat(name)).is_ok() {
            self.repos.insert(entry.clone());
        }
    }

    fn undo(&mut self, findings: Vec<Finding>, all_new: bool) {
        for finding in findings {
            if self.known.contains(finding.git_dir.as_path()) {
                continue;
            }
            if all_new || finding.ctime >= self.since {
                self.aside(&finding.path, finding.why);
            } else {
                self.report.later(finding.path, UNSEEN);
            }
        }
    }

    fn walk(&mut self) {
        let start = Clock::now();
        let roots: BTreeSet<_> = self.record.roots.iter().map(|root| root.0.as_path()).collect();
        let nested = |root: &Path| root.ancestors().skip(1).any(|above| roots.contains(above));
        for root in self.record.roots.iter().map(|root| root.0.as_path()) {
            let Ok(dir) = Dir::open(root) else { continue };
            if nested(root) {
                continue;
            }
            let mut news = [News::of(root, self.since), News::of(root, self.since)];
            let time = WALK.time.saturating_sub(start.elapsed());
            let extent = walk::walk(&dir, Budget { time, ..WALK }, &mut news);
            self.report.looked_at += extent.entries;
            self.report.stopped_early |= extent.stopped_early;
            self.take_news(news);
        }
    }

    /// What the threads found, near things first, so that a long list shows those.
    fn take_news(&mut self, news: [News<'_>; 2]) {
        let (mut later, mut entries) = (Vec::new(), Vec::new());
        for part in news {
            later.extend(part.later);
            entries.extend(part.entries);
        }
        later.sort_by_cached_key(|(path, _)| (path.components().count(), path.clone()));
        entries.sort_by_cached_key(|(path, _)| path.clone());
        // Our own configuration was read-only, and is looked at by itself.
        let record = self.record;
        let known = |path: &Path| record.kept.iter().any(|kept| kept.path.0 == path);
        for (path, why) in later.into_iter().filter(|(path, _)| !known(path)) {
            self.report.later(path, why);
        }
        for (entry, kind) in entries {
            self.judge(&entry, kind);
        }
    }

    /// A `.git` entry, or a directory shaped like a git directory.
    fn judge(&mut self, entry: &Path, kind: Kind) {
        self.repos.insert(entry.to_path_buf());
        if self.known.contains(entry) {
            return;
        }
        let Ok((dir, name)) = tree::parent(entry) else { return };
        let Ok(stat) = dir.stat(name) else { return };
        let all_new = self.record.complete;
        let git_dir = match kind {
            Kind::Dir => Some(entry.to_path_buf()),
            _ if !all_new && stat.ctime < self.since => None,
            Kind::File => dir.read(name, 8192).ok().and_then(|text| pointer_path(&text)),
            Kind::Link => dir.read_link(name).ok(),
            Kind::Special => None,
        };
        let target = git_dir.and_then(|path| settle(entry.parent()?, &path));
        let Some(target) = target.filter(|target| target.exists) else { return };
        if !self.is_place(&target.path) {
            self.aside(entry, Why::PointsOutside);
        } else if !self.known.contains(target.path.as_path()) {
            let findings = judge::git_dir(&target.path);
            // Without a change to the directory itself its content is as old as it looks.
            let touched =
                |finding: &Finding| finding.ctime >= self.since || stat.ctime >= self.since;
            self.undo(findings.into_iter().filter(|f| all_new || touched(f)).collect(), all_new);
        }
    }
}

/// What is new below a root.
struct News<'a> {
    root: &'a Path,
    since: Instant,
    entries: Vec<(PathBuf, Kind)>,
    later: Vec<(PathBuf, &'static str)>,
}

impl<'a> News<'a> {
    fn of(root: &'a Path, since: Instant) -> Self {
        Self { root, since, entries: Vec::new(), later: Vec::new() }
    }
}

impl Guide for News<'_> {
    type Mark = Above;

    fn entry(&mut self, place: &Visited<Above>, name: &OsStr, kind: Kind) -> Verdict<Above> {
        if is_dot_git(name) {
            return Verdict { keep: true, enter: Enter::Never };
        }
        if kind != Kind::Dir {
            let keep = name == "HEAD" || place.mark.why(name).is_some();
            return Verdict { keep, enter: Enter::Never };
        }
        let mark = place.mark.inside(place.path.file_name(), name);
        let heap = LARGE_DIRS.iter().any(|heap| name == *heap);
        Verdict { keep: false, enter: if heap { Enter::Last(mark) } else { Enter::Soon(mark) } }
    }

    fn visit(&mut self, dir: &Dir, place: &Visited<Above>, kept: &[(OsString, Kind)]) {
        let here = place.below(self.root);
        for (name, kind) in kept {
            if is_dot_git(name) {
                self.entries.push((here.join(name), *kind));
                continue;
            }
            if name == "HEAD" && is_git_shape(&here) {
                self.entries.push((here.clone(), Kind::Dir));
            }
            let Some(why) = place.mark.why(name) else { continue };
            let changed = dir.stat(name).is_ok_and(|stat| stat.ctime >= self.since);
            if changed && later::confirmed(dir, name) {
                self.later.push((here.join(name), why));
            }
        }
    }
}
