//! From facts to rows. Total and pure.

use std::io;

use super::engine;
use super::facts::{Facts, Found, Tried};
use super::trial::Trial;
use super::{Check, limits, namespaces};
use crate::render::own::Hiding;
use crate::run::Rendering;
use sandbox_protocol::Hint;

/// All rows, what is needed first.
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

/// An error number in words.
fn words(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The first kernel that has all system calls of the own mounts: `mount_setattr`.
const OWN_MOUNTS: (u32, u32) = (5, 12);

fn version(facts: &Facts) -> (u32, u32) {
    let mut numbers = facts.kernel.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel(facts: &Facts) -> Check {
    if version(facts) < OWN_MOUNTS {
        let (major, minor) = OWN_MOUNTS;
        return Check::warn("kernel", format!("{}, older than {major}.{minor}", facts.kernel))
            .fix(format!("Linux {major}.{minor} or later makes sandboxes faster and stronger"));
    }
    Check::ok("kernel", &facts.kernel)
}

/// Flags without which no plan can be rendered.
const NEEDED: [&str; 6] =
    ["--perms", "--chmod", "--ro-bind-data", "--seccomp", "--die-with-parent", "--cap-drop"];
/// Flags that are good to have.
const WELCOME: [&str; 4] = ["--size", "--bind-fd", "--disable-userns", "--overlay"];

fn bubblewrap(facts: &Facts) -> Check {
    let Found { bwrap, version, help } = match &facts.bwrap {
        Ok(found) => found,
        Err(error) => {
            let check = Check::fail("bubblewrap", error.to_string());
            return check.fix(error.hint().unwrap_or_default());
        }
    };
    let has = |flag: &&str| help.split_whitespace().any(|word| word == *flag);
    let lacks: Vec<_> = NEEDED.into_iter().filter(|flag| !has(flag)).collect();
    let version = version.map_or_else(|| "of no known version".into(), |it| it.to_string());
    let place = format!("{version}, {}", bwrap.path.display());
    if !lacks.is_empty() {
        return Check::fail("bubblewrap", format!("{place}, lacks {}", lacks.join(" ")))
            .fix("update bubblewrap to 0.8.0 or later");
    }
    if bwrap.setuid {
        let text = format!("{place}, is setuid; sandboxes run it without root's rights");
        return Check::warn("bubblewrap", text)
            .fix(format!("nothing here needs the bit: sudo chmod u-s {}", bwrap.path.display()));
    }
    let welcome: Vec<_> = WELCOME.into_iter().filter(has).collect();
    let features =
        if welcome.is_empty() { String::new() } else { format!(", has {}", welcome.join(" ")) };
    Check::ok("bubblewrap", format!("{place}{features}"))
}

fn user_namespaces(facts: &Facts) -> Check {
    let Err(errno) = namespaces::failure(facts) else {
        return Check::ok("user-namespaces", "can be made and mounted in");
    };
    let (cause, remedy) = namespaces::cause(facts, errno);
    let detail = format!("user namespaces cannot be used ({}): {cause}", words(errno));
    if facts.rendering().is_some() {
        let detail = format!("{detail}; bubblewrap may");
        return Check::warn("user-namespaces", detail).fix(remedy);
    }
    Check::fail("user-namespaces", detail).fix(remedy)
}

fn needed(name: &'static str, tried: Tried, works: &str, fails: &str, remedy: &str) -> Check {
    match tried {
        Ok(()) => Check::ok(name, works),
        Err(errno) => Check::fail(name, format!("{fails} ({})", words(errno))).fix(remedy),
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
        "signals reach exactly the command",
        "processes cannot be held by a handle",
        "use Linux 5.3 or later, and a container filter that allows pidfd_open",
    )
}

fn sandbox(facts: &Facts) -> Check {
    let said = |how: Rendering| match how {
        Rendering::Own(Hiding::Overlay) => "own mounts, with an overlay on the home directory",
        Rendering::Own(Hiding::Binds) => "own mounts",
        Rendering::Bubblewrap => "plain bubblewrap",
    };
    let Some((how, trial)) = facts.trials.last() else {
        return Check::fail("sandbox", "none can be made without bubblewrap")
            .fix("see the row of bubblewrap");
    };
    let why = facts.trials.first().and_then(|(_, trial)| match trial {
        Trial::NotPrepared(why) => Some(why.as_str()),
        Trial::Works | Trial::Refused(_) => None,
    });
    match trial {
        Trial::Works => {
            // Inside another sandbox, what that one hides stays hidden.
            let nested = facts.inside && matches!(how, Rendering::Own(_));
            let lost = if nested { Vec::new() } else { limits(*how, facts.root) };
            match why {
                _ if lost.is_empty() => Check::ok("sandbox", said(*how)),
                Some(why) => Check::warn("sandbox", format!("{}, because: {why}", said(*how))),
                None => Check::warn("sandbox", format!("{}, as asked for", said(*how))),
            }
            .limits(lost)
        }
        Trial::NotPrepared(why) | Trial::Refused(why) => {
            let detail = format!("{} does not start: {why}", said(*how));
            Check::fail("sandbox", detail).fix(remedy(facts, why))
        }
    }
}

fn remedy(facts: &Facts, why: &str) -> &'static str {
    match facts.container {
        _ if namespaces::failure(facts).is_err() => "see the row of user namespaces",
        Some(_) if why.contains("mount proc") => {
            "start the container with: --security-opt systempaths=unconfined"
        }
        Some(_) => {
            "start the container with: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        }
        None => "the rows above name what is missing; `agent-sandbox --debug true` shows each step",
    }
}

/// The first kernel with overlays in user namespaces.
const OVERLAY: (u32, u32) = (5, 11);

fn overlay(facts: &Facts) -> Check {
    let Err(errno) = facts.overlay else {
        return Check::ok("overlay", "works in a user namespace; the engine of copy-on-write");
    };
    if namespaces::failure(facts).is_err() {
        return Check::warn("overlay", "needs user namespaces");
    }
    let check = Check::warn("overlay", format!("not in a user namespace ({})", words(errno)));
    if version(facts) < OVERLAY { check.fix("Linux 5.11 or later has it") } else { check }
}

/// Which engine would keep changes apart in this directory.
fn copy_on_write(facts: &Facts) -> Check {
    const NAME: &str = "copy-on-write";
    if facts.inside {
        return Check::ok(NAME, "is up to the outermost sandbox");
    }
    let plain = facts.rendering().is_none_or(|rendering| rendering == Rendering::Bubblewrap);
    match facts.written_overlay {
        Ok(()) if !plain => Check::ok(NAME, "by the engine overlay, in this directory"),
        Ok(()) if facts.fuse.is_ok() => {
            Check::ok(NAME, "by the engine agentfs: bubblewrap alone cannot mount an overlay")
        }
        Err(errno) if facts.fuse.is_ok() => {
            let why = words(errno);
            Check::ok(
                NAME,
                format!(
                    "by the engine agentfs: no overlay can be made over this directory ({why})"
                ),
            )
        }
        Ok(()) => Check::warn(NAME, "bubblewrap alone cannot mount an overlay"),
        Err(errno) => {
            let detail = format!("no overlay can be made over this directory ({})", words(errno));
            Check::warn(NAME, detail).fix(
                "a directory with nothing mounted below it, on a local file system, with `XDG_DATA_HOME` on another one",
            )
        }
    }
}

/// The ABI with scopes, Linux 6.12.
const SCOPES: i64 = 6;

fn landlock(facts: &Facts) -> Check {
    let abi = facts.landlock_abi;
    let limits =
        vec!["abstract sockets of the host can be connected to, unless the network is off"];
    match facts.landlock_scope {
        Ok(()) => Check::ok("landlock", format!("ABI {abi}, with scopes")),
        Err(_) if abi == 0 => Check::warn("landlock", "not in this kernel, or not switched on")
            .fix("Linux 6.12 or later, with `landlock` in the `lsm=` boot parameter")
            .limits(limits),
        Err(_) if abi < SCOPES => {
            Check::warn("landlock", format!("ABI {abi}; scopes need {SCOPES}"))
                .fix("Linux 6.12 or later has it")
                .limits(limits)
        }
        Err(errno) => {
            Check::warn("landlock", format!("ABI {abi}, but no scope ({})", words(errno)))
                .limits(limits)
        }
    }
}

fn replaced_files(facts: &Facts) -> Check {
    match facts.enter {
        Ok(()) => Check::ok("replaced-files", "are protected again while a sandbox runs"),
        Err(errno) => {
            let detail = format!("a sandbox cannot be entered ({})", words(errno));
            Check::warn("replaced-files", detail).limits(vec![
                "a protected file that the host replaces during a run is not protected again",
            ])
        }
    }
}

/// What the engine `agentfs` needs: filesystems in a file, and copies where overlays do not work.
fn fuse(facts: &Facts) -> Check {
    if let Err(errno) = facts.fuse {
        let detail = format!("/dev/fuse: {}; the local sandbox does without", words(errno));
        return Check::warn("fuse", detail)
            .fix("sudo modprobe fuse, or give the container /dev/fuse");
    }
    match (&facts.fuse_helper, facts.fuse_others) {
        _ if facts.root => Check::ok("fuse", "the engine agentfs works; root mounts by itself"),
        (None, _) => Check::warn("fuse", "fusermount3 is not in PATH; only root can mount without")
            .fix("apt install fuse3"),
        (Some(helper), true) => Check::ok(
            "fuse",
            format!("the engine agentfs works, by {}; others can be let in", helper.display()),
        ),
        (Some(helper), false) => Check::ok(
            "fuse",
            format!(
                "the engine agentfs works, by {}; letting others in takes `user_allow_other` in /etc/fuse.conf",
                helper.display()
            ),
        ),
    }
}

fn docker(facts: &Facts) -> Check {
    if let Some(address) = &facts.docker_host {
        return Check::ok("docker", format!("{address}, by the network"));
    }
    match &facts.docker {
        Some((socket, Ok(()))) => answers(&socket.display().to_string(), facts.runc.as_deref()),
        Some((socket, Err(errno))) => {
            let detail =
                format!("{}: {}; only `--docker` needs it", socket.display(), words(*errno));
            Check::warn("docker", detail)
                .fix("start the daemon, or join the group `docker`, which is as good as root")
        }
        None => Check::warn("docker", "no daemon's socket; only `--docker` needs one"),
    }
}

/// An engine, and the runtime under it.
fn answers(socket: &str, runc: Option<&str>) -> Check {
    let Some(version) = runc else { return Check::ok("docker", format!("answers on {socket}")) };
    let detail = format!("answers on {socket}, with runc {version}");
    if engine::is_behind(version) {
        return Check::warn(
            "docker",
            format!("{detail}, in which ways out of containers are known"),
        )
        .fix("update runc to 1.2.8, 1.3.3 or later, unless your distribution has patched it");
    }
    Check::ok("docker", detail)
}

fn git(facts: &Facts) -> Check {
    match &facts.git {
        Some(path) => Check::ok("git", path.display().to_string()),
        None => Check::warn("git", "not in PATH; repositories are protected all the same")
            .fix("apt install git"),
    }
}

fn terminal(facts: &Facts) -> Check {
    let detail = match facts.settings.legacy_tiocsti {
        Some(0) => "the kernel lets nobody type into a terminal (TIOCSTI)",
        _ => "the system call filter lets nobody inside type into a terminal (TIOCSTI)",
    };
    Check::ok("terminal", detail)
}

fn place(facts: &Facts) -> Check {
    let detail = match facts.container {
        _ if facts.inside => "inside a sandbox; sandboxes in it can only be stricter".into(),
        Some(sign) => format!("a container ({sign})"),
        None => "no container".into(),
    };
    Check::ok("place", detail)
}

fn user(facts: &Facts) -> Check {
    let detail = if facts.root {
        "root; commands run without any capability, but root's files that no rule hides can be read"
    } else {
        "an ordinary user"
    };
    Check::ok("user", detail)
}
