//! The personality `check`: reports whether this container has what another personality needs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::CapabilitySet;
use sandbox_protocol::ExitCode;
use sandbox_protocol::layout::{BINARY, DATA, WORKSPACE};
use sandbox_protocol::multicall::Personality;
use sandbox_protocol::value::Cow;
use sandbox_protocol::variable::{AGENT_COW, AGENT_USER};

use crate::environment::Environment;
use crate::log::shown;
use crate::lookup;
use crate::user;

/// A finding, with a hint if something is missing.
struct Finding {
    what: String,
    missing: Option<&'static str>,
}

/// Prints the findings. The exit code is 1 if anything is missing.
pub(crate) fn run(words: &[OsString]) -> std::process::ExitCode {
    let is_init = match words.first().and_then(|word| word.to_str()).map(Personality::of) {
        None | Some(Some(Personality::Init)) => true,
        Some(Some(Personality::Entrypoint)) => false,
        Some(_) => {
            crate::log::plain("usage: agent-sandbox-init check [init|entrypoint]");
            return ExitCode::Usage.into();
        }
    };
    let findings = look(&Environment::read(), is_init);
    let line = |Finding { what, missing }: &Finding| match missing {
        None => format!("ok       {what}\n"),
        Some(hint) => format!("missing  {what}\n         hint: {hint}\n"),
    };
    let text: Vec<String> = findings.iter().map(line).collect();
    let _ = std::io::stdout().write_all(text.concat().as_bytes());
    ExitCode::failed_if(findings.iter().any(|finding| finding.missing.is_some())).into()
}

fn look(environment: &Environment, is_init: bool) -> Vec<Finding> {
    let mut findings = vec![user(environment, is_init), privileges(is_init)];
    if !is_init {
        findings
            .push(directory(Path::new(WORKSPACE), "make it in the image and give it to the user"));
        return findings;
    }
    findings.push(directory(Path::new(DATA), "mount a volume there"));
    findings.push(program(environment, "git", "install git in the image"));
    let cow = environment.set(AGENT_COW);
    if cow != Some(Cow::None.word().as_bytes()) {
        findings.push(program(environment, BINARY, "put it beside agent-sandbox-init"));
        findings.push(capability(
            CapabilitySet::SYS_ADMIN,
            "SYS_ADMIN",
            "start the container with --cap-add SYS_ADMIN, or set AGENT_COW=none",
        ));
    }
    if cow.is_none_or(|cow| cow == Cow::Agentfs.word().as_bytes()) {
        findings.extend(fuse(environment));
    }
    findings
}

fn user(environment: &Environment, is_init: bool) -> Finding {
    let usual = if is_init { "octobot" } else { "agent" };
    let wanted = environment.word(AGENT_USER).unwrap_or_else(|| usual.into());
    let passwd = fs::read("/etc/passwd").unwrap_or_default();
    let found = user::find(&passwd, &wanted.to_string_lossy());
    let missing = match &found {
        Err(_) => Some("add the user to the image, or set AGENT_USER"),
        Ok(user) if user.uid == 0 => Some("set AGENT_USER to a user that is not root"),
        Ok(user) if user.name.is_some() && !user.home.is_dir() => {
            Some("make the user's home in the image")
        }
        Ok(_) => None,
    };
    let ids = found.map(|user| format!(", {}:{}, home `{}`", user.uid, user.gid, shown(user.home)));
    Finding { what: format!("user `{}`{}", shown(wanted), ids.unwrap_or_default()), missing }
}

/// Checks that this is root with the capabilities to change the user, or the user already.
fn privileges(is_init: bool) -> Finding {
    let uid = rustix::process::geteuid().as_raw();
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    let has = rustix::thread::capabilities(None).is_ok_and(|now| now.effective.contains(needed));
    let missing = match uid {
        0 if !has => Some(
            "start the container with the capabilities SETUID, SETGID and SETPCAP, or as the user",
        ),
        0 => None,
        _ if is_init => Some("init sets the home up as root: leave USER and --user out"),
        _ => None,
    };
    Finding { what: format!("started as user id {uid}"), missing }
}

fn directory(path: &Path, hint: &'static str) -> Finding {
    let fine = path.is_dir() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    Finding {
        what: format!("directory `{}`, writable", shown(path)),
        missing: (!fine).then_some(hint),
    }
}

fn program(environment: &Environment, name: &'static str, hint: &'static str) -> Finding {
    let beside =
        fs::read_link("/proc/self/exe").ok().and_then(|own| Some(own.parent()?.join(name)));
    let fine = beside.is_some_and(|beside| beside.is_file())
        || lookup::find(OsStr::new(name), environment.set("PATH")).is_ok();
    Finding { what: format!("program `{name}`"), missing: (!fine).then_some(hint) }
}

fn capability(wanted: CapabilitySet, name: &str, hint: &'static str) -> Finding {
    let has = rustix::thread::capabilities(None).is_ok_and(|now| now.effective.contains(wanted));
    Finding { what: format!("capability {name}"), missing: (!has).then_some(hint) }
}

fn fuse(environment: &Environment) -> Vec<Finding> {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let helper = lookup::find(OsStr::new("fusermount3"), environment.set("PATH"));
    let set_user_id = helper.is_ok_and(|helper| {
        fs::metadata(helper).is_ok_and(|about| about.uid() == 0 && about.mode() & 0o4000 != 0)
    });
    let config = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let others = config.lines().any(|line| line.trim() == "user_allow_other");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed =
        !status.lines().any(|line| line.starts_with("NoNewPrivs:") && line.ends_with('1'));
    let finding = |what: &str, fine: bool, hint| Finding {
        what: what.to_owned(),
        missing: (!fine).then_some(hint),
    };
    vec![
        finding("device `/dev/fuse`", device, "start the container with --device /dev/fuse"),
        finding(
            "program `fusermount3`, set-user-ID root",
            set_user_id,
            "install fuse3 in the image",
        ),
        finding("`user_allow_other` in /etc/fuse.conf", others, "add that line to /etc/fuse.conf"),
        finding(
            "new privileges for `fusermount3`",
            allowed,
            "start the container without no-new-privileges, or set AGENT_COW=overlay",
        ),
    ]
}
