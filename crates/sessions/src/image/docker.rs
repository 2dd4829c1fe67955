//! The `docker` command, which handles contexts, `DOCKER_HOST`, credentials and builders.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Output, Stdio};

use sandbox_linux::escape::visible;
use sandbox_policy::Host;

use super::context::Context;
use super::error::BuildError;

/// `docker` command with a running daemon.
#[derive(Debug)]
pub(super) struct Docker(PathBuf);

impl Docker {
    /// Finds the command, and checks that its daemon responds.
    pub(super) fn find(host: &Host) -> Result<Self, BuildError> {
        let mut places = host.search_path().into_iter().map(|folder| folder.join("docker"));
        let program = places.find(|path| path.is_file()).ok_or(BuildError::NoDocker)?;
        let docker = Self(program);
        let answer = docker.ask(&["version", "--format", "{{.Server.Version}}"])?;
        if answer.status.success() {
            return Ok(docker);
        }
        Err(BuildError::NoDaemon(last_line(&answer.stderr)))
    }

    /// Returns the id of a local image.
    pub(super) fn image(&self, name: &str) -> Result<Option<String>, BuildError> {
        let answer = self.ask(&["image", "inspect", "--format", "{{.Id}}", name])?;
        let id = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        Ok(answer.status.success().then_some(id))
    }

    /// Pulls an image.
    pub(super) fn pull(&self, name: &str, said: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
        let ended = self.stream(&["pull".into(), name.into()], None, said)?;
        ended.map_err(|said| BuildError::NoBase { name: name.to_owned(), said: last_of(&said) })
    }

    /// Builds an image from a context.
    pub(super) fn build(
        &self,
        words: &[OsString],
        context: &Context,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), BuildError> {
        let ended = self.stream(words, Some(context), said)?;
        ended.map_err(|said| BuildError::Fails { full: is_full(&said), said: last_of(&said) })
    }

    fn ask(&self, words: &[&str]) -> Result<Output, BuildError> {
        let asked =
            sandbox_linux::process::command(&self.0).args(words).stdin(Stdio::null()).output();
        asked.map_err(|error| BuildError::Start(self.0.clone(), error))
    }

    /// Runs `docker` and passes on its output. On failure, returns the output as the inner error.
    fn stream(
        &self,
        words: &[OsString],
        context: Option<&Context>,
        said: &mut dyn FnMut(&str),
    ) -> Result<Result<(), Vec<String>>, BuildError> {
        let start = |error| BuildError::Start(self.0.clone(), error);
        let (reader, writer) = io::pipe().map_err(start)?;
        let mut command = sandbox_linux::process::command(&self.0);
        command.args(words).stdin(if context.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(writer.try_clone().map_err(start)?).stderr(writer);
        let mut child = command.spawn().map_err(start)?;
        drop(command); // closes our ends of the pipe
        let input = child.stdin.take();
        let (printed, written) = std::thread::scope(|scope| {
            let written = scope.spawn(move || match (context, input) {
                (Some(context), Some(input)) => context.write(input),
                _ => Ok(()),
            });
            (pass_on(reader, said), written.join())
        });
        let status = child.wait().map_err(start)?;
        match written {
            // A failed build closes its input early, and prints the reason.
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(BuildError::Context(error))
            }
            _ => Ok(if status.success() { Ok(()) } else { Err(printed) }),
        }
    }
}

/// Passes on every line, and collects them.
fn pass_on(reader: io::PipeReader, said: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
        let line = visible(&without_colours(String::from_utf8_lossy(&line).trim_end()));
        said(&line);
        lines.push(line);
    }
    lines
}

/// Removes colours, which the legacy builder prints even when stderr is not a terminal.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        text + &part[end..]
    })
}

fn is_full(said: &[String]) -> bool {
    said.iter().any(|line| line.to_lowercase().contains("no space left on device"))
}

fn last_of(said: &[String]) -> String {
    said.iter().rev().find(|line| !line.trim().is_empty()).cloned().unwrap_or_default()
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    last_of(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_keeps_the_text() {
        for (line, text) in [
            ("plain [0] text", "plain [0] text"),
            ("\u{1b}[91mW\u{1b}[0m: \u{1b}[1;31mno\u{1b}[0m", "W: no"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(without_colours(line), text);
        }
    }
}
