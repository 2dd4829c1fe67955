//! Scan of a tree: compares it with the record, reverts changes, then walks it for new files.

mod compare;
mod policy;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use sandbox_linux::tree::{self, Dir, Instant, Kind, Mounts};
use sandbox_linux::walk::{self, Budget, Enter, Guide, Verdict, Visited};

use super::judge::{self, Finding};
use super::later::{self, Above};
use super::quarantine::Quarantine;
use super::record::{Known, Record};
use super::report::{Moved, Report, Restored, Why};
use compare::find_sibling;
use sandbox_git::protect::{LARGE_DIRS, is_dot_git, is_git_shape, is_policy, pointer_path, settle};
use sandbox_policy::config::PROJECT_NAMES;

/// Cost limit of the walk. It suffices for a tree of 100,000 files. A larger tree may be scanned in part.
pub(super) const WALK: Budget = Budget { time: Duration::from_millis(100), entries: 2_000_000 };

const UNSEEN: &str = "git runs its hooks or settings; the repository was not found at the start";

/// State of a scan.
pub(super) struct Scan<'a> {
    record: &'a Record,
    /// A file that changed after this time changed during the run.
    pub(super) since: Instant,
    pub(super) report: Report,
    quarantine: Quarantine,
    /// Git directories and entries that existed at the start.
    known: BTreeSet<&'a Path>,
    /// Entries that exist now.
    pub(super) repos: BTreeSet<PathBuf>,
    /// Configuration files that exist now.
    pub(super) policies: BTreeSet<PathBuf>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(record: &'a Record, since: Instant, quarantine: Quarantine) -> Self {
        let dirs =
            record.repos.iter().flat_map(|repo| [&repo.entry, &repo.git_dir, &repo.common_dir]);
        let kept = record.kept.iter().map(|kept| &kept.path);
        let known = dirs.chain(kept).map(|path| path.0.as_path()).collect();
        let (repos, policies) = (BTreeSet::new(), BTreeSet::new());
        Self { record, since, report: Report::default(), quarantine, known, repos, policies }
    }

    /// Scans everything.
    pub(super) fn run(&mut self) {
        let record = self.record;
        record.links.iter().for_each(|(link, target)| self.check_link(&link.0, &target.0));
        record.repos.iter().for_each(|repo| self.check_place(repo));
        record.absent.iter().for_each(|path| self.check_absent(&path.0, &Why::Planted));
        for path in &record.absent_config {
            let ours = PROJECT_NAMES.iter().any(|name| path.0.ends_with(name));
            if ours && policy::git_content(&path.0) {
                self.report.later(path.0.clone(), policy::TRACKED);
            } else {
                let why = if ours { Why::PlantedConfig } else { Why::AgainstRule };
                self.check_absent(&path.0, &why);
            }
        }
        record.kept.iter().for_each(|kept| self.compare(kept));
        record.repos.iter().for_each(|repo| self.check_inside(repo));
        self.walk();
    }

    /// Moves a path aside and reports it.
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

    /// Returns the first symlink in a path that had none at the start. Git would follow it.
    pub(super) fn link_in(&self, path: &Path) -> Option<PathBuf> {
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

    fn remove_link(&mut self, path: &Path) {
        if let Some(link) = self.link_in(path) {
            self.aside(&link, Why::Link);
        }
    }

    fn check_absent(&mut self, path: &Path, why: &Why) {
        // If the parent can be opened, its path has no symlink.
        let Ok((dir, name)) = tree::parent(path) else {
            return self.remove_link(path);
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
            Err(error) => self.report.fail(path, "cannot restore the symlink", &error),
        }
    }

    /// Checks that a git directory is the same directory as before.
    fn check_place(&mut self, repo: &Known) {
        let entry = &repo.entry.0;
        let Some(id) = repo.id else { return };
        if tree::parent(entry).is_err() {
            self.remove_link(entry);
        }
        let Ok((dir, name)) = tree::parent(entry) else { return };
        let now = dir.stat(name);
        if now.as_ref().is_ok_and(|stat| id == (*stat).into()) {
            return;
        }
        let original = find_sibling(&dir, id);
        let is_dir = now.as_ref().is_ok_and(|stat| stat.kind == Kind::Dir);
        // If the old repository is gone, a harmless new one in its place is a fresh clone.
        if now.is_ok() && (original.is_some() || !is_dir || !judge::git_dir(entry).is_empty()) {
            self.aside(entry, Why::Swapped);
        }
        let Some(original) = original else { return };
        match dir.rename(original.as_os_str(), &dir, name) {
            Ok(()) => self.restored(entry.clone()),
            Err(error) => self.report.fail(entry, "cannot restore the repository", &error),
        }
    }

    /// Judges submodules and worktrees that appeared inside a repository that existed at the start.
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
            self.add_news(news);
        }
    }

    /// Adds the threads' findings, shallow paths first, so that a truncated list shows those.
    fn add_news(&mut self, news: [News<'_>; 2]) {
        let (mut later, mut entries, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        for part in news {
            later.extend(part.later);
            entries.extend(part.entries);
            policies.extend(part.policies);
        }
        later.sort_by_cached_key(|(path, _)| (path.components().count(), path.clone()));
        entries.sort_by_cached_key(|(path, _)| path.clone());
        // The configuration of agent-sandbox was read-only, and is compared separately.
        let record = self.record;
        let known = |path: &Path| record.kept.iter().any(|kept| kept.path.0 == path);
        for (path, why) in later.into_iter().filter(|(path, _)| !known(path)) {
            self.report.later(path, why);
        }
        for (entry, kind) in entries {
            self.judge(&entry, kind);
        }
        policies.sort();
        for (path, ctime) in policies {
            self.judge_policy(path, ctime);
        }
    }

    /// Judges a `.git` entry, or a directory shaped like a git directory.
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
            // If the directory itself did not change, the timestamps of its content can be trusted.
            let touched =
                |finding: &Finding| finding.ctime >= self.since || stat.ctime >= self.since;
            self.undo(findings.into_iter().filter(|f| all_new || touched(f)).collect(), all_new);
        }
    }
}

/// New files below a root.
struct News<'a> {
    root: &'a Path,
    since: Instant,
    entries: Vec<(PathBuf, Kind)>,
    later: Vec<(PathBuf, &'static str)>,
    policies: Vec<(PathBuf, Instant)>,
}

impl<'a> News<'a> {
    fn of(root: &'a Path, since: Instant) -> Self {
        Self { root, since, entries: Vec::new(), later: Vec::new(), policies: Vec::new() }
    }
}

impl Guide for News<'_> {
    type Mark = Above;

    fn entry(&mut self, place: &Visited<Above>, name: &OsStr, kind: Kind) -> Verdict<Above> {
        if is_dot_git(name) {
            return Verdict { keep: true, enter: Enter::Never };
        }
        if kind != Kind::Dir {
            let keep = name == "HEAD" || is_policy(name, kind) || place.mark.why(name).is_some();
            return Verdict { keep, enter: Enter::Never };
        }
        let mark = place.mark.inside(place.path.file_name(), name);
        let large = LARGE_DIRS.iter().any(|dir| name == *dir);
        Verdict { keep: false, enter: if large { Enter::Last(mark) } else { Enter::Soon(mark) } }
    }

    fn visit(&mut self, dir: &Dir, place: &Visited<Above>, kept: &[(OsString, Kind)]) {
        let here = place.below(self.root);
        for (name, kind) in kept {
            if is_dot_git(name) {
                self.entries.push((here.join(name), *kind));
                continue;
            }
            if is_policy(name, *kind) {
                let ctime = dir.stat(name).map(|stat| stat.ctime);
                self.policies.extend(ctime.ok().map(|ctime| (here.join(name), ctime)));
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
