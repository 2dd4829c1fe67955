//! Step 1: copies the image's home once, as the base of the layer.

use std::fs;
use std::io;

use super::copy::copy_tree;
use super::settings::{Paths, Settings};
use super::step::{Outcome, StepError, file};
use super::supervisor::Supervisor;
use super::task::aside;

/// Copies to the staging directory and renames, so that a copy is never incomplete.
pub(crate) fn set_up(
    settings: &Settings,
    supervisor: &mut Supervisor,
) -> Result<Outcome, StepError> {
    let Paths { data, base, staging, .. } = &settings.paths;
    clear(staging)?;
    match fs::symlink_metadata(base) {
        Ok(about) if about.is_dir() => return Ok(Outcome::Already),
        Ok(_) => return Err(StepError::NoDirectory(base.clone())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file("inspect", base)(error)),
    }
    fs::create_dir_all(data).map_err(file("create", data))?;
    aside(supervisor, "the copy of the home", || copy(settings))?;
    Ok(Outcome::Done)
}

fn copy(settings: &Settings) -> Result<(), StepError> {
    let Paths { data, base, staging, .. } = &settings.paths;
    make_staging(settings)?;
    let draft = staging.join("home");
    let template =
        std::path::Path::new("/home").join(settings.user.name.clone().unwrap_or_default());
    let owner = (settings.user.uid, settings.user.gid);
    if fs::symlink_metadata(&template).is_ok() {
        copy_tree(&template, &draft, owner)?;
    } else {
        fs::create_dir(&draft).map_err(file("create", &draft))?;
        std::os::unix::fs::chown(&draft, Some(owner.0), Some(owner.1))
            .map_err(file("change the owner of", &draft))?;
    }
    // After a crash of the machine right after the rename, the content must exist too.
    let opened = fs::File::open(data).map_err(file("open", data))?;
    rustix::fs::syncfs(&opened).map_err(file("sync", data))?;
    fs::rename(&draft, base).map_err(file("create", base))?;
    clear(staging)
}

/// Creates the staging directory, in which only root can create files.
pub(crate) fn make_staging(settings: &Settings) -> Result<(), StepError> {
    let staging = &settings.paths.staging;
    clear(staging)?;
    fs::create_dir(staging).map_err(file("create", staging))
}

/// Removes files of an earlier start, without following links.
pub(crate) fn clear(staging: &std::path::Path) -> Result<(), StepError> {
    match fs::remove_dir_all(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file("remove", staging)(error))
        }
        _ => Ok(()),
    }
}
