//! Steps 3 to 5: the session's copy-on-write layer, which the program `agent-sandbox` creates and mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::time::Duration;

use sandbox_protocol::layout::{self, LAYERS_DIR};
use sandbox_protocol::value::Cow;

use super::settings::Settings;
use super::step::{Outcome, StepError, file};
use super::supervisor::Supervisor;
use super::task::{Rights, Task, tool};
use crate::environment::Environment;

/// The program that manages layers.
const TOOL: &str = layout::BINARY;
/// Directory of overlay layers, below the volume.
const OVERLAYS: &str = ".overlay";
const LIMIT: Duration = Duration::from_secs(120);

/// A mounted layer, and the process that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounted {
    pub(crate) home: PathBuf,
    /// `None` for overlayfs, which the kernel serves.
    pub(crate) daemon: Option<i32>,
}

/// Returns the directory of layers. Root mounts overlays from there, so for overlays only root can write to it.
fn place(settings: &Settings) -> PathBuf {
    match settings.cow {
        Cow::Overlay => settings.paths.data.join(OVERLAYS),
        Cow::Agentfs | Cow::None => settings.paths.data.clone(),
    }
}

fn folder(settings: &Settings) -> PathBuf {
    place(settings).join(LAYERS_DIR)
}

/// Runs step 3: creates the directory of layers.
pub(crate) fn directory(settings: &Settings) -> Result<Outcome, StepError> {
    if settings.cow == Cow::None {
        return other_engine(settings).map(|()| Outcome::Skipped("AGENT_COW=none"));
    }
    let folder = folder(settings);
    let (uid, gid) = match settings.cow {
        Cow::Overlay => (sandbox_linux::process::uid(), sandbox_linux::process::gid()),
        Cow::Agentfs | Cow::None => (settings.user.uid, settings.user.gid),
    };
    for dir in [place(settings), folder.clone()] {
        if let Err(error) = fs::create_dir(&dir)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(file("create", &dir)(error));
        }
    }
    let about = fs::symlink_metadata(&folder).map_err(file("inspect", &folder))?;
    if !about.is_dir() {
        return Err(StepError::NoDirectory(folder));
    }
    if (about.uid(), about.gid()) == (uid, gid) {
        return Ok(Outcome::Already);
    }
    chown(&folder, Some(uid), Some(gid)).map_err(file("change the owner of", &folder))?;
    Ok(Outcome::Done)
}

/// Checks that no other engine has changes of this session, which would otherwise disappear.
fn other_engine(settings: &Settings) -> Result<(), StepError> {
    let data = &settings.paths.data;
    let database = data.join(LAYERS_DIR).join(format!("{}.db", settings.session));
    let overlay =
        data.join(OVERLAYS).join(LAYERS_DIR).join(format!("{}.overlay", settings.session));
    let (others, wanted) = match settings.cow {
        Cow::Agentfs => (vec![overlay], "AGENT_COW=agentfs"),
        Cow::Overlay => (vec![database], "AGENT_COW=overlay"),
        Cow::None => (vec![database, overlay], "AGENT_COW=none"),
    };
    match others.into_iter().find(|path| fs::symlink_metadata(path).is_ok()) {
        Some(path) => Err(StepError::OtherEngine { path, wanted }),
        None => Ok(()),
    }
}

/// Runs step 4: creates the session's layer once.
pub(crate) fn init(settings: &Settings, supervisor: &mut Supervisor) -> Result<Outcome, StepError> {
    let ending = match settings.cow {
        Cow::None => return Ok(Outcome::Skipped("AGENT_COW=none")),
        Cow::Agentfs => "db",
        Cow::Overlay => "overlay",
    };
    other_engine(settings)?;
    if fs::symlink_metadata(folder(settings).join(format!("{}.{ending}", settings.session))).is_ok()
    {
        return Ok(Outcome::Already);
    }
    let words = ["fs", "init", "--engine", settings.cow.word(), "--base"].map(OsString::from);
    let base = settings.paths.base.clone().into_os_string();
    let words = words.into_iter().chain([base, settings.session.clone().into()]);
    run(settings, words.collect(), supervisor)?;
    Ok(Outcome::Done)
}

/// Runs step 5: mounts the layer over the home directory.
pub(crate) fn mount(
    settings: &Settings,
    supervisor: &mut Supervisor,
) -> Result<(Outcome, Option<Mounted>), StepError> {
    if settings.cow == Cow::None {
        return Ok((Outcome::Skipped("AGENT_COW=none"), None));
    }
    let home = &settings.paths.home;
    fs::create_dir_all(home).map_err(file("create", home))?;
    let mut words: Vec<OsString> = ["--json", "fs", "mount"].map(OsString::from).to_vec();
    if settings.cow == Cow::Agentfs {
        words.extend(["-a", "--allow-root"].map(OsString::from));
    }
    words.extend([settings.session.clone().into(), home.clone().into_os_string()]);
    let said = run(settings, words, supervisor)?;
    let said: Option<serde_json::Value> = serde_json::from_str(&said).ok();
    let daemon =
        said.and_then(|said| said.get("pid")?.as_i64()).and_then(|pid| i32::try_from(pid).ok());
    Ok((Outcome::Done, Some(Mounted { home: home.clone(), daemon })))
}

/// Runs the program. Overlays need root. Everything else runs as the agent's user.
fn run(
    settings: &Settings,
    arguments: Vec<OsString>,
    supervisor: &mut Supervisor,
) -> Result<String, StepError> {
    let program = tool(TOOL, settings.environment.set("PATH"))?;
    let task = Task {
        name: TOOL,
        program: &program,
        arguments,
        environment: &environment(settings),
        dir: &place(settings),
        rights: if settings.cow == Cow::Agentfs {
            Rights::Of(&settings.user)
        } else {
            Rights::Ours
        },
        limit: LIMIT,
    };
    task.run(supervisor)
}

/// Returns the program's environment, without `HOME`. Records in the home directory would be below the mount, and root
/// must not write them to a path that the agent chooses.
fn environment(settings: &Settings) -> Environment {
    let path = settings.environment.set("PATH").unwrap_or_default();
    Environment::of([[b"PATH=", path].concat()])
}
