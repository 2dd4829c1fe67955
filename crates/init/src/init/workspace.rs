//! Step 2: clones the workspace once. Git runs as the agent's user, because a hostile repository could attack root's
//! git.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_protocol::layout::RUNTIME_DIR;
use zeroize::Zeroizing;

use super::home::{clear, make_staging};
use super::settings::{Settings, Source};
use super::step::{Outcome, StepError, file};
use super::supervisor::Supervisor;
use super::task::{Rights, Task};
use crate::environment::Environment;

/// Time limit of a clone. Git gives up earlier on a dead connection.
const LIMIT: Duration = Duration::from_secs(1800);

/// Clones into the staging directory and renames, so that a workspace is never incomplete.
pub(crate) fn set_up(
    settings: &Settings,
    supervisor: &mut Supervisor,
) -> Result<Outcome, StepError> {
    let workspace = settings.paths.base.join("workspace");
    if is_filled(&workspace)? {
        return Ok(Outcome::Already);
    }
    make_staging(settings)?;
    let draft = settings.paths.staging.join("workspace");
    fs::create_dir(&draft).map_err(file("create", &draft))?;
    let (uid, gid) = (settings.user.uid, settings.user.gid);
    chown(&draft, Some(uid), Some(gid)).map_err(file("change the owner of", &draft))?;
    if let Some(source) = &settings.workspace {
        Clone::new(settings, source)?.run(settings, source, &draft, supervisor)?;
    }
    fs::rename(&draft, &workspace).map_err(file("create", &workspace))?;
    clear(&settings.paths.staging)?;
    Ok(if settings.workspace.is_some() {
        Outcome::Done
    } else {
        Outcome::Skipped("no WORKSPACE_PATH: empty")
    })
}

/// Removes our directories from a search path. They contain the agent's rule for `git`, which can forbid commands that
/// are needed here.
fn without_rules(path: &[u8]) -> Vec<u8> {
    let entries = path.split(|byte| *byte == b':');
    let is_below = |entry: &[u8]| {
        entry.strip_prefix(RUNTIME_DIR.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    };
    let others: Vec<_> = entries.filter(|entry| !is_below(entry)).collect();
    others.join(&b':')
}

/// Returns true when the workspace exists and is not empty. The image may contain an empty directory.
fn is_filled(workspace: &Path) -> Result<bool, StepError> {
    match fs::read_dir(workspace) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(file("list", workspace)(error)),
    }
}

/// A clone: the program, and an environment without prompts and hooks.
struct Clone {
    git: PathBuf,
    environment: Environment,
    url: Zeroizing<Vec<u8>>,
}

impl Clone {
    fn new(settings: &Settings, source: &Source) -> Result<Self, StepError> {
        let path = without_rules(settings.environment.set("PATH").unwrap_or_default());
        let git = crate::lookup::find(OsStr::new("git"), Some(&path))
            .map_err(|_| StepError::NoProgram("git"))?;
        let (url, login) = Login::split(&source.path);
        let config = settings.paths.staging.join("gitconfig");
        let text = config_text(settings, &url, login.is_some());
        fs::write(&config, text).map_err(file("write", &config))?;
        let mut environment = settings.environment.clone();
        environment.put("PATH", &path);
        environment.put("HOME", settings.paths.base.as_os_str().as_bytes());
        environment.put("GIT_CONFIG_GLOBAL", config.as_os_str().as_bytes());
        environment.put("GIT_TERMINAL_PROMPT", b"0");
        environment.put("GIT_ASKPASS", b"true");
        environment.put("SSH_ASKPASS_REQUIRE", b"never");
        if environment.set("GIT_SSH_COMMAND").is_none() {
            environment.put("GIT_SSH_COMMAND", b"ssh -o BatchMode=yes");
        }
        if let Some(login) = login {
            environment.put("INIT_GIT_USERNAME", &login.user);
            environment.put("INIT_GIT_PASSWORD", &login.password);
        }
        Ok(Self { git, environment, url })
    }

    fn run(
        &self,
        settings: &Settings,
        source: &Source,
        draft: &Path,
        supervisor: &mut Supervisor,
    ) -> Result<(), StepError> {
        let mut clone = ["clone", "--quiet", "--no-hardlinks"].map(OsString::from).to_vec();
        // All branches are fetched in any case, and the commit may be on any of them.
        clone.extend(source.commit.as_ref().map(|_| "--no-checkout".into()));
        clone.extend([OsString::from("--"), OsString::from_vec(self.url.to_vec()), draft.into()]);
        self.git(settings, &settings.paths.data, clone, supervisor)?;
        match &source.commit {
            Some(commit) => self.check_out(settings, commit, draft, supervisor),
            None => Ok(()),
        }
    }

    fn check_out(
        &self,
        settings: &Settings,
        commit: &str,
        draft: &Path,
        supervisor: &mut Supervisor,
    ) -> Result<(), StepError> {
        let mut git = |words: &[&str]| {
            self.git(settings, draft, words.iter().map(OsString::from).collect(), supervisor)
        };
        let name = format!("{commit}^{{commit}}");
        match git(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]) {
            // The commit is on no branch, but the server may still have it.
            Err(StepError::Failed(..)) if !commit.starts_with('-') => {
                git(&["fetch", "--quiet", "origin", commit])?;
            }
            done => drop(done?),
        }
        git(&["checkout", "--quiet", commit, "--"]).map(drop)
    }

    fn git(
        &self,
        settings: &Settings,
        dir: &Path,
        arguments: Vec<OsString>,
        supervisor: &mut Supervisor,
    ) -> Result<String, StepError> {
        let task = Task {
            name: "git",
            program: &self.git,
            arguments,
            environment: &self.environment,
            dir,
            rights: Rights::Only(&settings.user),
            limit: LIMIT,
        };
        task.run(supervisor)
    }
}

/// Returns the git configuration for the clone, which follows that of the user in the image.
fn config_text(settings: &Settings, url: &[u8], login: bool) -> Vec<u8> {
    let mut text = b"[include]\n\tpath = ".to_vec();
    text.extend(quoted(settings.paths.base.join(".gitconfig").as_os_str().as_bytes()));
    text.extend(b"\n[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n[protocol \"ext\"]\n\tallow = never\n");
    text.extend(b"[http]\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 60\n[safe]\n");
    // A local repository may belong to another user.
    for path in [url.to_vec(), [url, b"/.git"].concat()] {
        text.extend([b"\tdirectory = ", &quoted(&path)[..], b"\n"].concat());
    }
    if login {
        // The credential is only for this server. A redirect to another server must not receive it.
        text.extend([b"[credential ", &quoted(origin(url))[..], b"]\n"].concat());
        text.extend(br#"	helper = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$INIT_GIT_USERNAME\" \"$INIT_GIT_PASSWORD\"; }; f""#);
        text.push(b'\n');
    }
    text
}

/// Quotes a value for git's configuration.
fn quoted(value: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in value {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            byte => text.push(*byte),
        }
    }
    text.push(b'"');
    text
}

/// Returns the scheme, host and port of a URL.
fn origin(url: &[u8]) -> &[u8] {
    let begin = url.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    let end = url[begin..].iter().position(|byte| *byte == b'/').map_or(url.len(), |at| begin + at);
    &url[..end]
}

/// User and password from a URL.
struct Login {
    user: Zeroizing<Vec<u8>>,
    password: Zeroizing<Vec<u8>>,
}

impl Login {
    /// Splits a URL into the login and the rest. Otherwise the password would remain in the workspace's configuration.
    fn split(url: &[u8]) -> (Zeroizing<Vec<u8>>, Option<Self>) {
        let whole = || (Zeroizing::new(url.to_vec()), None);
        if !url.starts_with(b"https://") && !url.starts_with(b"http://") {
            return whole();
        }
        let host = origin(url);
        let Some(at) = host.iter().rposition(|byte| *byte == b'@') else { return whole() };
        let begin = host.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
        let Some(colon) = host[begin..at].iter().position(|byte| *byte == b':') else {
            return whole();
        };
        let (user, password) = (&host[begin..begin + colon], &host[begin + colon + 1..at]);
        let clean = Zeroizing::new([&url[..begin], &url[at + 1..]].concat());
        (clean, Some(Self { user: decoded(user), password: decoded(password) }))
    }
}

/// Decodes the percent-encoding of a part of a URL.
fn decoded(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code =
            code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_takes_a_password_out_of_a_url_and_leaves_everything_else() {
        for (url, clean, login) in [
            ("https://host/x.git", "https://host/x.git", None),
            ("https://bob@host/x", "https://bob@host/x", None),
            ("https://bob:s%40e:c@host:8443/x@y", "https://host:8443/x@y", Some(("bob", "s@e:c"))),
            ("http://:t@host", "http://host", Some(("", "t"))),
            ("ssh://git@host:22/x", "ssh://git@host:22/x", None),
            ("git@host:x.git", "git@host:x.git", None),
            ("/srv/a:b@c", "/srv/a:b@c", None),
            ("https://host/a:b@c", "https://host/a:b@c", None),
            ("https://a:%zz%4@host/", "https://host/", Some(("a", "%zz%4"))),
        ] {
            let (found, found_login) = Login::split(url.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), clean, "{url}");
            let found_login =
                found_login.map(|login| (login.user.to_vec(), login.password.to_vec()));
            let login = login.map(|(user, password)| (user.into(), password.into()));
            assert_eq!(found_login, login, "{url}");
        }
    }

    #[test]
    fn quoted_values_stay_one_value() {
        assert_eq!(quoted(b"a\"b\\c\nd"), b"\"a\\\"b\\\\c\\nd\"");
    }
}
