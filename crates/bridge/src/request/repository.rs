//! Check of a repository that the agent may have written, before git runs in it on the host. Git itself is not used,
//! because it applies a configuration by reading it.

use std::path::Path;

use sandbox_git::host_command::{CONFIGS, LEADS_OUT, refused_setting};

use crate::shared_dirs::{SharedDirError, SharedDirs, WorkDir};

/// Returns the reason why git must not run in a directory, if any.
pub(super) fn refusal(
    shared_dirs: &SharedDirs,
    cwd: &WorkDir,
) -> Result<Option<String>, SharedDirError> {
    for dir in cwd.below().ancestors() {
        let below = dir.join(".git");
        let Some(found) = shared_dirs.look_below(cwd, &below)? else { continue };
        let is_dir = found.is_dir().unwrap_or(false);
        if found.below != below || !is_dir {
            return Ok(Some("its git directory is outside the repository".into()));
        }
        for name in LEADS_OUT {
            if shared_dirs.look_below(cwd, &below.join(name))?.is_some() {
                return Ok(Some(format!("`.git/{name}` leads outside the repository")));
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

/// Returns the directory at which git's search for a repository ends: the parent of the shared directory.
pub(super) fn ceiling(shared_dirs: &SharedDirs, cwd: &WorkDir) -> Option<std::path::PathBuf> {
    shared_dirs.root_of(cwd).parent().map(Path::to_owned)
}
