//! Tests of this crate on the real kernel, in child processes where they change the process.
//!
//! They fork, which needs a process with a single thread, but Rust's test harness has more. So this target has its own
//! `main`, which runs the tests one after another.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::io::{Errno, FdFlags};
use rustix::process::Signal;
use sandbox_linux::process::{Change, fork};
use sandbox_linux::root::{self, Base, Hidden, Step, Taken};
use sandbox_linux::{
    channel, enclosure, environment, fd, landlock, mount, namespace, process, seccomp, signal,
};

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    let mut out = io::stdout();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(|(name, _)| is_wanted(name)) {
        let ok = std::panic::catch_unwind(test).is_ok();
        *(if ok { &mut passed } else { &mut failed }) += 1;
        writeln!(out, "test {name} ... {}", if ok { "ok" } else { "FAILED" }).unwrap();
    }
    let (result, left) = (if failed == 0 { "ok" } else { "FAILED" }, TESTS.len() - passed - failed);
    writeln!(out, "\ntest result: {result}. {passed} passed; {failed} failed; {left} filtered out")
        .unwrap();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Names the functions of a table.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

const TESTS: &[(&str, fn())] = tests![
    child_ends_with_a_code_or_by_a_signal,
    program_keeps_its_name_and_environment_when_executed,
    message_arrives_with_its_sender,
    descriptors_are_closed_on_exec_unless_they_are_given_away,
    descriptors_are_known_by_what_they_are,
    blocked_signals_are_read_as_data_until_they_are_let_through,
    a_program_starts_with_no_signal_blocked_or_ignored,
    namespaces_are_our_own_and_can_be_entered,
    seccomp_and_landlock_hold_once_they_are_applied,
    root_shows_what_the_steps_say,
    root_names_the_step_that_fails,
    lost_protection_is_put_back,
    nothing_is_forked_while_there_is_another_thread,
    only_inherited_descriptors_are_adopted,
];

/// Runs `body` in a child process and fails the test on its error.
#[track_caller]
fn in_child(body: impl FnOnce() -> io::Result<()>) {
    let (receiver, sender) = channel::pair().unwrap();
    let child = fork(|| match body() {
        Ok(()) => 0,
        Err(error) => {
            let _ = channel::send(sender.as_fd(), error.to_string().as_bytes());
            1
        }
    })
    .unwrap();
    drop(sender);
    let ended = child.wait().unwrap();
    let said = channel::receive(receiver.as_fd()).unwrap();
    let said = String::from_utf8_lossy(&said.map(|one| one.text).unwrap_or_default()).into_owned();
    assert_eq!(ended, Change::Exited(0), "{said}");
}

/// Fails unless a condition holds.
fn ensure(holds: bool, what: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(what.to_owned())) }
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("timed out");
}

fn child_ends_with_a_code_or_by_a_signal() {
    assert_eq!(fork(|| 7).unwrap().wait().unwrap(), Change::Exited(7));
    let child = fork(|| {
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    assert_eq!(child.poll().unwrap(), None);
    assert_eq!(process::parent_of(child.pid()), Some(process::pid()));
    let handle = process::ProcessHandle::open(child.pid()).unwrap();
    handle.signal(Signal::STOP.as_raw()).unwrap();
    wait_until(|| child.poll().unwrap() == Some(Change::Stopped(Signal::STOP.as_raw())));
    assert!(process::is_stopped(child.pid()));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap(), Change::Killed(signal::KILL));
    assert!(handle.signal(signal::TERM).is_err(), "the handle does not reach a later process");
}

fn program_keeps_its_name_and_environment_when_executed() {
    let (name, value) = ("GREETING".into(), "hello".into());
    let script = "test \"$0\" = odd && test \"$GREETING\" = hello && exit 9";
    let argv = ["odd", "-c", script, "odd"].map(Into::into);
    let program = process::Program::new(argv, [(&name, &value)]).unwrap();
    let ran = fork(|| {
        program.exec_path("/bin/sh".as_ref());
        1
    });
    assert_eq!(ran.unwrap().wait().unwrap(), Change::Exited(9));
    let missing = program.exec_path("/no/such/program".as_ref());
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(process::Program::new(["a\0b".into()], []).is_err());
}

fn message_arrives_with_its_sender() {
    let (receiver, sender) = channel::pair().unwrap();
    assert_eq!(
        channel::wait(&[(receiver.as_fd(), channel::Awaited::Data)], Some(0)).unwrap(),
        [false]
    );
    let child = fork(|| i32::from(channel::send(sender.as_fd(), b"here I am").is_err())).unwrap();
    assert_eq!(
        channel::wait(&[(receiver.as_fd(), channel::Awaited::Data)], Some(5000)).unwrap(),
        [true]
    );
    let message = channel::receive(receiver.as_fd()).unwrap().unwrap();
    assert_eq!((message.pid, message.text.as_slice()), (child.pid(), &b"here I am"[..]));
    assert_eq!(child.wait().unwrap(), Change::Exited(0));
    drop(sender);
    assert!(channel::receive(receiver.as_fd()).unwrap().is_none());
}

fn descriptors_are_closed_on_exec_unless_they_are_given_away() {
    in_child(|| {
        let file = fd::memory_file("content", b"some text")?;
        ensure(io::read_to_string(fs::File::from(file.try_clone()?))? == "some text", "content")?;
        fd::inherit(file.as_fd())?;
        ensure(rustix::io::fcntl_getfd(&file)?.is_empty(), "it can be inherited")?;
        fd::close_all_on_exec()?;
        ensure(rustix::io::fcntl_getfd(&file)? == FdFlags::CLOEXEC, "it is closed")?;
        ensure(rustix::io::fcntl_getfd(rustix::stdio::stderr())?.is_empty(), "standard ones stay")
    });
}

fn descriptors_are_known_by_what_they_are() {
    in_child(|| {
        let dir = mount::open_dir(Path::new("/"))?;
        ensure(fd::kind(dir.as_raw_fd()) == fd::Kind::Directory, "a directory")?;
        let (reader, _writer) = io::pipe()?;
        ensure(fd::kind(reader.as_raw_fd()) == fd::Kind::Stream, "a pipe")?;
        ensure(fd::kind(9_999) == fd::Kind::Closed, "not open")?;
        let file = fs::File::open("/etc/passwd")?;
        ensure(fd::kind(file.as_raw_fd()) == fd::Kind::File, "a file")?;
        ensure(fd::is_read_only(file.as_raw_fd()), "open for reading")?;
        ensure(fd::terminal(file.as_raw_fd()).is_none(), "not a terminal")?;
        let memory = fd::memory_file("x", b"")?;
        ensure(!fd::is_read_only(memory.as_raw_fd()), "open for both")?;
        fd::replace(0, &file.into())?;
        ensure(fd::kind(0) == fd::Kind::File && fd::is_read_only(0), "replaced")
    });
}

fn blocked_signals_are_read_as_data_until_they_are_let_through() {
    in_child(|| {
        let signals = signal::Signals::open()?;
        ensure(signals.next()?.is_none(), "nothing yet")?;
        rustix::process::kill_process(rustix::process::getpid(), Signal::TERM)?;
        let arrived = signals.next()?;
        let expected = signal::Arrived { signal: signal::TERM, from_terminal: false };
        ensure(arrived == Some(expected), "the signal")?;
        ensure(signals.next()?.is_none(), "once")
    });
    let child = fork(|| {
        let Ok(_signals) = signal::Signals::open() else { return 1 };
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
        let _ = signal::unblock();
        0
    });
    assert_eq!(child.unwrap().wait().unwrap(), Change::Killed(signal::TERM));
}

fn a_program_starts_with_no_signal_blocked_or_ignored() {
    in_child(|| {
        let _signals = signal::Signals::of(signal::ENDING.into_iter().chain([40, 64]))?;
        let masks = |output: std::process::Output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let wanted = |line: &&str| line.starts_with("SigBlk") || line.starts_with("SigIgn");
            text.lines().filter(wanted).map(str::to_owned).collect::<Vec<_>>()
        };
        let status = "/proc/self/status";
        // Rust's own start-up ignores a broken pipe in this process.
        let plain = masks(std::process::Command::new("cat").arg(status).output()?);
        let clean = masks(sandbox_linux::process::command("cat").arg(status).output()?);
        ensure(plain[0].ends_with("8000008000004007"), "the control inherits what is blocked")?;
        ensure(clean.iter().all(|mask| mask.ends_with("\t0000000000000000")), "nothing is left")
    });
}

fn namespaces_are_our_own_and_can_be_entered() {
    let mounts = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap_or_default();
    let outside = mounts("self");
    let (receiver, sender) = channel::pair().unwrap();
    let child = fork(|| {
        if namespace::own_user_and_mounts().is_err() || mount::tmpfs(0o755).is_err() {
            return 1;
        }
        let _ = channel::send(sender.as_fd(), b"ready");
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    drop(sender);
    channel::wait(&[(receiver.as_fd(), channel::Awaited::Data)], Some(5000)).unwrap();
    let ready = channel::receive(receiver.as_fd()).unwrap();
    assert!(ready.is_some(), "cannot create namespaces: {:?}", child.wait());
    let inside = mounts(&child.pid().to_string());
    assert_ne!(inside, outside);
    in_child(|| {
        let uid = process::uid();
        namespace::Inside::of(child.pid())?.enter()?;
        ensure(mounts("self") == inside, "entered")?;
        ensure(process::uid() == uid, "the same user")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(namespace::Inside::of(0).is_err());
}

fn seccomp_and_landlock_hold_once_they_are_applied() {
    use rustix::net::{AddressFamily, SocketType, socket};
    in_child(|| {
        socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        process::no_new_privileges()?;
        ensure(landlock::scope()? == (landlock::abi() >= 6), "scopes came with ABI 6")?;
        seccomp::apply(seccomp::CgroupNamespaces::Refused)?;
        socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        let crypto = AddressFamily::from_raw(38);
        let refused = socket(crypto, SocketType::SEQPACKET, None);
        ensure(refused.err() == Some(Errno::AFNOSUPPORT), "an unused family")
    });
}

/// Creates a directory outside of `/tmp`, which the new root replaces.
fn host_tree() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("as-root-").tempdir_in("/var/tmp").unwrap();
    let top = dir.path().canonicalize().unwrap();
    for path in [
        "open/file",
        "home/.ssh/key",
        "home/.netrc",
        "plain",
        "plain-2",
        "secret/file",
        "empty/a",
        "empty-2/a",
    ] {
        fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
        fs::write(top.join(path), "host").unwrap();
    }
    (dir, top)
}

fn steps(top: &Path) -> Vec<Step> {
    let tmp = PathBuf::from("/tmp");
    let hidden = vec![
        (".ssh".into(), Hidden::Dir),
        (".netrc".into(), Hidden::File),
        (".later".into(), Hidden::Nothing),
    ];
    let open = top.join("open");
    vec![
        Step::Dir { target: tmp.clone(), mode: 0o755 },
        Step::Tmpfs { target: tmp.clone(), mode: 0o1777 },
        Step::Bind { source: open.clone(), target: open, read_only: false, devices: false },
        Step::Tmpfs { target: top.join("secret"), mode: 0o555 },
        Step::Seal { target: top.join("secret") },
        Step::EmptyFile { target: top.join("plain") },
        Step::EmptyFile { target: top.join("plain-2") },
        Step::EmptyDir { target: top.join("empty") },
        Step::EmptyDir { target: top.join("empty-2") },
        Step::HidingOverlay { dir: top.join("home"), hidden },
        Step::File { target: tmp.join("made"), mode: 0o400, content: b"made".to_vec() },
        Step::Symlink { target: tmp.join("link"), to: "made".into() },
        Step::Dir { target: "/run".into(), mode: 0o755 },
        Step::Rebind { source: tmp.join("made"), target: top.join("open/file") },
        Step::Seal { target: "/".into() },
    ]
}

fn base() -> Base {
    Base { writable: false, taken: Taken::Without(["run", "tmp"].map(str::to_owned).to_vec()) }
}

/// Returns true if an action fails because of a read-only mount.
fn is_sealed<T>(done: io::Result<T>) -> bool {
    done.err().is_some_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

fn root_shows_what_the_steps_say() {
    let (_dir, top) = host_tree();
    let (base, steps) = (base(), steps(&top));
    in_child(|| {
        namespace::own_user_and_mounts()?;
        root::build(&base, &steps).map_err(|failure| io::Error::other(failure.to_string()))?;
        fs::write(top.join("open/new"), "inside")?;
        ensure(is_sealed(fs::write(top.join("home/new"), "")), "home is read-only")?;
        ensure(is_sealed(fs::write(top.join("secret/new"), "")), "sealed")?;
        ensure(is_sealed(fs::create_dir("/new")), "the root is sealed")?;
        ensure(fs::read_dir(top.join("secret"))?.next().is_none(), "hidden directory")?;
        ensure(
            fs::read_dir(top.join("home/.ssh"))?.next().is_none(),
            "directory hidden by the overlay",
        )?;
        for file in ["plain", "plain-2"] {
            ensure(fs::read(top.join(file))?.is_empty(), "hidden file")?;
            ensure(is_sealed(fs::write(top.join(file), "")), "which stays empty")?;
        }
        for dir in ["empty", "empty-2"] {
            ensure(fs::read_dir(top.join(dir))?.next().is_none(), "masked directory")?;
            ensure(is_sealed(fs::write(top.join(dir).join("new"), "")), "which stays empty")?;
        }
        ensure(fs::read(top.join("home/.netrc"))?.is_empty(), "file hidden by the overlay")?;
        ensure(fs::read_to_string("/tmp/link")? == "made", "a file of ours by a link of ours")?;
        ensure(fs::read_to_string(top.join("open/file"))? == "made", "a second place")?;
        ensure(is_sealed(fs::write(top.join("open/file"), "")), "which is read-only")?;
        ensure(!Path::new("/run/user").try_exists()?, "a new /run")
    });
    assert_eq!(fs::read_to_string(top.join("open/new")).unwrap(), "inside");
    assert_eq!(fs::read_to_string(top.join("open/file")).unwrap(), "host");
}

fn root_names_the_step_that_fails() {
    let (_dir, top) = host_tree();
    std::os::unix::fs::symlink("open", top.join("link")).unwrap();
    let (base, link) = (base(), top.join("link"));
    for (source, target, error) in [
        (&top, &link, Errno::LOOP),
        (&link, &top, Errno::LOOP),
        (&top.join("gone"), &top, Errno::NOENT),
    ] {
        let (source, target) = (source.clone(), target.clone());
        let name = target.display().to_string();
        let step = Step::Bind { source, target, read_only: true, devices: false };
        in_child(|| {
            namespace::own_user_and_mounts()?;
            let Err(failure) = root::build(&base, &[step]) else {
                return Err(io::Error::other("a link was followed"));
            };
            ensure(failure.what.contains(&name), &failure.to_string())?;
            ensure(failure.error.raw_os_error() == Some(error.raw_os_error()), &failure.to_string())
        });
    }
}

fn lost_protection_is_put_back() {
    let (_dir, top) = host_tree();
    let base = Base { writable: true, taken: Taken::Without(Vec::new()) };
    in_child(|| {
        namespace::own_user_and_mounts()?;
        root::build(&base, &[]).map_err(|failure| io::Error::other(failure.to_string()))?;
        let (file, key) = (top.join("open/file"), top.join("home/.ssh/key"));
        fs::write(&file, "changed")?;
        root::protect_again(&file, root::Protection::ReadOnly)?;
        ensure(is_sealed(fs::write(&file, "")), "read-only again")?;
        root::protect_again(&key, root::Protection::Hidden)?;
        ensure(fs::read(&key)?.is_empty(), "hidden again")?;
        root::protect_again(&key, root::Protection::Hidden)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        ensure(mounts.matches(&key.display().to_string()).count() == 1, "once")
    });
}

fn nothing_is_forked_while_there_is_another_thread() {
    let (told, tells) = io::pipe().unwrap();
    let other = std::thread::spawn(move || io::read_to_string(told));
    let deadlock = Some(Errno::DEADLK.raw_os_error());
    assert_eq!(fork(|| 0).unwrap_err().raw_os_error(), deadlock);
    let whole = enclosure::Enclosure { pids: false, network: false };
    assert_eq!(enclosure::start(whole, || 0).unwrap_err().raw_os_error(), deadlock);
    assert_eq!(environment::erase(|_| false).unwrap_err().raw_os_error(), deadlock);
    let null = fs::File::open("/dev/null").unwrap();
    assert_eq!(fd::keep_only(null.into()).unwrap_err().raw_os_error(), deadlock);
    drop(tells);
    other.join().unwrap().unwrap();
    assert_eq!(fork(|| 0).unwrap().wait().unwrap(), Change::Exited(0), "after it was joined");
}

fn only_inherited_descriptors_are_adopted() {
    in_child(|| {
        let file = fs::File::open("/dev/null")?;
        let number = file.as_raw_fd();
        ensure(fd::adopt(number).is_err(), "it has an owner")?;
        ensure(fd::adopt(9_999).is_err() && fd::adopt(-1).is_err(), "not open")?;
        ensure(fd::adopt(1).is_err(), "a standard descriptor")?;
        ensure(fd::replace(number, &file.into()).is_err(), "not a standard descriptor")?;
        // As after exec: open, without close-on-exec and without an owner.
        let flags = rustix::fs::OFlags::RDONLY;
        let inherited = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
        let adopted = fd::adopt(inherited.into_raw_fd())?;
        ensure(rustix::io::fcntl_getfd(&adopted)? == FdFlags::CLOEXEC, "it is closed on exec")?;
        ensure(fd::adopt(adopted.as_raw_fd()).is_err(), "once")
    });
}
