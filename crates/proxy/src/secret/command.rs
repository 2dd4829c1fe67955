//! Secrets printed by a command on the host, such as a password manager.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use zeroize::Zeroizing;

/// Time for a command to print a secret. A hardware key may have to be touched.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size limit of a secret.
const LARGEST: usize = 64 << 10;
/// Milliseconds between checks whether the command has ended.
const TICK: u64 = 5;

/// Returns a command's output without the final line break. Does not wait for background processes that keep the output
/// open, such as an agent.
pub(super) fn ask(argv: &[String]) -> io::Result<Zeroizing<String>> {
    let (program, words) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = sandbox_linux::process::command(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Error messages may contain the secret.
        .stderr(Stdio::null())
        .spawn()?;
    let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut text = Zeroizing::new(Vec::with_capacity(LARGEST));
    let ended = listen(&mut child, out, &mut text);
    if ended.is_err() {
        // It may have ended meanwhile.
        let _ = child.kill();
        child.wait()?;
    }
    let status = ended?;
    if !status.success() {
        return Err(io::Error::other(format!("the command failed with {status}")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Zeroizing::new(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Reads until the command ends or times out.
fn listen(child: &mut Child, out: ChildStdout, text: &mut Vec<u8>) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    let mut out = Some(out);
    loop {
        // Order matters: after the command has ended, all its output is in the pipe.
        let status = child.try_wait()?;
        while let Some(pipe) = out.take_if(|_| true) {
            if !is_ready(&pipe, 0)? {
                out = Some(pipe);
                break;
            }
            // At the end of the stream, the pipe is dropped.
            if read(&pipe, text)? {
                out = Some(pipe);
            }
        }
        if let Some(status) = status {
            return Ok(status);
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the command timed out"));
        }
        match &out {
            Some(pipe) => drop(is_ready(pipe, TICK)?),
            None => std::thread::sleep(Duration::from_millis(TICK)),
        }
    }
}

fn is_ready(pipe: &ChildStdout, milliseconds: u64) -> io::Result<bool> {
    let ready = channel::wait(&[(pipe.as_fd(), Awaited::Data)], Some(milliseconds))?;
    Ok(ready.contains(&true))
}

/// Reads available bytes. Returns `false` at the end of the stream.
fn read(pipe: &ChildStdout, text: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = Zeroizing::new([0; 4096]);
    let count = channel::read(pipe.as_fd(), piece.as_mut_slice())?;
    if text.len() + count > LARGEST {
        return Err(io::Error::other("the output is too long for a secret"));
    }
    text.extend_from_slice(&piece[..count]);
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> io::Result<Zeroizing<String>> {
        ask(&["sh", "-c", script].map(str::to_owned))
    }

    /// The background child holds the pipe open. The test kills it.
    #[test]
    fn ask_returns_when_the_program_ends_and_not_its_children() {
        let said = said("sleep 600 & echo $!").unwrap();
        let child: i32 = said.parse().unwrap();
        let is_there = || std::path::Path::new(&format!("/proc/{child}")).try_exists().unwrap();
        assert!(is_there(), "waited for the background child");
        let ended = std::process::Command::new("kill").arg(child.to_string()).status().unwrap();
        assert!(ended.success());
    }

    #[test]
    fn ask_returns_the_whole_output_up_to_the_limit() {
        let long = said("head -c 65536 /dev/zero | tr '\\0' x").unwrap();
        assert_eq!(long.len(), LARGEST);
        assert_eq!(said("printf a; sleep 0.1; echo b").unwrap().as_str(), "ab");
        assert_eq!(said("echo closed; exec >&-; sleep 0.1").unwrap().as_str(), "closed");
        assert!(said("yes").is_err());
        assert!(said("head -c 70000 /dev/zero").is_err());
        assert!(said("echo x; false").is_err());
        assert!(said("printf '\\377'").is_err());
    }
}
