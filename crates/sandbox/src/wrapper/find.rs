//! Where the programs of a name lie on this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox_linux::file;

use sandbox_git::command::grammar::RULED;

/// Programs that act by the name they are called by, and whether `PROGRAM NAME …` does the same.
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

/// Whether a program acts by its name, and if so, whether its first argument may be one.
pub(super) fn multicall(target: &Path) -> Option<bool> {
    let name = target.file_name()?;
    MULTICALL.iter().find(|(program, _)| name == *program).map(|(_, applets)| *applets)
}

/// Every program of that name on the search path, symlinks resolved, each once, in the order of the path.
/// Entries that are no readable directory hold no program.
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

/// git is more files than its name: `git-core/git` may be a copy, `git-checkout` a hard link.
pub(super) fn git_copies(path: &[PathBuf], found: &[PathBuf]) -> Vec<PathBuf> {
    let dirs = exec_paths(path, found);
    let (mut copies, mut known, mut homes) = (BTreeSet::new(), Vec::new(), Vec::new());
    for dir in &dirs {
        // Where git itself is not, its parts are not either.
        let Some((copy, meta)) = program_in(dir, Path::new("git")) else { continue };
        copies.insert(copy);
        known.push(meta);
        homes.push(dir);
    }
    known.extend(found.iter().filter_map(|git| fs::metadata(git).ok()));
    for dir in homes {
        let linked = RULED
            .iter()
            .filter_map(|command| program_in(dir, Path::new(&format!("git-{command}"))));
        copies
            .extend(linked.filter(|(file, meta)| is_git(file, meta, &known)).map(|(file, _)| file));
    }
    copies.into_iter().filter(|copy| !found.contains(copy)).collect()
}

/// Directories that may hold git's own programs: on the search path, and beside each git found.
fn exec_paths(path: &[PathBuf], found: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut dirs: BTreeSet<PathBuf> = path.iter().cloned().collect();
    let prefixes = found.iter().filter_map(|git| git.parent()?.parent()).chain([Path::new("/usr")]);
    for prefix in prefixes {
        dirs.insert(prefix.join("libexec/git-core"));
        dirs.insert(prefix.join("lib/git-core"));
    }
    dirs.iter().filter_map(|dir| file::real(dir).ok()).collect()
}

/// `git-NAME` is git when it leads to a file called git, or is one of the files already known.
/// Other programs of such a name, scripts above all, would find themselves again and never end.
fn is_git(file: &Path, meta: &Metadata, known: &[Metadata]) -> bool {
    let same = |git: &Metadata| git.dev() == meta.dev() && git.ino() == meta.ino();
    file.file_name() == Some(OsStr::new("git")) || known.iter().any(same)
}

/// The executable regular file behind a path.
fn program(path: &Path) -> Option<(PathBuf, Metadata)> {
    let meta = fs::metadata(path).ok()?;
    runs(&meta).then(|| file::real(path).ok()).flatten().map(|target| (target, meta))
}

/// The same for a name in a directory that is free of symlinks, in one look at most names.
/// A link to the `git` beside it, as Debian has them, is nothing but that.
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
