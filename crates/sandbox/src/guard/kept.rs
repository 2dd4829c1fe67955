//! Files that must be at the end what they were at the start, and how to make them so again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::{self, Dir, Instant, Kind, Mounts, Stat};
use serde::{Deserialize, Serialize};

use super::look::Look;
use super::report::Why;
use sandbox_git::protect::{danger, is_dot_git};
use sandbox_linux::raw::{Raw, RawPath};

/// Larger files are noticed when they change, but cannot be put back.
const MAX_COPY: u64 = 64 << 10;
/// As many hooks are remembered one by one.
const MAX_HOOKS: usize = 64;

/// An inode, for as long as it is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Id {
    dev: u64,
    ino: u64,
}

impl From<Stat> for Id {
    fn from(stat: Stat) -> Self {
        Self { dev: stat.dev, ino: stat.ino }
    }
}

/// Something that must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) path: RawPath,
    pub(super) class: Class,
    was: Was,
}

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Class {
    /// Git settings. The user may change them on the host meanwhile; what runs programs may not appear.
    Settings,
    /// A folder of hooks.
    Hooks,
    /// Exactly as it was.
    Exact,
    /// Our own configuration: the user may edit it meanwhile, and trust covers what it widens.
    OurConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Was {
    File(FileState),
    Hooks { id: Id, files: Vec<(RawPath, FileState)> },
    Other { id: Id },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    id: Id,
    ctime: Instant,
    mode: u32,
    content: Option<Raw>,
}

impl FileState {
    fn take(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let (content, stat) = match dir.read_with_stat(name, MAX_COPY) {
            Ok((content, stat)) => (Some(Raw(content)), stat),
            Err(_) => (None, dir.stat(name)?),
        };
        Ok(Self { id: stat.into(), ctime: stat.ctime, mode: stat.mode, content })
    }

    fn is_untouched(&self, stat: Stat) -> bool {
        stat.kind == Kind::File && self.id == stat.into() && self.ctime == stat.ctime
    }
}

impl Kept {
    /// Remembers a path; `None` if it is gone already.
    pub(super) fn take(path: &Path, class: Class) -> Option<Self> {
        let (dir, name) = tree::parent(path).ok()?;
        let stat = dir.stat(name).ok()?;
        let was = match stat.kind {
            Kind::File => Was::File(FileState::take(&dir, name).ok()?),
            Kind::Dir if class == Class::Hooks => {
                Was::Hooks { id: stat.into(), files: take_hooks(&dir, name).ok()? }
            }
            _ => Was::Other { id: stat.into() },
        };
        Some(Self { path: RawPath::of(path), class, was })
    }
}

fn take_hooks(dir: &Dir, name: &OsStr) -> io::Result<Vec<(RawPath, FileState)>> {
    let hooks = dir.dir(Path::new(name), Mounts::Cross)?;
    let names =
        hooks.entries()?.into_iter().filter(|(name, kind)| *kind == Kind::File && is_live(name));
    let states = names.take(MAX_HOOKS).filter_map(|(name, _)| {
        let state = FileState::take(&hooks, &name).ok()?;
        Some((RawPath(name.into()), state))
    });
    Ok(states.collect())
}

/// Whether git would run a hook of this name.
pub(super) fn is_live(name: &OsStr) -> bool {
    !name.as_encoded_bytes().ends_with(b".sample")
}

impl Look<'_> {
    /// Compares with the start, and undoes what must not be.
    pub(super) fn compare(&mut self, kept: &Kept) {
        let path = &kept.path.0;
        if let Some(link) = self.link_on_the_way(path) {
            self.aside(&link, Why::Link);
        }
        // Without its parent there is nothing left that could be obeyed.
        let Ok((dir, name)) = tree::parent(path) else { return };
        match &kept.was {
            Was::File(state) => self.compare_file(&dir, path, name, kept.class, state),
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
            // Without the file there is nothing to obey: the user removed a worktree or a submodule.
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
            // Removed on purpose, or with the repository: nothing is left to run.
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
        // Beyond what is remembered one by one, a name says nothing about who wrote it.
        for (name, _) in new.filter(|_| files.len() < MAX_HOOKS) {
            if hooks.stat(&name).is_ok_and(|stat| stat.ctime >= self.since) {
                self.aside(&path.join(&name), Why::Hook);
            }
        }
    }

    fn restore(&mut self, dir: &Dir, path: &Path, name: &OsStr, was: &FileState) {
        let Some(content) = &was.content else {
            return self.report.fail(
                path,
                "cannot put it back",
                &"it was too large to be remembered",
            );
        };
        match dir.write_new(name, &content.0, was.mode) {
            Ok(()) => self.restored(path.to_path_buf()),
            Err(error) => self.report.fail(path, "cannot put it back", &error),
        }
    }
}

/// The settings that run programs now and did not before.
fn new_programs(old: Option<&[u8]>, new: &[u8]) -> Option<Why> {
    let before = old.and_then(|text| danger::in_config(text).ok()).unwrap_or_default();
    let Ok(now) = danger::in_config(new) else { return Some(Why::UnreadableSettings) };
    let keys: Vec<_> = now.iter().filter(|var| !before.contains(var)).map(danger::name).collect();
    (!keys.is_empty()).then_some(Why::Settings(keys))
}

/// A swapped directory's original, if it only has another name now.
pub(super) fn find_sibling(dir: &Dir, id: Id) -> Option<PathBuf> {
    let entries = dir.entries().ok()?.into_iter().take(10_000);
    entries
        .filter(|(_, kind)| *kind == Kind::Dir)
        .find(|(name, _)| dir.stat(name).is_ok_and(|stat| id == stat.into()))
        .map(|(name, _)| name.into())
}
