//! Address of the engine. It is found as Docker's own tools find it, and must be on this machine.

use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use serde_json::Value;

use crate::backend::BackendError;

/// Socket of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) socket: PathBuf,
    /// Source of the address, for messages.
    pub(super) by: String,
}

/// Finds the engine: `DOCKER_HOST`, else the current context, else the first existing socket of Docker, rootless Docker
/// or Podman.
pub(super) fn find(host: &Host) -> Result<Address, BackendError> {
    if let Some(text) = host.var("DOCKER_HOST") {
        return local(&text.to_string_lossy(), "`DOCKER_HOST`");
    }
    if let Some((name, endpoint)) = context(host)? {
        return local(&endpoint, &format!("context `{name}`"));
    }
    let sockets = sockets(host);
    let found = sockets.iter().find(|socket| socket.try_exists().unwrap_or(false));
    let Some(socket) = found else {
        let tried: Vec<_> = sockets.iter().map(|socket| socket.display().to_string()).collect();
        return Err(BackendError::plain(format!("cannot find a container engine at {}", tried.join(", ")))
            .code("no_engine")
            .hint("start Docker or Podman, set `DOCKER_HOST` to its socket, or use `backend = \"bwrap\"`, which needs no engine"));
    };
    Ok(Address { socket: socket.clone(), by: "the default path".into() })
}

fn sockets(host: &Host) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock"), "/run/docker.sock".into()];
    let runtime = host.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{}", host.uid).into());
    sockets.push(runtime.join("docker.sock"));
    if let Some(home) = &host.home {
        sockets.push(home.join(".docker/run/docker.sock"));
        sockets.push(home.join(".docker/desktop/docker.sock"));
    }
    sockets.push(runtime.join("podman/podman.sock"));
    sockets.push("/run/podman/podman.sock".into());
    sockets
}

/// Parses the address of an engine on this machine. A remote engine could not mount this machine's directories and
/// sockets.
fn local(text: &str, by: &str) -> Result<Address, BackendError> {
    let path = text.strip_prefix("unix://").map(Path::new).filter(|path| path.is_absolute());
    match path {
        Some(path) => Ok(Address { socket: path.to_owned(), by: by.to_owned() }),
        None => Err(BackendError::plain(format!("{by} is `{text}`, which is not a Unix socket on this machine"))
            .code("no_engine")
            .hint("use a local engine with `unix://…`; sessions mount directories and sockets of this machine, and a TCP address or an SSH tunnel may lead to another one")),
    }
}

/// Returns the name and endpoint of the current Docker context, if it is not the default.
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
        None => Err(BackendError::plain(format!("cannot find the Docker context `{name}`"))
            .code("no_engine")
            .hint(
                "`docker context ls` lists contexts, `docker context use default` selects the default",
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
    fn find_prefers_the_variable_to_the_context_to_the_default_path() {
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
        assert!(gone.to_string().contains("context `gone`"), "{gone}");
        for elsewhere in
            ["tcp://10.0.0.1:2375", "tcp://127.0.0.1:2375", "ssh://host", "unix://relative"]
        {
            let error = found(&[("DOCKER_HOST", elsewhere)]).unwrap_err();
            assert!(error.to_string().contains("not a Unix socket on this machine"), "{elsewhere}");
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
