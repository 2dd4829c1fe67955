//! Turns a request into a program with its arguments, environment and working directory.

mod repository;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sandbox_git::command::{self as git, Env, RealGit, Verdict};
use sandbox_linux::signal::ENDING;
use sandbox_policy::config::command::Paths;

use crate::server::Server;
use crate::shared_dirs::WorkDir;
use crate::verdict::{Allowed, Denial, judge};
use sandbox_protocol::ExitCode;

/// Command ready to run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub program: PathBuf,
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub timeout: Duration,
    pub output: u64,
    pub signals: Passed,
}

/// Signals of a client that are passed on to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    All,
    /// Ending signals only. The SSH client forwards no signals, and would only die of the others.
    Ending,
}

impl Prepared {
    /// Returns true if a signal of the client is passed on to the program.
    pub(crate) fn passes(&self, signal: i32) -> bool {
        self.signals == Passed::All || ENDING.contains(&signal)
    }
}

/// Reason why a request is not run.
#[derive(Debug)]
pub(crate) enum Refused {
    Denied(Denial),
    /// The program is allowed but not installed.
    Missing(String),
}

/// Judges a request and enters its working directory, so that the agent cannot replace the directory afterwards.
pub(crate) fn prepare(
    server: &Server,
    argv: &[OsString],
    cwd: Option<&Path>,
) -> Result<Prepared, Refused> {
    let deny = |reason: String| Refused::Denied(Denial::new(argv, reason));
    // Every list must allow it. If one of them hardens git, the hardened command runs.
    let judged: Vec<Allowed<'_>> = server
        .lists
        .iter()
        .map(|list| judge(list, argv))
        .collect::<Result<_, _>>()
        .map_err(Refused::Denied)?;
    let hardened = judged.iter().find(|allowed| allowed.git.is_some());
    let Some(allowed) = hardened.or(judged.first()) else {
        return Err(deny("no host command is allowed".into()));
    };
    let fixed = judged.iter().find_map(|allowed| allowed.entry.cwd.clone());
    let work_dir = enter(server, cwd, fixed.as_deref()).map_err(deny)?;
    let confined = judged.iter().any(|allowed| allowed.entry.paths == Paths::Confine);
    let words = if confined {
        confine(server, allowed, work_dir.as_ref()).map_err(deny)?
    } else {
        allowed.argv.clone()
    };
    let program = find(server, &words[0]).ok_or_else(|| {
        Refused::Missing(format!("`{}` is not installed on the host", words[0].display()))
    })?;
    check_program(server, &program).map_err(deny)?;
    let env = environment(server, &judged, work_dir.as_ref());
    if let Some(at) = allowed.git {
        check_git(server, &words[at..], &env, work_dir.as_ref()).map_err(deny)?;
        if allowed.enters_submodules() {
            check_submodules(server, &words[at], &env).map_err(deny)?;
        }
    }
    let timeout = judged.iter().filter_map(|allowed| allowed.entry.timeout).min();
    let timeout = timeout.into_iter().chain(server.limit(|list| list.timeout)).min().unwrap_or(1);
    Ok(Prepared {
        program,
        argv: words,
        env,
        timeout: Duration::from_secs(timeout),
        output: server.limit(|list| list.output).unwrap_or(0),
        signals: Passed::All,
    })
}

/// Enters a fixed directory of the list, the requested directory if the host shares it, or else an empty one.
fn enter(
    server: &Server,
    asked: Option<&Path>,
    fixed: Option<&Path>,
) -> Result<Option<WorkDir>, String> {
    let wrong = |error: std::io::Error| format!("cannot enter the working directory: {error}");
    if let Some(dir) = fixed {
        // The agent controls the content of a shared directory, even if the list names it.
        if let Some(shared) = server.shared_dirs.named_dir(dir).map_err(wrong)? {
            shared.dir.enter().map_err(wrong)?;
            return Ok(Some(shared));
        }
        std::env::set_current_dir(dir).map_err(wrong)?;
        return Ok(None);
    }
    match asked {
        Some(asked) if !server.shared_dirs.is_empty() && !server.is_apart(asked) => {
            let found = server
                .shared_dirs
                .work_dir(asked)
                .map_err(|error| format!("the working directory {error}"))?;
            found.dir.enter().map_err(wrong)?;
            Ok(Some(found))
        }
        _ => {
            std::env::set_current_dir(&server.empty).map_err(wrong)?;
            Ok(None)
        }
    }
}

fn confine(
    server: &Server,
    allowed: &Allowed<'_>,
    cwd: Option<&WorkDir>,
) -> Result<Vec<OsString>, String> {
    // Words of the entry were written on the host, so their paths are host paths.
    let own = allowed.entry.words.len();
    let word = |(at, word): (usize, &OsString)| {
        if at < own {
            Ok(word.clone())
        } else {
            server.shared_dirs.argument(word, cwd).map_err(|error| error.to_string())
        }
    };
    allowed.argv.iter().enumerate().map(word).collect()
}

/// Finds a program in the list's search path only.
fn find(server: &Server, name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    server.path().iter().map(|dir| dir.join(name)).find(is_program)
}

/// Refuses programs that the agent could have written, and this program under any name.
fn check_program(server: &Server, program: &Path) -> Result<(), String> {
    let real =
        fs::canonicalize(program).map_err(|error| format!("`{}`: {error}", program.display()))?;
    let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    if id(&real).is_some() && id(&real) == id(&server.own) {
        return Err("a sandbox cannot control its own host".into());
    }
    if server.shared_dirs.holds(&real) || server.shared_dirs.holds(program) {
        return Err(format!(
            "`{}` is in a directory that the container can write to",
            program.display()
        ));
    }
    Ok(())
}

fn environment(
    server: &Server,
    judged: &[Allowed<'_>],
    cwd: Option<&WorkDir>,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> =
        server.env.iter().map(|(name, value)| (name.into(), value.clone())).collect();
    for allowed in judged {
        env.extend(allowed.entry.env.iter().map(|(name, value)| (name.into(), value.into())));
    }
    // Variables that harden a tool come last, so that an entry cannot override them.
    for (name, value) in judged.iter().flat_map(|allowed| &allowed.env) {
        env.push((name.into(), value.into()));
    }
    if judged.iter().any(|allowed| allowed.git.is_some()) {
        let ceiling = cwd.and_then(|cwd| repository::ceiling(&server.shared_dirs, cwd));
        let ceiling = ceiling.or_else(|| server.empty.parent().map(Path::to_owned));
        env.extend(ceiling.map(|dir| ("GIT_CEILING_DIRECTORIES".into(), dir.into_os_string())));
    }
    env
}

/// Checks a git command in a repository that the agent controls: the configuration that git would apply, and the data
/// that it would destroy.
fn check_git(
    server: &Server,
    words: &[OsString],
    env: &[(OsString, OsString)],
    cwd: Option<&WorkDir>,
) -> Result<(), String> {
    if let Some(cwd) = cwd {
        let refused =
            repository::refusal(&server.shared_dirs, cwd).map_err(|error| error.to_string())?;
        if let Some(why) = refused {
            return Err(format!("cannot run git safely in this repository: {why}"));
        }
    }
    let real = RealGit::new(real_git(server, &words[0])?, Vec::new(), Vec::new());
    let env: Env = env.iter().cloned().collect();
    match git::judge(words, &env, &real) {
        Verdict::Allow { .. } => Ok(()),
        Verdict::Refuse(refusal) => {
            Err(format!("`{}` {}; {}", refusal.what, refusal.why, refusal.instead))
        }
    }
}

/// Refuses a repository with submodules, because git enters them and applies their configuration. Listing the index is
/// harmless.
fn check_submodules(
    server: &Server,
    git: &OsStr,
    env: &[(OsString, OsString)],
) -> Result<(), String> {
    let mut list = sandbox_linux::process::command(real_git(server, git)?);
    list.args(["ls-files", "--stage", "-z", "--", ":/"]).stdin(Stdio::null()).stderr(Stdio::null());
    list.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    let listed = list.output().map_err(|error| format!("cannot run git: {error}"))?;
    let mut entries = listed.stdout.split(|byte| *byte == 0);
    match entries.find(|entry| entry.starts_with(b"160000 ")) {
        Some(_) => Err("git would apply the configuration of the submodules here".into()),
        None => Ok(()),
    }
}

fn real_git(server: &Server, name: &OsStr) -> Result<PathBuf, String> {
    find(server, name).ok_or_else(|| "git is not installed on the host".into())
}

impl Refused {
    /// Returns the message to the client, the exit code, and the outcome for the log.
    pub(crate) fn answer(&self) -> (String, u8, &'static str) {
        match self {
            Self::Denied(denial) => (denial.message(), ExitCode::Failure.code(), "denied"),
            Self::Missing(what) => {
                (format!("agent-sandbox: {what}\n"), ExitCode::NotFound.code(), "failed")
            }
        }
    }
}
