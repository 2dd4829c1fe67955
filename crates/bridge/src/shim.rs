//! Shim for a routed command in the container: sends the uses that the host allows to the host and runs the others
//! here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::signal::{self, Signals};
use sandbox_policy::Host;
use sandbox_policy::config::command::line::LineError;
use sandbox_protocol::ExitCode;
use sandbox_protocol::frame::{self, Kind, LONGEST, Request, WINDOW};
use sandbox_protocol::layout::bridge::{ROUTES, SHIMS};
use thiserror::Error;

use crate::route::{Route, Routes, Ssh, request_line};

/// Reason why a command ran neither on the host nor here.
#[derive(Debug, Error)]
pub enum ShimError {
    /// Program is not installed in the container.
    #[error("this use of `{name}` is not a host command, and `{name}` is not installed in this container", name = .0.display())]
    NoProgram(OsString),
    /// Program cannot be executed.
    #[error("cannot run `{}`: {source}", program.display())]
    Run {
        /// Program.
        program: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Broker is unreachable.
    #[error("cannot reach the host at `{}`: {source}", socket.display())]
    Unreachable {
        /// Its socket.
        socket: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Request cannot be encoded as a line.
    #[error("cannot send this command by SSH: {0}")]
    Line(#[source] LineError),
    /// SSH client is not installed in the container.
    #[error("cannot reach the host: `ssh` is not installed in this container")]
    NoSsh,
}

impl ShimError {
    /// Returns the exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoProgram(_) | Self::NoSsh => ExitCode::NotFound,
            Self::Run { .. } => ExitCode::NotExecutable,
            Self::Unreachable { .. } | Self::Line(_) => ExitCode::Setup,
        }
    }
}

/// Sends the command to the host if it is routed, and returns its exit code. `ruled` means that the launcher provides a
/// program for the name. Otherwise a command that stays here is looked up in `PATH`.
pub fn intercept(args: &[OsString], ruled: bool) -> Option<Result<u8, ShimError>> {
    let name = Path::new(args.first()?).file_name()?;
    if name == "agent-sandbox" {
        return None;
    }
    let routes: Routes = serde_json::from_slice(&fs::read(ROUTES).ok()?).ok()?;
    if routes.covers(name, &args[1..]) {
        return Some(send(&routes.route, name, &args[1..]));
    }
    (routes.knows(name) && !ruled).then(|| Err(run_here(name, args)))
}

/// Executes the container's program of this name. Returns only on failure.
fn run_here(name: &OsStr, args: &[OsString]) -> ShimError {
    let Some(program) = own_program(name) else { return ShimError::NoProgram(name.to_owned()) };
    let source = Command::new(&program).arg0(&args[0]).args(&args[1..]).exec();
    ShimError::Run { program, source }
}

/// Returns the first program of this name in `PATH` that is not a shim.
pub(crate) fn own_program(name: &OsStr) -> Option<PathBuf> {
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

fn send(route: &Route, name: &OsStr, rest: &[OsString]) -> Result<u8, ShimError> {
    let argv: Vec<OsString> = [name.to_owned()].into_iter().chain(rest.iter().cloned()).collect();
    let cwd = Host::read().cwd.unwrap_or_else(|| PathBuf::from("/"));
    match route {
        Route::Unix { socket } => by_socket(socket, &Request { cwd, argv })
            .map_err(|source| ShimError::Unreachable { socket: socket.clone(), source }),
        Route::Ssh(ssh) => Err(by_ssh(ssh, &cwd, &argv)),
    }
}

/// Executes the SSH client. Returns only on failure.
fn by_ssh(ssh: &Ssh, cwd: &Path, argv: &[OsString]) -> ShimError {
    let line = match request_line(cwd, argv) {
        Ok(line) => line,
        Err(error) => return ShimError::Line(error),
    };
    let Some(program) = own_program(OsStr::new("ssh")) else { return ShimError::NoSsh };
    let words = ssh.words(&line);
    let source = Command::new(program).arg0("ssh").args(&words[1..]).exec();
    ShimError::Run { program: "ssh".into(), source }
}

/// Sends the request to the broker and relays both directions until it returns an exit code.
fn by_socket(socket: &Path, request: &Request) -> io::Result<u8> {
    // Before the first thread, which inherits the signal mask.
    let signals = Signals::of(signal::passed_on())?;
    let mut stream = UnixStream::connect(socket)?;
    let out = Arc::new(Mutex::new(stream.try_clone()?));
    // An overloaded broker closes the connection before it reads. It has sent the reason before.
    let asked = send_frame(&out, Kind::Request, &request.encode());
    let window = Arc::new(Window::default());
    pass_signals(signals, out.clone());
    pass_input(out, window.clone());
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    while let Some(received) = frame::read(&mut stream)? {
        let written = match received.kind {
            Kind::Output => stdout.write_all(&received.body).and_then(|()| stdout.flush()),
            Kind::Error => stderr.write_all(&received.body),
            Kind::Grant => {
                window.grow(&received.body);
                Ok(())
            }
            Kind::Exit => {
                return Ok(received.body.first().copied().unwrap_or(ExitCode::Setup.code()));
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if written.is_err() {
            // The reader of the output is gone. Closing the connection ends the command on the host.
            return Ok(141);
        }
    }
    asked.and(Err(io::Error::other("the broker has closed the connection")))
}

fn send_frame(out: &Mutex<UnixStream>, kind: Kind, body: &[u8]) -> io::Result<()> {
    frame::write(&mut *out.lock().unwrap_or_else(PoisonError::into_inner), kind, body)
}

/// Amount of input that the host accepts at the moment.
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

    /// Waits for space and returns its size, at most one frame.
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
                    let _ = send_frame(&out, Kind::InputEnd, &[]);
                    return;
                }
                Ok(length) => {
                    window.take(length);
                    send_frame(&out, Kind::Input, &buffer[..length])
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
                let _ = send_frame(&out, Kind::Signal, &[number]);
                // The shell that started both processes waits for this one to stop.
                if signal::is_stopping(arrived.signal) {
                    let _ = signal::stop();
                }
            }
        }
    });
}
