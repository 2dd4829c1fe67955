//! Launcher that replaces a command with a rule inside the sandbox.
//!
//! This binary covers the command's file. It determines the name it was called by, reads the marker of that name, and
//! either executes the user's script or the real program, or refuses. It runs for every `git` and `ls` of a build, so it
//! reads no configuration and makes no system call that the marker does not require.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use sandbox_protocol::ExitCode;
use sandbox_protocol::layout::{self, RUNTIME_BINARY, RUNTIME_DIR, runtime};
use sandbox_protocol::multicall::{self, MULTICALL};

use super::marker::{self, Found, GitFacts, Marker};
use super::script;
use sandbox_git::command::{self as git, RealGit, Verdict};

/// Variable with the command that a script wraps.
const CMD: &str = "AGENT_SANDBOX_CMD";
/// Variable with the real program for the script; empty if there is none.
const REAL: &str = "AGENT_SANDBOX_REAL";
/// Variable with the PID of the process that became the script.
const PID: &str = "AGENT_SANDBOX_PID";

/// Decision of the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// Execute another program.
    Exec(Exec),
    /// Print a message and exit.
    Refuse(Refusal),
    /// `multicall @NAME …`: an internal entry point.
    Internal {
        /// The name, `@` included.
        name: OsString,
        /// The arguments after the name.
        rest: Vec<OsString>,
    },
}

/// Program to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The file.
    pub program: PathBuf,
    /// The name that this process was called by, which the program is called by too.
    pub argv0: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set.
    pub env: Vec<(&'static str, OsString)>,
}

/// Refusal of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Text for standard error, without the last newline.
    pub message: String,
    /// The exit code.
    pub code: ExitCode,
}

impl Exec {
    /// Returns true if the program is a wrapper script of the user.
    pub fn is_script(&self) -> bool {
        self.env.iter().any(|(name, _)| *name == CMD)
    }

    /// Executes the program. Returns only on failure.
    pub fn run(self) -> Refusal {
        let mut command = Command::new(&self.program);
        command.arg0(&self.argv0).args(&self.args).envs(self.env);
        let error = command.exec();
        let code = match error.kind() {
            io::ErrorKind::NotFound => ExitCode::NotFound,
            _ => ExitCode::NotExecutable,
        };
        let name = self.argv0.to_string_lossy();
        Refusal { message: format!("agent-sandbox: cannot run '{name}': {error}"), code }
    }
}

/// Decides what to do with the arguments of this process. Returns `None` if it was called as agent-sandbox.
pub fn intercept(args: &[OsString]) -> Option<Launch> {
    let exe = fs::read_link("/proc/self/exe").ok();
    let launcher = Launcher { runtime: Path::new(RUNTIME_DIR) };
    launcher.intercept(args, exe.as_deref())
}

struct Launcher<'a> {
    runtime: &'a Path,
}

impl Launcher<'_> {
    fn intercept(&self, args: &[OsString], exe: Option<&Path>) -> Option<Launch> {
        let inside = self.runtime.join(layout::BINARY).try_exists().unwrap_or(false);
        let own = exe == Some(Path::new(RUNTIME_BINARY))
            || args.first().is_some_and(|name| is_own(base(name)));
        let explicit = args.get(1).is_some_and(|word| word == MULTICALL);
        match (inside, explicit) {
            (false, true) => Some(outside()),
            (false, _) => None,
            (true, true) if own => Some(self.multicall(&args[2..])),
            (true, _) => self.dispatch(args, exe),
        }
    }

    /// Handles `multicall NAME …`. NAME is the command, or the path that a shim was called by.
    fn multicall(&self, words: &[OsString]) -> Launch {
        let Some(name) = words.first() else {
            return refuse("agent-sandbox: `multicall` needs a command", ExitCode::Setup);
        };
        if multicall::is_internal(name) {
            return Launch::Internal { name: name.clone(), rest: words[1..].to_vec() };
        }
        let file = name.as_bytes().contains(&b'/').then(|| fs::canonicalize(name).ok()).flatten();
        self.dispatch(words, file.as_deref()).unwrap_or_else(|| {
            refuse(
                &format!("agent-sandbox: no rule for command '{}'", name.to_string_lossy()),
                ExitCode::Setup,
            )
        })
    }

    /// Applies the rule of the name, or the rule of the file if the name has none.
    fn dispatch(&self, argv: &[OsString], file: Option<&Path>) -> Option<Launch> {
        let name = argv.first().map_or(OsStr::new(""), |name| base(name));
        let found = marker::find(self.runtime, name).or_else(|| {
            let file = file.map(|file| base(file.as_os_str())).filter(|file| !is_own(file));
            let by_file = file.and_then(|file| marker::find_by_file(self.runtime, file));
            by_file.or_else(|| self.git_part(file.unwrap_or(name)))
        })?;
        Some(self.apply(&found, argv))
    }

    /// Returns the rule of git for `git-NAME`. Such a file in git's exec path may be a copy of git.
    fn git_part(&self, name: &OsStr) -> Option<Found> {
        name.as_bytes().strip_prefix(b"git-")?;
        marker::find(self.runtime, OsStr::new("git"))
    }

    fn apply(&self, found: &Found, argv: &[OsString]) -> Launch {
        match &found.marker {
            Marker::Deny if self.runs_wrapper(argv) && is_there(&found.real()) => real(found, argv),
            Marker::Deny => deny(&found.name),
            Marker::Script if self.runs_wrapper(argv) || self.is_called_by_wrapper(found) => {
                real(found, argv)
            }
            Marker::Script => run_script(found, argv),
            Marker::Raw => real(found, argv),
            Marker::Multicall { applets } => {
                let applet = applets.then(|| self.applet(found, argv)).flatten();
                applet.unwrap_or_else(|| real(found, argv))
            }
            Marker::Git(facts) => run_git(found, facts, argv),
        }
    }

    /// Applies the rule of `wget` to `busybox wget …`, if there is one.
    fn applet(&self, found: &Found, argv: &[OsString]) -> Option<Launch> {
        let (own, first) = (argv.first()?, argv.get(1)?);
        if base(own) != found.name {
            return None;
        }
        let name = first.as_bytes().strip_prefix(b"--coreutils-prog=").unwrap_or(first.as_bytes());
        let name = OsStr::from_bytes(name).to_owned();
        let ruled = marker::find(self.runtime, base(&name))?;
        let argv: Vec<OsString> = [name].into_iter().chain(argv[2..].iter().cloned()).collect();
        match ruled.marker {
            Marker::Raw => None,
            Marker::Multicall { .. } => self.applet(&ruled, &argv),
            _ => Some(self.apply(&ruled, &argv)),
        }
    }

    /// Returns true if the kernel runs a wrapper script with this interpreter: `sh [ARG] SCRIPT`, where ARG comes from
    /// the script's first line, execve(2). Rules apply to commands of the agent, not to interpreters of wrappers.
    fn runs_wrapper(&self, argv: &[OsString]) -> bool {
        let is_wrapper = |word: &OsString| {
            let path = Path::new(word);
            let plain = path.components().all(|part| part != Component::ParentDir);
            plain
                && path.starts_with(self.runtime)
                && path.parent().and_then(Path::file_name) == Some(OsStr::new(runtime::WRAPPERS))
        };
        match (argv.get(1), argv.get(2)) {
            (Some(script), _) if is_wrapper(script) => true,
            (Some(word), Some(path)) if is_wrapper(path) => fs::read(path).is_ok_and(|text| {
                script::interpreter(&text).is_some_and(|(_, said)| said == Some(word.as_bytes()))
            }),
            _ => false,
        }
    }

    /// Returns true if the wrapper script calls its own command. It then gets the real program, because the script
    /// would otherwise call itself forever.
    fn is_called_by_wrapper(&self, found: &Found) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", std::os::unix::process::parent_id()));
        let line = line.unwrap_or_default();
        let words = line.split(|byte| *byte == 0).take(3);
        let argv: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
        let is_child = argv.contains(&found.script().into_os_string()) && self.runs_wrapper(&argv);
        is_child || is_replaced_by(&found.name, std::env::vars_os())
    }
}

/// Returns true if this process was the script until it ran `exec NAME`. Only the variables show that.
fn is_replaced_by(name: &OsStr, vars: impl Iterator<Item = (OsString, OsString)>) -> bool {
    let pid = std::process::id().to_string();
    let said = vars.filter(|(key, value)| match key.to_str() {
        Some(CMD) => value == name,
        Some(PID) => *value == *pid,
        _ => false,
    });
    said.count() == 2
}

fn base(name: &OsStr) -> &OsStr {
    Path::new(name).file_name().unwrap_or(name)
}

fn is_own(name: &OsStr) -> bool {
    name == "agent-sandbox"
}

fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(false)
}

fn real(found: &Found, argv: &[OsString]) -> Launch {
    become_program(real_program(found), found, argv, Vec::new())
}

/// Returns the real program, as resolved when the sandbox was planned. The programs of a container are not known then,
/// so there it is the first program of that name on the search path that is not this binary.
fn real_program(found: &Found) -> PathBuf {
    let known = found.real();
    if is_there(&known) || !is_there(&found.root.join(runtime::LINKS)) {
        return known;
    }
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let path = path.unwrap_or_default();
    let own = fs::metadata("/proc/self/exe").ok();
    let is_other = |file: &PathBuf| {
        let same =
            |own: &fs::Metadata, it: &fs::Metadata| (own.dev(), own.ino()) == (it.dev(), it.ino());
        fs::metadata(file).is_ok_and(|it| {
            it.is_file()
                && it.mode() & 0o111 != 0
                && !own.as_ref().is_some_and(|own| same(own, &it))
        })
    };
    let dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(&found.name)).find(is_other).unwrap_or(known)
}

fn run_script(found: &Found, argv: &[OsString]) -> Launch {
    let real = Some(real_program(found)).filter(|real| is_there(real)).unwrap_or_default();
    let env = vec![
        (CMD, found.name.clone()),
        (REAL, real.into_os_string()),
        (PID, std::process::id().to_string().into()),
    ];
    become_program(found.script(), found, argv, env)
}

fn become_program(
    program: PathBuf,
    found: &Found,
    argv: &[OsString],
    env: Vec<(&'static str, OsString)>,
) -> Launch {
    let (argv0, rest) = match argv.split_first() {
        Some((argv0, rest)) => (argv0.clone(), rest),
        None => (found.name.clone(), argv),
    };
    Launch::Exec(Exec { program, argv0, args: rest.to_vec(), env })
}

fn run_git(found: &Found, facts: &GitFacts, argv: &[OsString]) -> Launch {
    let env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = RealGit::new(real_program(found), facts.scratch.clone(), facts.env.clone())
        .within(facts.enclosing.clone());
    match git::judge(argv, &env, &git) {
        Verdict::Allow { extra } if extra.is_empty() => real(found, argv),
        Verdict::Allow { extra } => real(found, &git::with_extra(argv, extra)),
        Verdict::Refuse(git::Refusal { what, why, instead }) => {
            let message = format!("agent-sandbox: `{what}` is blocked: {why}\nhint: {instead}");
            Launch::Refuse(Refusal { message, code: ExitCode::Failure })
        }
    }
}

fn deny(name: &OsStr) -> Launch {
    let name = name.to_string_lossy();
    let hint = format!("hint: `agent-sandbox why --command {name}` shows which rule blocks it");
    refuse(&format!("agent-sandbox: command '{name}' is blocked\n{hint}"), ExitCode::Failure)
}

fn outside() -> Launch {
    refuse("agent-sandbox: `multicall` works only inside a sandbox", ExitCode::Setup)
}

fn refuse(message: &str, code: ExitCode) -> Launch {
    Launch::Refuse(Refusal { message: message.into(), code })
}

#[cfg(test)]
mod tests;
