//! Where the engine is: as its own tools find it, and only on this machine.

use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use serde_json::Value;

use crate::backend::BackendError;

/// The engine's socket, and what said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) socket: PathBuf,
    pub(super) by: String,
}

/// `DOCKER_HOST`, else the context that is in use, else the first socket that is there: Docker's, its
/// rootless one, Podman's.
pub(super) fn find(host: &Host) -> Result<Address, BackendError> {
    if let Some(text) = host.var("DOCKER_HOST") {
        return local(&text.to_string_lossy(), "`DOCKER_HOST`");
    }
    if let Some((name, endpoint)) = context(host)? {
        return local(&endpoint, &format!("the context `{name}`"));
    }
    let places = places(host);
    let found = places.iter().find(|place| place.try_exists().unwrap_or(false));
    let Some(socket) = found else {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(BackendError::plain(format!("no engine was found at {}", looked.join(", ")))
            .code("no_engine")
            .hint("start Docker or Podman, or set `DOCKER_HOST` to its socket; without one, `backend = \"bwrap\"` works"));
    };
    Ok(Address { socket: socket.clone(), by: "its usual place".into() })
}

fn places(host: &Host) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/var/run/docker.sock"), "/run/docker.sock".into()];
    let runtime = host.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{}", host.uid).into());
    places.push(runtime.join("docker.sock"));
    if let Some(home) = &host.home {
        places.push(home.join(".docker/run/docker.sock"));
        places.push(home.join(".docker/desktop/docker.sock"));
    }
    places.push(runtime.join("podman/podman.sock"));
    places.push("/run/podman/podman.sock".into());
    places
}

/// Directories and sockets of this machine are nothing to an engine elsewhere.
fn local(text: &str, by: &str) -> Result<Address, BackendError> {
    let path = text.strip_prefix("unix://").map(Path::new).filter(|path| path.is_absolute());
    match path {
        Some(path) => Ok(Address { socket: path.to_owned(), by: by.to_owned() }),
        None => Err(BackendError::plain(format!("{by} names `{text}`, which is no socket of this machine"))
            .code("no_engine")
            .hint("sessions mount directories and sockets of this machine, and also behind `tcp://127.0.0.1` or a tunnel of SSH another one may answer: use an engine that runs here, by `unix://…`")),
    }
}

/// The context that the user chose, and where it leads.
fn context(host: &Host) -> Result<Option<(String, String)>, BackendError> {
    let Some(folder) = host
        .var("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| host.home.as_ref().map(|home| home.join(".docker")))
    else {
        return Ok(None);
    };
    let name = host.var("DOCKER_CONTEXT").map(|name| name.to_string_lossy().into_owned());
    let name = name.or_else(|| {
        let config = read(&folder.join("config.json"))?;
        config["currentContext"].as_str().map(str::to_owned)
    });
    let Some(name) = name.filter(|name| name != "default" && !name.is_empty()) else {
        return Ok(None);
    };
    let entries = std::fs::read_dir(folder.join("contexts/meta")).into_iter().flatten().flatten();
    let endpoint =
        entries.filter_map(|entry| read(&entry.path().join("meta.json"))).find_map(|meta| {
            (meta["Name"] == *name)
                .then(|| meta["Endpoints"]["docker"]["Host"].as_str().map(str::to_owned))?
        });
    match endpoint {
        Some(endpoint) => Ok(Some((name, endpoint))),
        None => Err(BackendError::plain(format!("the Docker context `{name}` is not there"))
            .code("no_engine")
            .hint(
                "`docker context ls` lists those that are; `docker context use default` goes back",
            )),
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(env: &[(&str, &str)], home: &Path) -> Host {
        Host {
            home: Some(home.to_owned()),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            uid: 4242,
            ..Host::read()
        }
    }

    #[test]
    fn find_goes_by_the_variable_then_the_context_then_the_place() {
        let home = tempfile::tempdir().unwrap();
        let meta = home.path().join(".docker/contexts/meta/abc");
        std::fs::create_dir_all(&meta).unwrap();
        let text = r#"{"Name":"mine","Endpoints":{"docker":{"Host":"unix:///mine.sock"}}}"#;
        std::fs::write(meta.join("meta.json"), text).unwrap();
        let found = |env: &[(&str, &str)]| {
            find(&host(env, home.path())).map(|found| found.socket.display().to_string())
        };
        assert_eq!(found(&[("DOCKER_CONTEXT", "mine")]).unwrap(), "/mine.sock");
        std::fs::write(home.path().join(".docker/config.json"), r#"{"currentContext":"mine"}"#)
            .unwrap();
        assert_eq!(found(&[]).unwrap(), "/mine.sock");
        assert_eq!(found(&[("DOCKER_HOST", "unix:///d.sock")]).unwrap(), "/d.sock");
        let gone = found(&[("DOCKER_CONTEXT", "gone")]).unwrap_err();
        assert!(gone.to_string().contains("`gone` is not there"), "{gone}");
        for elsewhere in
            ["tcp://10.0.0.1:2375", "tcp://127.0.0.1:2375", "ssh://host", "unix://relative"]
        {
            let error = found(&[("DOCKER_HOST", elsewhere)]).unwrap_err();
            assert!(error.to_string().contains("no socket of this machine"), "{elsewhere}");
        }
        let socket = home.path().join("run/podman/podman.sock");
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        std::fs::write(&socket, "").unwrap();
        let run = home.path().join("run").display().to_string();
        let env = [("XDG_RUNTIME_DIR", run.as_str()), ("DOCKER_CONTEXT", "default")];
        let at = found(&env).unwrap();
        assert!(
            at == socket.display().to_string()
                || at.starts_with("/var/run")
                || at.starts_with("/run")
        );
    }
}
