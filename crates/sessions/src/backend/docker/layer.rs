//! Copy-on-write layer of a container session. It has the format of a local session's, and the same commands read it.
//! While the container runs, the engine mounts it, with a volume for each directory.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder,
};
use sandbox_layers::session::{
    self as cow, LayerEngine, LayerSessions, NewSession, OverlayMount, RootKind, SessionError,
    wait_until_after,
};
use sandbox_protocol::Hint;
use sandbox_protocol::variable::AGENT_COMMAND;

use super::engine::{AGAIN, status};
use super::plan::{Container, LayeredDir};
use super::render::{self, Marks};
use super::{Docker, names};
use crate::backend::{BackendError, Recorder};
use crate::error::ControlError;
use crate::session::Session;
use crate::store::ThingKind;

/// Maximum length of mount options that the kernel reads: a page with its final NUL, mount(2).
const LONGEST: usize = 4095;
/// Time limit for the engine to release a volume after it removed the container.
const PATIENCE: Duration = Duration::from_secs(10);

impl Docker {
    /// Opens the layer of a session, and creates the volumes that the container mounts.
    pub(super) fn create_volumes(
        &self,
        session: &Session,
        plan: &Container,
        record: &mut Recorder<'_>,
    ) -> Result<(), ControlError> {
        if plan.layers.is_empty() {
            return Ok(());
        }
        let kept = record.make(ThingKind::Layer, session.id.as_str(), || {
            self.open_layer(session, plan).map_err(layer_failed)
        })?;
        for (number, layer) in plan.layers.iter().enumerate() {
            let name = names::volume(session.id.as_str(), number);
            record.make(ThingKind::Volume, &name, || {
                let mount = kept.root_at(&layer.base).map(|root| kept.overlay_mount(root));
                let mount = mount.transpose().map_err(layer_failed)?;
                let mount = mount.ok_or_else(|| {
                    BackendError::plain("the layer does not cover this directory")
                })?;
                self.make_volume(session, &name, &options(&mount, layer)?)
            })?;
        }
        Ok(())
    }

    /// Opens or creates the layer of this session. The container holds it until [`Self::release_layer`].
    fn open_layer(
        &self,
        session: &Session,
        plan: &Container,
    ) -> Result<cow::LayerSession, SessionError> {
        let started = sandbox_linux::clock::wall_exactly();
        let (sessions, name) = (self.layers(), session.name.as_str());
        let roots: Vec<(PathBuf, RootKind)> =
            plan.layers.iter().map(|kept| (kept.base.clone(), RootKind::Dir)).collect();
        let mut kept = match sessions.of(&session.project, name)? {
            Some(kept) => kept,
            None => sessions.create(NewSession {
                name: Some(name.to_owned()),
                project: session.project.clone(),
                engine: LayerEngine::Overlay,
                roots: roots.clone(),
            })?,
        };
        let lock = kept.lock_as(session.id.as_str())?;
        kept.add_roots(&roots)?;
        let program = plan.env.get(AGENT_COMMAND).map_or("", String::as_str);
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        kept.begin(&lock, &program, started)?;
        kept.hand_over(lock, session.id.as_str())?;
        wait_until_after(started);
        Ok(kept)
    }

    /// Releases the layer after the container is gone: records the base of the changes, and lets other commands use it.
    pub(super) fn release_layer(&self, session: &Session) -> Result<(), BackendError> {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self.check_gone(session) {
            if Instant::now() >= end {
                return Err(error);
            }
            self.remove_container(&names::container(session))?;
        }
        let kept =
            self.layers().of(&session.project, session.name.as_str()).map_err(layer_failed)?;
        match kept {
            Some(mut kept) => kept.release(session.id.as_str()).map(drop).map_err(layer_failed),
            None => Ok(()),
        }
    }

    /// Cleans the work directory of an overlay. A rootful engine leaves a file there that only root, or the next mount of the
    /// layer, can remove. For ordinary users the engine mounts it again, for a container that starts no program.
    pub(super) fn tidy(&self, session: &Session, name: &str) -> Result<(), BackendError> {
        let kept =
            self.layers().of(&session.project, session.name.as_str()).map_err(layer_failed)?;
        let Some(kept) = kept.filter(|_| self.host.uid != 0) else { return Ok(()) };
        self.check_gone(session)?;
        let left = |root: usize| kept.leaves_behind(root);
        if !(0..kept.record().roots.len()).any(left) {
            return Ok(());
        }
        let body = render::tidier(&self.facts(session)?.image, name);
        let tidier = format!("{name}-tidy");
        self.remove_container(&tidier)?;
        let engine = self.engine()?;
        let options = CreateContainerOptionsBuilder::default().name(&tidier).build();
        let made = engine.docker.create_container(Some(options), body);
        engine.call("mount the layer for cleaning", made)?;
        // Fails because the program does not exist, but only after everything was mounted.
        let _ = engine.wait(engine.docker.start_container(&tidier, None));
        self.remove_container(&tidier)
    }

    /// Fails if the container still exists. Removal continues after failures, and must not touch a mounted layer.
    fn check_gone(&self, session: &Session) -> Result<(), BackendError> {
        match self.inspect(&names::container(session))? {
            Some(_) => Err(BackendError::plain("the layer's container still exists")),
            None => Ok(()),
        }
    }

    fn layers(&self) -> LayerSessions {
        LayerSessions::at(self.data_dir.path())
    }

    fn make_volume(
        &self,
        session: &Session,
        name: &str,
        options: &HashMap<String, String>,
    ) -> Result<(), BackendError> {
        let (engine, state) = (self.engine()?, self.data_dir_hash());
        let marks = Marks {
            session: session.id.as_str(),
            policy: &session.policy,
            state: &state,
            owner: self.host.uid,
        };
        let wanted = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".into()),
            driver_opts: Some(options.clone()),
            labels: Some(render::labels(&marks)),
            ..Default::default()
        };
        let end = Instant::now() + PATIENCE;
        loop {
            // A stale volume may have other layers.
            self.remove_volume(name)?;
            let made = engine.docker.create_volume(wanted.clone());
            // If a volume of this name exists, the engine returns it regardless of its options. It creates an empty one
            // for the container of a killed command.
            if engine.call("create the volume", made)?.options == *options {
                return Ok(());
            }
            if Instant::now() >= end {
                let text = format!("volume `{name}` already exists and belongs to another session");
                return Err(
                    BackendError::plain(text).hint(format!("remove it: docker volume rm {name}"))
                );
            }
        }
    }

    pub(super) fn remove_volume(&self, name: &str) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let options = RemoveVolumeOptionsBuilder::default().build();
            match engine.wait(engine.docker.remove_volume(name, Some(options))) {
                Err(error) if status(&error) == Some(404) => return Ok(()),
                // A container uses it. It is being removed, or the engine has only now finished creating it for a
                // killed command.
                Err(error) if status(&error) == Some(409) && Instant::now() < end => {
                    for holder in holders(name) {
                        self.remove_container(&holder)?;
                    }
                    std::thread::sleep(AGAIN);
                }
                Err(error) => {
                    return Err(BackendError::new("the engine cannot remove the volume", error));
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Removes all volumes named after a container, with or without our label. The engine creates unlabelled ones when it
    /// finishes creating a container after their removal.
    pub(super) fn remove_volumes_of(&self, container: &str) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let layers = names::volumes(container);
        let filters = HashMap::from([("name".to_owned(), vec![layers.clone()])]);
        let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
        let found = engine.call("list its volumes", engine.docker.list_volumes(Some(options)))?;
        let names = found.volumes.unwrap_or_default().into_iter().map(|found| found.name);
        let mut own = names.filter(|name| name.starts_with(&layers));
        own.try_for_each(|name| self.remove_volume(&name))
    }
}

/// Returns the containers that may use a volume: the session's, and the one that mounts it for cleaning.
fn holders(volume: &str) -> [String; 2] {
    let session = volume.rsplit_once("-layer-").map_or(volume, |(session, _)| session);
    [session.to_owned(), format!("{volume}-tidy")]
}

/// Returns the overlay's mount options, for the engine's volume driver.
fn options(
    mount: &OverlayMount,
    kept: &LayeredDir,
) -> Result<HashMap<String, String>, BackendError> {
    let below = |path: &PathBuf| escaped(&mount.data.join(path));
    let mut lower: Vec<String> = mount.lower.iter().map(below).collect::<Result<_, _>>()?;
    lower.push(escaped(&kept.base)?);
    let options = format!(
        "nosuid,nodev,userxattr,lowerdir={},upperdir={},workdir={}",
        lower.join(":"),
        below(&mount.upper)?,
        below(&mount.work)?
    );
    if options.len() > LONGEST {
        return Err(BackendError::plain("the layer's mount options are too long for the kernel")
            .hint(
                "fork a session with fewer snapshots (`agent-sandbox fork`), or use shorter paths",
            ));
    }
    let words = [("type", "overlay"), ("device", "overlay"), ("o", options.as_str())];
    Ok(words.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
}

/// Escapes a path for the options. The kernel understands the escapes, but the engine splits at every comma and removes
/// pieces that are mount flags. The last piece of a path never is one.
fn escaped(path: &Path) -> Result<String, BackendError> {
    let text = std::str::from_utf8(path.as_os_str().as_bytes()).map_err(|error| {
        BackendError::new(format!("path `{}` is not valid UTF-8", path.display()), error)
    })?;
    let special = |c: char| matches!(c, ':' | ',' | '\\');
    let text: String =
        text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect();
    Ok(format!("{text}/."))
}

fn layer_failed(error: SessionError) -> BackendError {
    let hint = error.hint();
    let mut failed = BackendError::new("cannot use the session's copy-on-write layer", error);
    failed.code = "layer";
    failed.hint = hint;
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_escape_special_characters_in_paths() {
        let mount = OverlayMount {
            data: "/d,ro".into(),
            lower: vec!["layers/2/upper".into()],
            upper: "layers/3/upper".into(),
            work: "sessions/1/work/0".into(),
        };
        let kept = LayeredDir { base: "/a:b\\c d,ro".into(), target: "/workspace".into() };
        let made = options(&mount, &kept).unwrap();
        assert_eq!(
            made["o"],
            "nosuid,nodev,userxattr,lowerdir=/d\\,ro/layers/2/upper/.:/a\\:b\\\\c d\\,ro/.,\
             upperdir=/d\\,ro/layers/3/upper/.,workdir=/d\\,ro/sessions/1/work/0/."
        );
        // The engine's driver finds no flags except ours.
        let flags = made["o"].split(',').filter(|piece| ["ro", "rw", "bind"].contains(piece));
        assert_eq!(flags.count(), 0);
        let deep = OverlayMount { lower: vec!["l".repeat(250).into(); 20], ..mount };
        assert!(options(&deep, &kept).is_err());
    }
}
