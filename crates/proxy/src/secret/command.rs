//! Secrets that a program of the host prints, such as a password manager's.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// Whoever waits longer than this for a person to touch a key should ask before.
const PATIENCE: Duration = Duration::from_secs(60);
/// No secret is longer.
const LARGEST: u64 = 64 << 10;

/// What the program says, without the line's end.
pub(super) fn ask(argv: &[String]) -> io::Result<Zeroizing<String>> {
    let (program, words) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // What it complains of may have the secret in it, too.
        .stderr(Stdio::null())
        .spawn()?;
    let mut out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let reader = std::thread::spawn(move || {
        let mut text = Zeroizing::new(String::new());
        out.by_ref().take(LARGEST).read_to_string(&mut text).map(|_| text)
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end"));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = reader.join().map_err(|_| io::ErrorKind::Other)??;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    Ok(Zeroizing::new(text.trim_end_matches(['\n', '\r']).to_owned()))
}
