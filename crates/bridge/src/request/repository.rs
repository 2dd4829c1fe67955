//! The check of a repository before git runs in it on the host: the agent may have written it. Git itself is not asked,
//! because reading a configuration is already obeying it.

use std::path::Path;

use sandbox_git::host_command::{CONFIGS, LEADS_OUT, refused_setting};

use crate::shared_dirs::{SharedDirError, SharedDirs, WorkDir};

/// Returns the reason for which git must not run in a directory.
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
        for name in LEADS_OUT {
            if shared_dirs.look_below(cwd, &below.join(name))?.is_some() {
                return Ok(Some(format!("`.git/{name}` leads out of the repository")));
            }
        }
        for name in CONFIGS {
            let file =
                found.file(name).map_err(|error| SharedDirError::Look(below.join(name), error))?;
            let Some(file) = file else { continue };
            if let Some(why) = refused_setting(file, name) {
                return Ok(Some(why));
            }
        }
        return Ok(None);
    }
    Ok(None)
}

/// Returns the directory at which git's search for a repository ends: above the one that is shared.
pub(super) fn ceiling(shared_dirs: &SharedDirs, cwd: &WorkDir) -> Option<std::path::PathBuf> {
    shared_dirs.root_of(cwd).parent().map(Path::to_owned)
}
