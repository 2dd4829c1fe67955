//! Comparison of recorded files with their present state, and their restoration.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_git::protect::{danger, is_dot_git};
use sandbox_linux::raw::RawPath;
use sandbox_linux::tree::{self, Dir, Kind};

use super::Scan;
use crate::inspect::baseline::{Baseline, Class, FileState, Id, MAX_COPY, MAX_HOOKS, Was, is_live};
use crate::inspect::report::Why;

impl Scan<'_> {
    /// Compares with the state at the start, and reverts forbidden changes.
    pub(super) fn compare(&mut self, baseline: &Baseline) {
        let path = &baseline.path.0;
        if let Some(link) = self.link_in(path) {
            self.aside(&link, Why::Link);
        }
        // Without the parent directory there is no file that git could act on.
        let Ok((dir, name)) = tree::parent(path) else { return };
        match &baseline.was {
            Was::File(state) => self.compare_file(&dir, path, name, baseline.class, state),
            Was::Hooks { id, files } => self.compare_hooks(&dir, path, name, *id, files),
            Was::Other { id } => match dir.stat(name) {
                Ok(stat) if *id != stat.into() => self.aside(path, Why::Swapped),
                _ => {}
            },
        }
    }

    fn compare_file(
        &mut self,
        dir: &Dir,
        path: &Path,
        name: &OsStr,
        class: Class,
        was: &FileState,
    ) {
        let old = was.content.as_ref().map(|bytes| bytes.0.as_slice());
        let why = match dir.stat(name) {
            Ok(stat) if was.is_untouched(stat) => return,
            Ok(_) if class == Class::OurConfig => {
                return self
                    .report
                    .later(path.to_path_buf(), "the sandbox reads it when started there");
            }
            Ok(stat) if stat.kind != Kind::File => Why::Swapped,
            Ok(_) => match dir.read(name, MAX_COPY) {
                Ok(new) if Some(new.as_slice()) == old => return,
                Ok(new) if class == Class::Settings => match new_programs(old, &new) {
                    Some(why) => why,
                    None => return,
                },
                _ => Why::Changed,
            },
            // Without the file git has nothing to act on: the user removed a worktree or a submodule.
            Err(_) if class == Class::OurConfig || is_dot_git(name) => return,
            Err(_) => return self.restore(dir, path, name, was),
        };
        self.aside(path, why);
        self.restore(dir, path, name, was);
    }

    fn compare_hooks(
        &mut self,
        dir: &Dir,
        path: &Path,
        name: &OsStr,
        id: Id,
        files: &[(RawPath, FileState)],
    ) {
        match dir.stat(name) {
            Ok(stat) if id == stat.into() => {}
            Ok(_) => self.aside(path, Why::Swapped),
            // The hooks were removed on purpose or with the repository: git has nothing to run.
            Err(_) => return,
        }
        let Ok(hooks) = dir.make_dir(name, 0o755) else { return };
        for (hook, was) in files {
            let name = hook.0.as_os_str();
            self.compare_file(&hooks, &path.join(name), name, Class::Exact, was);
        }
        let known = |name: &OsString| files.iter().any(|(hook, _)| hook.0.as_os_str() == name);
        let now = hooks.entries().unwrap_or_default();
        let new = now.into_iter().filter(|(name, _)| is_live(name) && !known(name));
        // If not every hook was recorded, an unknown name does not prove that the run created the hook.
        for (name, _) in new.filter(|_| files.len() < MAX_HOOKS) {
            if hooks.stat(&name).is_ok_and(|stat| stat.ctime >= self.since) {
                self.aside(&path.join(&name), Why::Hook);
            }
        }
    }

    fn restore(&mut self, dir: &Dir, path: &Path, name: &OsStr, was: &FileState) {
        let Some(content) = &was.content else {
            return self.report.fail(path, "cannot restore it", &"it was too large to record");
        };
        match dir.write_new(name, &content.0, was.mode) {
            Ok(()) => self.restored(path.to_path_buf()),
            Err(error) => self.report.fail(path, "cannot restore it", &error),
        }
    }
}

/// Returns the settings that run programs now and did not before.
fn new_programs(old: Option<&[u8]>, new: &[u8]) -> Option<Why> {
    let before = old.and_then(|text| danger::in_config(text).ok()).unwrap_or_default();
    let Ok(now) = danger::in_config(new) else { return Some(Why::UnreadableSettings) };
    let keys: Vec<_> = now.iter().filter(|var| !before.contains(var)).map(danger::name).collect();
    (!keys.is_empty()).then_some(Why::Settings(keys))
}

/// Returns the original of a swapped directory, if it was only renamed.
pub(super) fn find_sibling(dir: &Dir, id: Id) -> Option<PathBuf> {
    let entries = dir.entries().ok()?.into_iter().take(10_000);
    entries
        .filter(|(_, kind)| *kind == Kind::Dir)
        .find(|(name, _)| dir.stat(name).is_ok_and(|stat| id == stat.into()))
        .map(|(name, _)| name.into())
}
