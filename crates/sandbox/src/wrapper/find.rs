//! Search for the programs of a name on this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_linux::file;

use sandbox_git::command::grammar::RULED;

/// Programs that act according to the name they are called by. True if `PROGRAM NAME …` works too.
const MULTICALL: &[(&str, bool)] = &[
    ("busybox", true),
    ("busybox.static", true),
    ("ccache", true),
    ("coreutils", true),
    ("distcc", true),
    ("kmod", false),
    ("lvm", false),
    ("mise", false),
    ("proto-shim", false),
    ("rustup", false),
    ("rustup-init", false),
    ("sbase-box", true),
    ("sccache", true),
    ("snap", false),
    ("systemctl", false),
    ("toolbox", true),
    ("toybox", true),
    ("ubase-box", true),
    ("uutils", true),
    ("volta-shim", false),
    ("xtables-legacy-multi", true),
    ("xtables-nft-multi", true),
];

/// Returns `None` unless a program acts according to the name it is called by, and true if the name may also be its
/// first argument.
pub(super) fn multicall(target: &Path) -> Option<bool> {
    let name = target.file_name()?;
    MULTICALL.iter().find(|(program, _)| name == *program).map(|(_, applets)| *applets)
}

/// Returns every program of a name on the search path, each once and with symlinks resolved, in the order of the path.
/// Entries that are not readable directories are skipped.
pub(super) fn targets(path: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in path {
        let Some((target, _)) = program(&dir.join(name)) else { continue };
        if !found.contains(&target) {
            found.push(target);
        }
    }
    found
}

/// Returns the other files of git: `git-core/git` may be a copy, `git-checkout` a hard link.
pub(super) fn git_copies(path: &[PathBuf], found: &[PathBuf]) -> Vec<PathBuf> {
    let dirs = exec_paths(path, found);
    let (mut copies, mut known, mut git_dirs) = (BTreeSet::new(), Vec::new(), Vec::new());
    for dir in &dirs {
        // A directory without git has none of its parts either.
        let Some((copy, meta)) = program_in(dir, Path::new("git")) else { continue };
        copies.insert(copy);
        known.push(meta);
        git_dirs.push(dir);
    }
    known.extend(found.iter().filter_map(|git| fs::metadata(git).ok()));
    for dir in git_dirs {
        let linked = RULED
            .iter()
            .filter_map(|command| program_in(dir, Path::new(&format!("git-{command}"))));
        copies
            .extend(linked.filter(|(file, meta)| is_git(file, meta, &known)).map(|(file, _)| file));
    }
    copies.into_iter().filter(|copy| !found.contains(copy)).collect()
}

/// Returns the directories that may contain git's programs: the search path, and git's exec path beside each git found.
fn exec_paths(path: &[PathBuf], found: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut dirs: BTreeSet<PathBuf> = path.iter().cloned().collect();
    let prefixes = found.iter().filter_map(|git| git.parent()?.parent()).chain([Path::new("/usr")]);
    for prefix in prefixes {
        dirs.insert(prefix.join("libexec/git-core"));
        dirs.insert(prefix.join("lib/git-core"));
    }
    dirs.iter().filter_map(|dir| file::real(dir).ok()).collect()
}

/// Returns true if the file `git-NAME` is git: it resolves to a file called `git`, or is one of the known files. Other
/// programs with such a name, mostly scripts, must not be wrapped. They would call themselves forever.
fn is_git(file: &Path, meta: &Metadata, known: &[Metadata]) -> bool {
    let same = |git: &Metadata| git.dev() == meta.dev() && git.ino() == meta.ino();
    file.file_name() == Some(OsStr::new("git")) || known.iter().any(same)
}

/// Returns the executable regular file that a path resolves to.
fn program(path: &Path) -> Option<(PathBuf, Metadata)> {
    let meta = fs::metadata(path).ok()?;
    runs(&meta).then(|| file::real(path).ok()).flatten().map(|target| (target, meta))
}

/// Variant of [`program`] for a name in a directory that is free of symlinks, with one system call for most names. Skips
/// symlinks to the `git` in the same directory, as Debian has them, because `git` is found anyway.
fn program_in(dir: &Path, name: &Path) -> Option<(PathBuf, Metadata)> {
    let path = dir.join(name);
    match fs::read_link(&path) {
        Ok(target) if target == Path::new("git") => None,
        Ok(_) => program(&path),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => {
            let meta = fs::symlink_metadata(&path).ok()?;
            runs(&meta).then_some((path, meta))
        }
    }
}

fn runs(meta: &Metadata) -> bool {
    meta.is_file() && meta.permissions().mode() & 0o111 != 0
}
