//! In the container, in the place of a routed command: what the host may do goes there, all else runs here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use sandbox_core::Host;
use sandbox_core::host_command::line;
use sandbox_core::host_command::route::{ROUTES, Routes, SHIMS, Ssh, Way};
use sandbox_core::host_command::wire::{self, Kind, LONGEST, Request, WINDOW};
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::signal::{ENDING, Signals};

use super::forced::CWD;

/// What a broken bridge ends with.
const BROKEN: u8 = 125;

/// Sends the command to the host, if that is where it belongs. `ruled` says that the launcher has a program for the
/// name; otherwise a command that stays here is looked for in `PATH`.
pub(crate) fn intercept(args: &[OsString], ruled: bool) -> Option<ExitCode> {
    let name = Path::new(args.first()?).file_name()?;
    if name == "agent-sandbox" {
        return None;
    }
    let routes: Routes = serde_json::from_slice(&fs::read(ROUTES).ok()?).ok()?;
    if routes.covers(name, &args[1..]) {
        return Some(ExitCode::from(send(&routes.way, name, &args[1..])));
    }
    (routes.knows(name) && !ruled).then(|| ExitCode::from(run_here(name, args)))
}

fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "agent-sandbox: {what}");
}

/// The container's own program of this name. Returns only if there is none.
fn run_here(name: &OsStr, args: &[OsString]) -> u8 {
    let Some(program) = own_program(name) else {
        let name = name.display();
        complain(&format!(
            "this use of `{name}` is no host command, and this container has no `{name}` of its own"
        ));
        return 127;
    };
    let error = Command::new(&program).arg0(&args[0]).args(&args[1..]).exec();
    complain(&format!("cannot run `{}`: {error}", program.display()));
    126
}

/// The first program of this name in `PATH` that is no stand-in of ours.
pub(super) fn own_program(name: &OsStr) -> Option<PathBuf> {
    let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let own = id(Path::new("/proc/self/exe"));
    Host::read()
        .search_path()
        .into_iter()
        .filter(|dir| dir != Path::new(SHIMS))
        .map(|dir| dir.join(name))
        .find(|path| {
            let program = fs::metadata(path)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
            program && id(path) != own
        })
}

fn send(way: &Way, name: &OsStr, rest: &[OsString]) -> u8 {
    let argv: Vec<OsString> = [name.to_owned()].into_iter().chain(rest.iter().cloned()).collect();
    let cwd = Host::read().cwd.unwrap_or_else(|| PathBuf::from("/"));
    match way {
        Way::Unix { socket } => by_socket(socket, &Request { cwd, argv }).unwrap_or_else(|error| {
            complain(&format!("the host cannot be asked at `{}`: {error}", socket.display()));
            BROKEN
        }),
        Way::Ssh(ssh) => by_ssh(ssh, &cwd, &argv),
    }
}

/// Becomes the SSH client. Returns only if that fails.
fn by_ssh(ssh: &Ssh, cwd: &Path, argv: &[OsString]) -> u8 {
    let line = match request_line(cwd, argv) {
        Ok(line) => line,
        Err(error) => {
            complain(&format!("this command cannot be sent by SSH: {error}"));
            return BROKEN;
        }
    };
    let Some(program) = own_program(OsStr::new("ssh")) else {
        complain("this container has no `ssh` to reach its host by");
        return 127;
    };
    let words = ssh.words(&line);
    let error = Command::new(program).arg0("ssh").args(&words[1..]).exec();
    complain(&format!("cannot run `ssh`: {error}"));
    126
}

/// A request as one line.
pub(super) fn request_line(cwd: &Path, argv: &[OsString]) -> Result<String, line::LineError> {
    let mut place = OsString::from(CWD);
    place.push(cwd);
    line::quote([place].iter().chain(argv))
}

/// Asks the broker, and passes everything on until it names an exit code.
fn by_socket(socket: &Path, request: &Request) -> io::Result<u8> {
    // Before the first thread, which inherits what is blocked.
    let signals = Signals::of(ENDING)?;
    let mut stream = UnixStream::connect(socket)?;
    let out = Arc::new(Mutex::new(stream.try_clone()?));
    // A broker that has too much to do hangs up before it listens; why stands in what it sent.
    let asked = frame(&out, Kind::Request, &request.encode());
    let window = Arc::new(Window::default());
    pass_signals(signals, out.clone());
    pass_input(out, window.clone());
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    while let Some(received) = wire::read(&mut stream)? {
        let written = match received.kind {
            Kind::Output => stdout.write_all(&received.body).and_then(|()| stdout.flush()),
            Kind::Error => stderr.write_all(&received.body),
            Kind::Grant => {
                window.grow(&received.body);
                Ok(())
            }
            Kind::Exit => return Ok(received.body.first().copied().unwrap_or(BROKEN)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if written.is_err() {
            // Nobody reads us any more. Our end tells the host.
            return Ok(141);
        }
    }
    asked.and(Err(io::Error::other("it has hung up")))
}

fn frame(out: &Mutex<UnixStream>, kind: Kind, body: &[u8]) -> io::Result<()> {
    wire::write(&mut *out.lock().unwrap_or_else(PoisonError::into_inner), kind, body)
}

/// How much input the host still takes.
struct Window {
    left: Mutex<usize>,
    more: Condvar,
}

impl Default for Window {
    fn default() -> Self {
        Self { left: Mutex::new(WINDOW), more: Condvar::new() }
    }
}

impl Window {
    fn grow(&self, body: &[u8]) {
        let more = <[u8; 4]>::try_from(body).map_or(0, u32::from_le_bytes);
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += more as usize;
        self.more.notify_one();
    }

    /// Waits for room, and says how much there is, at most a frame.
    fn room(&self) -> usize {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left =
            self.more.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
        (*left).min(LONGEST)
    }

    fn take(&self, length: usize) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) -= length;
    }
}

fn pass_input(out: Arc<Mutex<UnixStream>>, window: Arc<Window>) {
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; LONGEST];
        loop {
            let room = window.room();
            let sent = match stdin.read(&mut buffer[..room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => {
                    let _ = frame(&out, Kind::InputEnd, &[]);
                    return;
                }
                Ok(length) => {
                    window.take(length);
                    frame(&out, Kind::Input, &buffer[..length])
                }
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

fn pass_signals(signals: Signals, out: Arc<Mutex<UnixStream>>) {
    thread::spawn(move || {
        while channel::wait(&[(signals.as_fd(), Awaited::Data)], None).is_ok() {
            while let Ok(Some(arrived)) = signals.next() {
                let number = u8::try_from(arrived.signal).unwrap_or(0);
                let _ = frame(&out, Kind::Signal, &[number]);
            }
        }
    });
}
