//! An engine that completes the request of a killed command after the next command has checked. The engine is real. A
//! relay in front of its socket delays single requests.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use testkit::{Signal, rounds};

use super::stage::{NAME, Stage};

/// Requests and responses of this relay, and the condition that releases the delayed one.
#[derive(Default)]
struct Hold {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    /// All requests pass.
    #[default]
    Open,
    /// The next request that creates a container is delayed.
    Armed,
    /// One request is delayed until this many more requests have arrived. The last of them waits for its response.
    Holding(usize),
    /// The engine has the delayed request, and another one waits for its response.
    LetGo,
}

impl Hold {
    fn set(&self, state: State) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    fn wait_for(&self, is: impl Fn(State) -> bool) {
        let limit = Duration::from_secs(60);
        let state = self.state.lock().unwrap();
        let (_state, timeout) =
            self.changed.wait_timeout_while(state, limit, |state| !is(*state)).unwrap();
        assert!(!timeout.timed_out(), "the relay waits for ever");
    }

    /// Called with each request before it is passed on.
    fn request(&self, head: &str) -> bool {
        let creates = head.starts_with("POST") && head.contains("/containers/create");
        let mut state = self.state.lock().unwrap();
        match *state {
            State::Armed if creates => {
                // Effectively unlimited: the test sets the number.
                *state = State::Holding(usize::MAX);
                drop(state);
                self.changed.notify_all();
                self.wait_for(|state| matches!(state, State::LetGo | State::Open));
                return true;
            }
            State::Holding(1) => {
                *state = State::LetGo;
                drop(state);
                self.changed.notify_all();
                self.wait_for(|state| state == State::Open);
            }
            State::Holding(count) if count != usize::MAX => *state = State::Holding(count - 1),
            _ => {}
        }
        false
    }
}

/// Passes one connection on. Each chunk that starts like a request is one: the client waits for the response before
/// it sends the next.
fn relay(mut client: UnixStream, engine: &str, hold: &Arc<Hold>) {
    let mut server = UnixStream::connect(engine).unwrap();
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let waiting = Arc::new(Mutex::new(false));
    let (answered, gate) = (waiting.clone(), hold.clone());
    thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if std::mem::take(&mut *answered.lock().unwrap()) {
                gate.set(State::Open);
            }
            let _ = to.write_all(&piece[..count]);
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let mut piece = vec![0; 1 << 16];
    while let Ok(count @ 1..) = client.read(&mut piece) {
        let text = String::from_utf8_lossy(&piece[..count]).into_owned();
        let is_request =
            ["GET ", "POST ", "PUT ", "HEAD ", "DELETE "].iter().any(|verb| text.starts_with(verb));
        if is_request && hold.request(&text) {
            *waiting.lock().unwrap() = true;
        }
        if server.write_all(&piece[..count]).is_err() {
            return;
        }
    }
    // A delayed request gets a response even if its client is gone: the engine completes it.
    if !*waiting.lock().unwrap() {
        let _ = server.shutdown(std::net::Shutdown::Write);
    }
}

fn relayed(stage: Stage) -> (Stage, Arc<Hold>) {
    let hold = Arc::<Hold>::default();
    let path = stage.world.path("home/relay.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let engine = stage.docker.host().trim_start_matches("unix://").to_owned();
    let gate = hold.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (engine, gate) = (engine.clone(), gate.clone());
            thread::spawn(move || relay(client, &engine, &gate));
        }
    });
    (stage.with("DOCKER_HOST", &format!("unix://{}", path.display())), hold)
}

/// Kills `up` while the engine has its request for a container, and lets the engine complete it when the `nth` request
/// of the next command arrives. Returns the session's id, and true if the command sent that many.
fn finished_at(stage: &Stage, hold: &Hold, command: &[&str], nth: usize) -> (String, bool) {
    hold.set(State::Armed);
    let up = stage.world.spawn(["--trust", "up", "--name", NAME]);
    hold.wait_for(|state| matches!(state, State::Holding(_)));
    up.signal(Signal::KILL);
    up.wait().killed_by(Signal::KILL);
    let id = stage.id().unwrap();
    hold.set(State::Holding(nth));
    let run = stage.world.run(command.iter().copied());
    let reached = *hold.state.lock().unwrap() == State::Open;
    if !reached {
        // Later than the whole command.
        hold.set(State::LetGo);
        hold.wait_for(|state| state == State::Open);
    }
    let code = run.status().code();
    assert_eq!(code, Some(0), "{command:?}, {nth}: {}", run.messages());
    (id, reached)
}

/// Returns everything in the engine that has the session's id, with our mark or without.
fn left(stage: &Stage, id: &str) -> String {
    let name = format!("name={id}");
    let containers = ["ps", "--all", "--format", "{{.Names}} {{.Status}}", "--filter", &name];
    let volumes = ["volume", "ls", "--quiet", "--filter", &name];
    let of = |words: &[&str]| stage.docker.run(words.iter().copied()).succeeds().output();
    of(&containers) + &of(&volumes)
}

fn survives(config: &str) {
    let (stage, hold) = relayed(Stage::new(config));
    for command in [&["--trust", "up", "--name", NAME][..], &["down", NAME], &["rm", NAME]] {
        for nth in (1..).step_by(rounds(3, 1)) {
            let when = format!("{command:?}, finished at request {nth}");
            let (id, reached) = finished_at(&stage, &hold, command, nth);
            if command[0] == "--trust" {
                // If it completes after `up`, the engine refuses it, because the name is taken.
                stage.sh("id -u").succeeds().stdout("1000\n");
                stage.down().succeeds();
            } else if !reached {
                stage.world.run(["prune", "--yes"]).succeeds();
            }
            assert_eq!(left(&stage, &id), "", "{when}");
            let prune = stage.world.run(["prune", "--dry-run"]).succeeds();
            prune.stderr_lacks("no record names it");
            if !reached {
                break;
            }
        }
    }
}

#[test]
fn a_container_that_the_engine_finishes_late_is_removed_with_its_layer() {
    survives("workspace.cow = true");
}

#[test]
fn a_container_that_the_engine_finishes_late_is_removed_without_a_layer() {
    survives("");
}
