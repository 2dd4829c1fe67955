//! Verdict on a repository that a sandbox created: whether git may run in it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::{Dir, Instant, Kind, Mounts};

use super::baseline::is_live;
use super::report::Why;
use sandbox_git::protect::{danger, module_dirs, one_path, settle};

const MAX_CONFIG: u64 = 1 << 20;

/// Something that git would act on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The git directory it belongs to.
    pub(super) git_dir: PathBuf,
    pub(super) path: PathBuf,
    pub(super) why: Why,
    /// Last change of it, or of the directory that it appeared in.
    pub(super) ctime: Instant,
}

/// Returns everything in a git directory that makes git run something, submodules and worktrees included.
pub(super) fn git_dir(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    one_dir(path, &mut findings);
    inner_dirs(path, &mut findings, |_| true);
    findings
}

/// Returns true when a new file or directory may stay, because git would run nothing because of it.
pub(super) fn is_harmless(dir: &Dir, name: &OsStr) -> bool {
    let mut findings = Vec::new();
    match name.as_encoded_bytes() {
        b"config" | b"config.worktree" => settings(dir, Path::new(""), name, &mut findings),
        b"hooks" => {
            let hooks = dir.dir(Path::new(name), Mounts::Cross).and_then(|hooks| hooks.entries());
            return hooks.is_ok_and(|hooks| hooks.iter().all(|(name, _)| !is_live(name)));
        }
        _ => return false,
    }
    findings.is_empty()
}

/// Judges the submodules and worktrees inside a git directory that `wanted` selects.
pub(super) fn inner_dirs(path: &Path, findings: &mut Vec<Finding>, wanted: impl Fn(&Path) -> bool) {
    let mut budget = 4096;
    for module in module_dirs(path, &mut budget).iter().filter(|module| wanted(module)) {
        one_dir(module, findings);
    }
    let worktrees = path.join("worktrees");
    let entries = Dir::open(&worktrees).and_then(|dir| dir.entries()).unwrap_or_default();
    for (name, _) in entries.into_iter().filter(|(_, kind)| *kind == Kind::Dir) {
        let worktree = worktrees.join(name);
        if wanted(&worktree) {
            one_dir(&worktree, findings);
            inner_modules(&worktree, findings, &wanted);
        }
    }
}

fn inner_modules(path: &Path, findings: &mut Vec<Finding>, wanted: impl Fn(&Path) -> bool) {
    let mut budget = 1024;
    for module in module_dirs(path, &mut budget).iter().filter(|module| wanted(module)) {
        one_dir(module, findings);
    }
}

fn one_dir(path: &Path, findings: &mut Vec<Finding>) {
    let Ok(dir) = Dir::open(path) else { return };
    for name in ["config", "config.worktree"] {
        settings(&dir, path, OsStr::new(name), findings);
    }
    hooks(&dir, path, findings);
    commondir(&dir, path, findings);
}

fn settings(dir: &Dir, path: &Path, name: &OsStr, findings: &mut Vec<Finding>) {
    let Ok(stat) = dir.stat(name) else { return };
    let why = match dir.read(name, MAX_CONFIG).map(|text| danger::in_config(&text)) {
        Ok(Ok(vars)) if vars.is_empty() => return,
        Ok(Ok(vars)) => Why::Settings(vars.iter().map(danger::name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Ok(Err(_)) | Err(_) => Why::UnreadableSettings,
    };
    findings.push(Finding { git_dir: path.into(), path: path.join(name), why, ctime: stat.ctime });
}

fn hooks(dir: &Dir, git_dir: &Path, findings: &mut Vec<Finding>) {
    let name = OsStr::new("hooks");
    let Ok(stat) = dir.stat(name) else { return };
    let finding = |path, ctime| Finding { git_dir: git_dir.into(), path, why: Why::Hook, ctime };
    let path = git_dir.join(name);
    if stat.kind == Kind::Link {
        return findings.push(finding(path, stat.ctime));
    }
    let Ok(hooks) = dir.dir(Path::new(name), Mounts::Cross) else { return };
    for (name, kind) in hooks.entries().unwrap_or_default() {
        let Ok(hook) = hooks.stat(&name) else { continue };
        let runs = kind == Kind::Link || (kind == Kind::File && hook.mode & 0o111 != 0);
        if runs && is_live(&name) {
            findings.push(finding(path.join(name), hook.ctime.max(stat.ctime)));
        }
    }
}

/// Judges a `commondir` file. A worktree's leads two levels up. Any other makes git read settings from
/// another directory (`gitrepository-layout(5)`).
fn commondir(dir: &Dir, path: &Path, findings: &mut Vec<Finding>) {
    let name = OsStr::new("commondir");
    let Ok(stat) = dir.stat(name) else { return };
    let named = dir.read(name, 8192).ok().and_then(|text| one_path(&text));
    let named = named.and_then(|named| settle(path, &named));
    let home =
        path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "worktrees"));
    match (named, home.and_then(Path::parent)) {
        (Some(named), Some(common)) if named.links.is_empty() && named.path == common => {
            // Git reads settings and hooks from there, even if the directory is not a repository otherwise.
            if let Ok(dir) = Dir::open(common) {
                settings(&dir, common, OsStr::new("config"), findings);
                hooks(&dir, common, findings);
            }
        }
        _ => findings.push(Finding {
            git_dir: path.into(),
            path: path.join(name),
            why: Why::CommonDir,
            ctime: stat.ctime,
        }),
    }
}
