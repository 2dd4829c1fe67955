//! A socket in front of the engine's that records requests to the engine.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::stage::Stage;

/// Requests to the engine so far.
pub(super) struct Listened(Arc<Mutex<Vec<u8>>>);

impl Listened {
    /// Creates a stage whose commands reach the engine through such a socket.
    pub(super) fn new(stage: Stage) -> (Stage, Self) {
        let engine =
            stage.docker.run(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]);
        let engine = PathBuf::from(engine.succeeds().output().trim().trim_start_matches("unix://"));
        let path = stage.world.path("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let note = said.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&engine).unwrap();
                let (client_too, server_too) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                let note = note.clone();
                std::thread::spawn(move || {
                    pass(client, server, |text| note.lock().unwrap().extend_from_slice(text));
                });
                std::thread::spawn(move || pass(server_too, client_too, |_| {}));
            }
        });
        (stage.with("DOCKER_HOST", &format!("unix://{}", path.display())), Self(said))
    }

    /// Returns all requests, as text.
    pub(super) fn said(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Forgets all requests until now.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap().clear();
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, mut note: impl FnMut(&[u8])) {
    let mut piece = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        note(&piece[..read]);
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
