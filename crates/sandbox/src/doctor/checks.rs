//! Conversion of facts into rows. Total and pure.

use std::io;

use super::engine;
use super::facts::{Facts, Found, Tried};
use super::trial::Trial;
use super::{Check, limits, namespaces};
use crate::render::own::Hiding;
use crate::run::Rendering;
use sandbox_protocol::Hint;

/// Returns all rows, the required ones first.
pub(super) fn all(facts: &Facts) -> Vec<Check> {
    vec![
        kernel(facts),
        bubblewrap(facts),
        user_namespaces(facts),
        seccomp(facts),
        pidfd(facts),
        sandbox(facts),
        overlay(facts),
        copy_on_write(facts),
        landlock(facts),
        replaced_files(facts),
        fuse(facts),
        docker(facts),
        git(facts),
        terminal(facts),
        place(facts),
        user(facts),
    ]
}

/// Returns the text for an error number.
fn error_text(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// First kernel that has all system calls for own mounts, of which `mount_setattr(2)` is the latest.
const OWN_MOUNTS: (u32, u32) = (5, 12);

fn version(facts: &Facts) -> (u32, u32) {
    let mut numbers = facts.kernel.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel(facts: &Facts) -> Check {
    if version(facts) < OWN_MOUNTS {
        let (major, minor) = OWN_MOUNTS;
        return Check::warn("kernel", format!("{}, older than {major}.{minor}", facts.kernel))
            .fix(format!("use Linux {major}.{minor} or later for faster and stronger sandboxes"));
    }
    Check::ok("kernel", &facts.kernel)
}

/// Flags that rendering a plan requires.
const REQUIRED: [&str; 6] =
    ["--perms", "--chmod", "--ro-bind-data", "--seccomp", "--die-with-parent", "--cap-drop"];
/// Flags of newer versions, which are reported.
const OPTIONAL: [&str; 4] = ["--size", "--bind-fd", "--disable-userns", "--overlay"];

fn bubblewrap(facts: &Facts) -> Check {
    let Found { bwrap, version, help } = match &facts.bwrap {
        Ok(found) => found,
        Err(error) => {
            let check = Check::fail("bubblewrap", error.to_string());
            return check.fix(error.hint().unwrap_or_default());
        }
    };
    let has = |flag: &&str| help.split_whitespace().any(|word| word == *flag);
    let lacks: Vec<_> = REQUIRED.into_iter().filter(|flag| !has(flag)).collect();
    let version = version.map_or_else(|| "unknown version".into(), |it| it.to_string());
    let place = format!("{version}, {}", bwrap.path.display());
    if !lacks.is_empty() {
        return Check::fail("bubblewrap", format!("{place}, lacks {}", lacks.join(" ")))
            .fix("update bubblewrap to 0.8.0 or later");
    }
    if bwrap.setuid {
        let text = format!("{place}, is setuid; sandboxes run it without root privileges");
        let path = bwrap.path.display();
        return Check::warn("bubblewrap", text)
            .fix(format!("remove the setuid bit, which is not needed: sudo chmod u-s {path}"));
    }
    let optional: Vec<_> = OPTIONAL.into_iter().filter(has).collect();
    let features =
        if optional.is_empty() { String::new() } else { format!(", has {}", optional.join(" ")) };
    Check::ok("bubblewrap", format!("{place}{features}"))
}

fn user_namespaces(facts: &Facts) -> Check {
    let Err(errno) = namespaces::failure(facts) else {
        return Check::ok("user-namespaces", "can be created, with mounts inside");
    };
    let (cause, remedy) = namespaces::cause(facts, errno);
    let detail = format!("user namespaces cannot be used ({}): {cause}", error_text(errno));
    if facts.rendering().is_some() {
        let detail = format!("{detail}; bubblewrap can use them");
        return Check::warn("user-namespaces", detail).fix(remedy);
    }
    Check::fail("user-namespaces", detail).fix(remedy)
}

fn needed(name: &'static str, tried: Tried, works: &str, fails: &str, remedy: &str) -> Check {
    match tried {
        Ok(()) => Check::ok(name, works),
        Err(errno) => Check::fail(name, format!("{fails} ({})", error_text(errno))).fix(remedy),
    }
}

fn seccomp(facts: &Facts) -> Check {
    needed(
        "seccomp",
        facts.seccomp,
        "the system call filter works",
        "system calls cannot be filtered",
        "use a kernel with CONFIG_SECCOMP_FILTER",
    )
}

fn pidfd(facts: &Facts) -> Check {
    needed(
        "pidfd",
        facts.pidfd,
        "works; signals reach exactly the command",
        "pidfds do not work",
        "use Linux 5.3 or later, and a container filter that allows pidfd_open",
    )
}

fn sandbox(facts: &Facts) -> Check {
    let name = |how: Rendering| match how {
        Rendering::Own(Hiding::Overlay) => "own mounts, with an overlay on the home directory",
        Rendering::Own(Hiding::Binds) => "own mounts",
        Rendering::Bubblewrap => "plain bubblewrap",
    };
    let Some((how, trial)) = facts.trials.last() else {
        return Check::fail("sandbox", "cannot start without bubblewrap")
            .fix("see the row `bubblewrap`");
    };
    let why = facts.trials.first().and_then(|(_, trial)| match trial {
        Trial::NotPrepared(why) => Some(why.as_str()),
        Trial::Works | Trial::Refused(_) => None,
    });
    match trial {
        Trial::Works => {
            // Inside another sandbox, paths that the outer one hides stay hidden.
            let nested = facts.inside && matches!(how, Rendering::Own(_));
            let limits = if nested { Vec::new() } else { limits(*how, facts.root) };
            match why {
                _ if limits.is_empty() => Check::ok("sandbox", name(*how)),
                Some(why) => Check::warn("sandbox", format!("{}, because: {why}", name(*how))),
                None => Check::warn("sandbox", format!("{}, as requested", name(*how))),
            }
            .limits(limits)
        }
        Trial::NotPrepared(why) | Trial::Refused(why) => {
            let detail = format!("{} does not start: {why}", name(*how));
            Check::fail("sandbox", detail).fix(remedy(facts, why))
        }
    }
}

fn remedy(facts: &Facts, why: &str) -> &'static str {
    match facts.container {
        _ if namespaces::failure(facts).is_err() => "see the row `user namespaces`",
        Some(_) if why.contains("mount proc") => {
            "start the container with: --security-opt systempaths=unconfined"
        }
        Some(_) => {
            "start the container with: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        }
        None => "see the rows above; `agent-sandbox --debug true` shows each step",
    }
}

/// First kernel with overlay mounts in user namespaces: commit 459c7c565ac3.
const OVERLAY: (u32, u32) = (5, 11);

fn overlay(facts: &Facts) -> Check {
    let Err(errno) = facts.overlay else {
        return Check::ok("overlay", "works in a user namespace, for copy-on-write");
    };
    if namespaces::failure(facts).is_err() {
        return Check::warn("overlay", "needs user namespaces");
    }
    let check = Check::warn(
        "overlay",
        format!("not available in a user namespace ({})", error_text(errno)),
    );
    if version(facts) < OVERLAY { check.fix("use Linux 5.11 or later") } else { check }
}

/// Names the engine that would isolate changes in this directory.
fn copy_on_write(facts: &Facts) -> Check {
    const NAME: &str = "copy-on-write";
    if facts.inside {
        return Check::ok(NAME, "decided by the outermost sandbox");
    }
    let plain = facts.rendering().is_none_or(|rendering| rendering == Rendering::Bubblewrap);
    match facts.written_overlay {
        Ok(()) if !plain => Check::ok(NAME, "uses the engine `overlay` in this directory"),
        Ok(()) if facts.fuse.is_ok() => {
            Check::ok(NAME, "uses the engine `agentfs`: bubblewrap alone cannot mount an overlay")
        }
        Err(errno) if facts.fuse.is_ok() => {
            let why = error_text(errno);
            Check::ok(
                NAME,
                format!(
                    "uses the engine `agentfs`: cannot mount an overlay over this directory ({why})"
                ),
            )
        }
        Ok(()) => Check::warn(NAME, "not available: bubblewrap alone cannot mount an overlay"),
        Err(errno) => {
            let why = error_text(errno);
            Check::warn(
                NAME,
                format!("not available: cannot mount an overlay over this directory ({why})"),
            )
            .fix(
                "use a directory on a local filesystem with no mounts below it, and `XDG_DATA_HOME` on another one",
            )
        }
    }
}

/// First ABI with scopes, since Linux 6.12 (`landlock(7)`).
const SCOPES: i64 = 6;

fn landlock(facts: &Facts) -> Check {
    let abi = facts.landlock_abi;
    let limits =
        vec!["the command can connect to abstract sockets of the host, unless the network is off"];
    match facts.landlock_scope {
        Ok(()) => Check::ok("landlock", format!("ABI {abi}, with scopes")),
        Err(_) if abi == 0 => Check::warn("landlock", "not in this kernel, or not enabled")
            .fix("use Linux 6.12 or later, with `landlock` in the `lsm=` boot parameter")
            .limits(limits),
        Err(_) if abi < SCOPES => {
            Check::warn("landlock", format!("ABI {abi}; scopes need ABI {SCOPES}"))
                .fix("use Linux 6.12 or later")
                .limits(limits)
        }
        Err(errno) => {
            let why = error_text(errno);
            Check::warn("landlock", format!("ABI {abi}, but scopes do not work ({why})"))
                .limits(limits)
        }
    }
}

fn replaced_files(facts: &Facts) -> Check {
    match facts.enter {
        Ok(()) => Check::ok("replaced-files", "protected again during a run"),
        Err(errno) => {
            let detail = format!("cannot enter a running sandbox ({})", error_text(errno));
            Check::warn("replaced-files", detail).limits(vec![
                "a protected file that the host replaces during a run is not protected again",
            ])
        }
    }
}

/// Checks FUSE, which the engine `agentfs` needs: for filesystems in a file, and for copies where overlays do not work.
fn fuse(facts: &Facts) -> Check {
    if let Err(errno) = facts.fuse {
        let why = error_text(errno);
        let detail = format!("/dev/fuse: {why}; local sandboxes work without it");
        return Check::warn("fuse", detail)
            .fix("sudo modprobe fuse, or pass /dev/fuse to the container");
    }
    match (&facts.fuse_helper, facts.fuse_others) {
        _ if facts.root => {
            Check::ok("fuse", "the engine `agentfs` works; root mounts without a helper")
        }
        (None, _) => {
            Check::warn("fuse", "fusermount3 is not in PATH; only root can mount without it")
                .fix("apt install fuse3")
        }
        (Some(helper), true) => Check::ok(
            "fuse",
            format!(
                "the engine `agentfs` works, with {}; other users can get access",
                helper.display()
            ),
        ),
        (Some(helper), false) => Check::ok(
            "fuse",
            format!(
                "the engine `agentfs` works, with {}; access by other users needs `user_allow_other` in /etc/fuse.conf",
                helper.display()
            ),
        ),
    }
}

fn docker(facts: &Facts) -> Check {
    if let Some(address) = &facts.docker_host {
        return Check::ok("docker", format!("{address}, over the network"));
    }
    match &facts.docker {
        Some((socket, Ok(()))) => answers(&socket.display().to_string(), facts.runc.as_deref()),
        Some((socket, Err(errno))) => {
            let detail =
                format!("{}: {}; only `--docker` needs it", socket.display(), error_text(*errno));
            Check::warn("docker", detail)
                .fix("start the daemon, or join the group `docker`, which is equivalent to root")
        }
        None => Check::warn("docker", "no daemon socket found; only `--docker` needs one"),
    }
}

/// Checks the runtime of an engine that answers.
fn answers(socket: &str, runc: Option<&str>) -> Check {
    let Some(version) = runc else { return Check::ok("docker", format!("answers on {socket}")) };
    let detail = format!("answers on {socket}, with runc {version}");
    if engine::is_behind(version) {
        return Check::warn("docker", format!("{detail}, which has known container escapes"))
            .fix("update runc to 1.2.8, 1.3.3 or later, unless your distribution has patched it");
    }
    Check::ok("docker", detail)
}

fn git(facts: &Facts) -> Check {
    match &facts.git {
        Some(path) => Check::ok("git", path.display().to_string()),
        None => Check::warn("git", "not in PATH; repositories are still protected")
            .fix("apt install git"),
    }
}

fn terminal(facts: &Facts) -> Check {
    let detail = match facts.settings.legacy_tiocsti {
        Some(0) => "the kernel blocks input injection into terminals (TIOCSTI)",
        _ => "the system call filter blocks input injection into terminals (TIOCSTI)",
    };
    Check::ok("terminal", detail)
}

fn place(facts: &Facts) -> Check {
    let detail = match facts.container {
        _ if facts.inside => "inside a sandbox; nested sandboxes can only be stricter".into(),
        Some(sign) => format!("in a container ({sign})"),
        None => "not in a container".into(),
    };
    Check::ok("place", detail)
}

fn user(facts: &Facts) -> Check {
    let detail = if facts.root {
        "root; commands run without capabilities, but can read root's files that no rule hides"
    } else {
        "unprivileged user"
    };
    Check::ok("user", detail)
}
