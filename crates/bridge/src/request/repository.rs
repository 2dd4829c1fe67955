//! A look at the repository that git is about to be run in, on the host, by somebody who cannot see what the agent wrote
//! into it. Git itself is not asked: reading a configuration is already obeying it.

use std::io::Read;
use std::path::Path;

use sandbox_git::protect::{config, danger};

use crate::shared_dirs::{SharedDirError, SharedDirs, WorkDir};

const MAX_CONFIG: u64 = 1 << 20;

/// Why git must not be run here, if it must not.
pub(super) fn refusal(
    shared_dirs: &SharedDirs,
    cwd: &WorkDir,
) -> Result<Option<String>, SharedDirError> {
    for dir in cwd.below().ancestors() {
        let below = dir.join(".git");
        let Some(found) = shared_dirs.look_below(cwd, &below)? else { continue };
        let is_dir = found.is_dir().unwrap_or(false);
        if found.below != below || !is_dir {
            return Ok(Some("the repository's own directory lies elsewhere".into()));
        }
        for name in ["commondir", "objects/info/alternates", "objects/info/http-alternates"] {
            if shared_dirs.look_below(cwd, &below.join(name))?.is_some() {
                return Ok(Some(format!("`.git/{name}` leads out of the repository")));
            }
        }
        for name in ["config", "config.worktree"] {
            let file =
                found.file(name).map_err(|error| SharedDirError::Look(below.join(name), error))?;
            let Some(file) = file else { continue };
            if let Some(why) = settings(file, name) {
                return Ok(Some(why));
            }
        }
        return Ok(None);
    }
    Ok(None)
}

/// Where git's search for a repository ends: above the directory that is shared.
pub(super) fn ceiling(shared_dirs: &SharedDirs, cwd: &WorkDir) -> Option<std::path::PathBuf> {
    shared_dirs.root_of(cwd).parent().map(Path::to_owned)
}

fn settings(file: impl Read, name: &str) -> Option<String> {
    let mut text = Vec::new();
    if file.take(MAX_CONFIG + 1).read_to_end(&mut text).is_err() || text.len() as u64 > MAX_CONFIG {
        return Some(format!("`.git/{name}` cannot be read"));
    }
    let Ok(vars) = config::parse(&text) else {
        return Some(format!("`.git/{name}` cannot be understood"));
    };
    if vars.iter().any(|var| var.is("core", "worktree")) {
        return Some("its setting `core.worktree` leads out of the repository".into());
    }
    let found = danger::in_config(&text).ok()?;
    let first = found.first()?;
    Some(format!("its setting `{}` runs a program or reads more settings", danger::name(first)))
}
