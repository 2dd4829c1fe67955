//! Global options before the command: `git -C dir --git-dir=x -c a.b=c COMMAND`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Global options, to be repeated in queries to git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// All words, including values.
    pub words: Vec<OsString>,
    /// Words that do not set configuration.
    pub without_config: Vec<OsString>,
}

impl Globals {
    /// Returns the directory that git runs in, relative to the process's: each `-C` counts from the one before.
    pub(crate) fn directory(&self) -> PathBuf {
        let pairs = self.words.windows(2).filter(|pair| pair[0] == "-C");
        pairs.map(|pair| &pair[1]).collect()
    }

    /// Returns true when `-c` or `--config-env` is among them.
    pub(crate) fn sets_config(&self) -> bool {
        self.words.len() != self.without_config.len()
    }
}

/// A git command line, parsed up to the command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Invocation {
    /// git prints something (a path, its usage, an error) and does nothing to a repository.
    Prints,
    /// A command is run.
    Runs {
        /// Global options.
        globals: Globals,
        /// Its name.
        name: OsString,
        /// Words after the name.
        args: Vec<OsString>,
        /// Index of the name.
        at: usize,
    },
}

const PRINTS: &[&str] = &["--exec-path", "--html-path", "--man-path", "--info-path"];
const WITH_VALUE: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
    "--super-prefix",
    "--attr-source",
    "--shallow-file",
];
const SETS_CONFIG: &[&str] = &["-c", "--config-env"];

/// Parses a whole command line. `git-reset` as the first word means `git reset`.
pub(super) fn invocation(argv: &[OsString]) -> Invocation {
    let Some(program) = argv.first() else { return Invocation::Prints };
    let program = Path::new(program).file_name().unwrap_or(OsStr::new("git"));
    match program.as_encoded_bytes().strip_prefix(b"git-") {
        Some(_) => {
            let name = program.to_string_lossy()["git-".len()..].into();
            let globals = Globals::default();
            Invocation::Runs { globals, name, args: argv[1..].to_vec(), at: 0 }
        }
        None => after_globals(argv, 1),
    }
}

/// Parses words without a program name, such as those of an alias.
pub(super) fn after_globals(argv: &[OsString], start: usize) -> Invocation {
    let mut globals = Globals::default();
    let mut at = start;
    while let Some(word) = argv.get(at) {
        let bytes = word.as_encoded_bytes();
        if !bytes.starts_with(b"-") {
            let (name, rest) = (word.clone(), &argv[at + 1..]);
            return Invocation::Runs { globals, name, args: rest.to_vec(), at };
        }
        let text = word.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        // `--version` and `--help` act as commands; the words after them are their arguments.
        if matches!(&*text, "-h" | "--help" | "-v" | "--version")
            || PRINTS.contains(&&*text)
            || name == "--list-cmds"
        {
            return Invocation::Prints;
        }
        let separate = name == text && WITH_VALUE.contains(&name);
        let end = (at + 1 + usize::from(separate)).min(argv.len());
        let words = &argv[at..end];
        globals.words.extend_from_slice(words);
        if !SETS_CONFIG.contains(&name) {
            globals.without_config.extend_from_slice(words);
        }
        at = end;
    }
    Invocation::Prints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_command_is_found_where_git_finds_it() {
        for (line, expected) in [
            ("git status", Some(("status", ""))),
            ("git -C reset status", Some(("status", ""))),
            ("git -c a.b=c -C d -p reset --hard", Some(("reset", "--hard"))),
            ("git --git-dir reset --work-tree=x log -1", Some(("log", "-1"))),
            ("git --exec-path=/x reset", Some(("reset", ""))),
            ("git --exec-path reset", None),
            ("git --html-path reset", None),
            ("git --list-cmds=builtins reset", None),
            ("git --help checkout", None),
            ("git -h checkout", None),
            ("git -C x --version", None),
            ("git", None),
            ("", None),
            ("git -C", None),
            ("/usr/lib/git-core/git-reset --hard", Some(("reset", "--hard"))),
            ("git-receive-pack .", Some(("receive-pack", "."))),
            ("anything reset", Some(("reset", ""))),
        ] {
            let found = match invocation(&words(line)) {
                Invocation::Prints => None,
                Invocation::Runs { name, args, .. } => Some((name, args)),
            };
            let expected = expected.map(|(name, args)| (OsString::from(name), words(args)));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn globals_separate_configuration_from_other_options() {
        let Invocation::Runs { globals, .. } =
            invocation(&words("git -C d -c a.b=c --config-env=x.y=Z --git-dir g log"))
        else {
            panic!("log runs");
        };
        assert_eq!(globals.without_config, words("-C d --git-dir g"));
        assert!(globals.sets_config());
    }
}
