//! The user's wrapper scripts, read once when the sandbox is planned.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sandbox_linux::file;
use sandbox_protocol::Hint;
use thiserror::Error;

use sandbox_policy::Host;
use sandbox_policy::config::Origin;

/// Invalid command rule.
#[derive(Debug, Error)]
pub enum WrapperError {
    /// Name that is not a file name.
    #[error("invalid command name `{name}` in {origin}")]
    Name {
        /// The name.
        name: String,
        /// The rule.
        origin: Origin,
    },
    /// Built-in wrapper for another command.
    #[error("`@git` in {origin} wraps only `git`, not `{name}`")]
    Foreign {
        /// The command.
        name: String,
        /// The rule.
        origin: Origin,
    },
    /// Script that cannot be read.
    #[error("cannot read the wrapper script `{}` that {origin} gives for `{name}`", path.display())]
    Unreadable {
        /// The command.
        name: String,
        /// The script.
        path: PathBuf,
        /// The rule.
        origin: Origin,
        /// The cause.
        source: io::Error,
    },
    /// Script that the kernel would not run, because it has no interpreter line: execve(2).
    #[error("the wrapper script `{}` that {origin} gives for `{name}` does not start with `#!`", path.display())]
    NoInterpreter {
        /// The command.
        name: String,
        /// The script.
        path: PathBuf,
        /// The rule.
        origin: Origin,
    },
    /// `~` without a home directory.
    #[error("`{}` in {origin} needs a home directory, and `HOME` is not set", path.display())]
    NoHome {
        /// The path as written.
        path: PathBuf,
        /// The rule.
        origin: Origin,
    },
}

impl Hint for WrapperError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name { .. } => {
                "use the name as typed, without a slash: `wget`, not `/usr/bin/wget`".into()
            }
            Self::Foreign { name, .. } => {
                format!("use `true`, `false` or the path of a script for `{name}`")
            }
            Self::Unreadable { path, .. } => {
                format!(
                    "use `true`, `false`, `\"@git\"` or the path of a script; is `{}` the right path?",
                    path.display()
                )
            }
            Self::NoInterpreter { .. } => {
                "name its interpreter in the first line: `#!/bin/sh`".into()
            }
            Self::NoHome { .. } => "use an absolute path".into(),
        })
    }
}

/// Wrapper script.
#[derive(Debug)]
pub(super) struct Script {
    /// The file as the rule names it, absolute.
    pub(super) path: PathBuf,
    /// The file with symlinks resolved.
    pub(super) real: PathBuf,
    /// Its text.
    pub(super) content: Vec<u8>,
}

/// Reads the script of a rule.
pub(super) fn read(
    host: &Host,
    cwd: &Path,
    name: &str,
    written: &Path,
    origin: &Origin,
) -> Result<Script, WrapperError> {
    let path = match (written.strip_prefix("~"), &host.home) {
        (Err(_), _) => cwd.join(written),
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) => {
            return Err(WrapperError::NoHome { path: written.into(), origin: origin.clone() });
        }
    };
    let (name, origin) = (name.to_owned(), origin.clone());
    match fs::read(&path).and_then(|content| Ok((content, file::real(&path)?))) {
        Ok((content, real)) if content.starts_with(b"#!") => Ok(Script { path, real, content }),
        Ok(_) => Err(WrapperError::NoInterpreter { name, path, origin }),
        Err(source) => Err(WrapperError::Unreadable { name, path, origin, source }),
    }
}

/// Returns the interpreter in a script's first line, and the single argument that the kernel passes: execve(2).
pub(super) fn interpreter(content: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (program, rest) = line.split_at(end);
    let rest = rest.trim_ascii_start();
    Some((program, Some(rest).filter(|rest| !rest.is_empty())))
}

/// Returns true if a program starts with `#!`.
pub(super) fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    let read = fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_is_read_as_the_kernel_reads_it() {
        for (text, expected) in [
            ("#!/bin/sh\n", Some(("/bin/sh", None))),
            ("#! /bin/sh -e \nx", Some(("/bin/sh", Some("-e")))),
            ("#!/usr/bin/env -S bash -e", Some(("/usr/bin/env", Some("-S bash -e")))),
            ("#!", Some(("", None))),
            ("echo", None),
        ] {
            let expected =
                expected.map(|(program, word)| (program.as_bytes(), word.map(str::as_bytes)));
            assert_eq!(interpreter(text.as_bytes()), expected, "{text}");
        }
    }
}
