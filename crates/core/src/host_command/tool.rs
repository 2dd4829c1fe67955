//! Tools that do more than their names say, and what is made of them.
//!
//! A prefix of words is a weak fence around a program that runs whatever its options name. So known tools get rules of
//! their own: options that never pass, subcommands that must be listed by name, and programs that must be accepted
//! knowingly. A tool that is not known here gets none; [`warnings`] says what the known ones mean.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::entry::{Entry, matches};

/// What a tool is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It belongs to this product: a sandbox does not command its own host.
    Own,
    /// It runs another program, the one its words name.
    Runs,
    /// It runs code that its arguments or its input hold.
    Interprets,
    /// It can take over the machine or its data.
    Rules,
    /// It is fit for this as long as some options stay away.
    Options,
}

/// A known tool.
#[derive(Debug)]
pub(super) struct Tool {
    names: &'static [&'static str],
    pub(super) kind: Kind,
    /// Patterns of words that do not pass.
    pub(super) deny: &'static [&'static str],
    /// Subcommands that pass although the entry does not name them; empty when there are no subcommands.
    pub(super) harmless: &'static [&'static str],
}

const fn tool(kind: Kind, names: &'static [&'static str], deny: &'static [&'static str]) -> Tool {
    Tool { names, kind, deny, harmless: &[] }
}

#[rustfmt::skip]
const DOCKER: &[&str] = &["ps", "images", "logs", "version", "info", "stats", "top", "port", "events", "inspect"];
#[rustfmt::skip]
const SYSTEMCTL: &[&str] = &[
    "status", "is-active", "is-enabled", "is-failed", "show", "list-units", "list-timers", "list-sockets",
    "list-unit-files", "list-dependencies",
];
const KUBECTL: &[&str] = &["get", "describe", "logs", "version", "top", "explain"];

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    tool(Kind::Own, &["agent-sandbox", "agent-sandbox-init", "agent-sandbox-shell", "agentfs", "miclaw-cmd-wrapper"], &[]),
    tool(Kind::Runs, &[
        "sudo", "doas", "su", "runuser", "setpriv", "env", "xargs", "parallel", "nice", "ionice", "nohup", "timeout",
        "time", "stdbuf", "setsid", "chroot", "unshare", "nsenter", "flock", "watch", "strace", "ltrace", "gdb",
        "systemd-run", "script", "expect", "entr", "busybox", "toybox", "command", "exec", "at", "batch", "chrt", "taskset",
    ], &[]),
    tool(Kind::Interprets, &[
        "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "python", "python2", "python3", "perl", "ruby",
        "sed", "node", "nodejs", "deno", "bun", "php", "lua", "awk", "gawk", "mawk", "nawk", "tclsh", "sqlite3", "vi", "vim",
        "nvim", "emacs", "nano", "ed", "ex", "less", "more", "man", "make", "gmake", "ninja", "cmake", "npm", "npx",
        "yarn", "pnpm", "pip", "pip3", "cargo", "go", "gradle", "mvn", "ansible", "ansible-playbook", "crontab", "dc", "bc",
        "gcc", "cc", "ld", "jshell", "irb", "psql", "mysql", "tmux", "screen",
    ], &[]),
    tool(Kind::Rules, &["mount", "umount", "dd", "tee", "cp", "mv", "ln", "install", "chmod", "chown", "useradd", "usermod",
        "passwd", "visudo", "apt", "apt-get", "dpkg", "dnf", "yum", "rpm", "snap", "iptables", "nft", "insmod", "modprobe",
        "ssh-keygen", "ssh-add", "ssh-copy-id", "socat", "nc", "ncat", "netcat", "openssl", "virsh", "lxc", "ctr", "nerdctl",
    ], &[]),
    tool(Kind::Options, &["git"], &[]),
    Tool { names: &["docker", "podman"], kind: Kind::Options, deny: &[], harmless: DOCKER },
    Tool {
        names: &["systemctl"], kind: Kind::Options, harmless: SYSTEMCTL,
        deny: &["-H*", "--host*", "-M*", "--machine*", "--root*", "--image*"],
    },
    Tool { names: &["kubectl"], kind: Kind::Options, harmless: KUBECTL, deny: &["--kubeconfig*", "--raw*", "-f*", "--filename*"] },
    tool(Kind::Options, &["journalctl"], &["--file*", "-D*", "--directory*", "--root*", "--image*", "--vacuum*", "--rotate", "--flush",
        "--cursor-file*", "-M*", "--machine*", "-i*"]),
    tool(Kind::Options, &["find"], &["-exec*", "-ok*", "-delete", "-fprint*", "-fls", "-files0-from"]),
    tool(Kind::Options, &["fd", "fdfind"], &["-x*", "-X*", "--exec*"]),
    tool(Kind::Options, &["rg"], &["--pre*", "--hostname-bin*", "-z", "--search-zip"]),
    tool(Kind::Options, &["sort"], &["--compress-program*", "--compress*", "-o*", "--output*", "-T*", "--files0-from*"]),
    tool(Kind::Options, &["tar", "bsdtar"], &["-*I*", "--use*", "--to-c*", "--checkpoint*", "-*F*", "--info*", "--new-v*",
        "--rsh*", "--rmt*", "-P*", "--absolute*"]),
    tool(Kind::Options, &["rsync"], &["-*e*", "--rsh*", "--rsync-path*", "-M*", "--remote-option*"]),
    tool(Kind::Options, &["ssh", "scp", "sftp"], &["-*"]),
    tool(Kind::Options, &["curl"], &["-K*", "--config*", "-o*", "-O*", "--output*", "-T*", "--upload*", "-d@*", "*@*", "--libcurl*",
        "-D*", "--dump*", "-c*", "--cookie*", "--trace*", "--engine*", "--unix*", "--abstract*", "file:*"]),
    tool(Kind::Options, &["wget"], &["-O*", "--output*", "-P*", "--directory*", "--use-askpass*", "-e*", "--execute*", "-i*", "--input*",
        "--post-file*", "--body-file*", "-o*", "-a*", "--append*", "--config*"]),
    tool(Kind::Options, &["zip"], &["-TT*", "-T*", "--unzip*", "-*T*"]),
    tool(Kind::Options, &["ip"], &["netns", "-b*", "-ba*", "--batch*", "-batch*", "exec"]),
    tool(Kind::Options, &["tcpdump"], &["-z*", "-w*", "-F*", "-r*"]),
    tool(Kind::Options, &["date"], &["-f*", "--file*", "-s*", "--set*"]),
];

/// What is known of a program.
pub(super) fn known(program: &OsStr) -> Option<&'static Tool> {
    let name = Path::new(program).file_name()?.to_str()?;
    // `python3.11` is python3 in another version.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is = |known: &str| known == name || (plain.len() > 1 && plain != name && known == plain);
    TOOLS.iter().find(|tool| tool.names.iter().any(|known| is(known)))
}

impl Tool {
    /// Why an entry of this tool lets nothing through, if it does not.
    pub(super) fn unfit(&self, words: &[String]) -> Option<&'static str> {
        // `bash -c` and `python3 -m` leave the choice of the code to what follows.
        let open = words.len() == 1 || words.last().is_some_and(|word| word.starts_with('-'));
        match self.kind {
            Kind::Own => Some("a sandbox does not command its own host"),
            Kind::Runs if open => Some("it runs any program that it is told to"),
            Kind::Interprets if open => Some("it runs any code that it is given"),
            Kind::Rules if open => Some("it can change any file or setting of the host"),
            _ => None,
        }
    }

    /// Why one of the words after the program's name does not pass, if it does not.
    pub(super) fn refusal(
        &self,
        entry: &[String],
        args: &[OsString],
    ) -> Option<(OsString, &'static str)> {
        let own = entry.len().saturating_sub(1).min(args.len());
        if let Some((_, word)) =
            args.iter().enumerate().skip(own).find(|(at, word)| self.denies(*at, word))
        {
            return Some((word.clone(), "the tool runs programs or touches files by it"));
        }
        if self.harmless.is_empty() || own > 0 {
            return None;
        }
        let sub = args.first()?;
        if sub.as_bytes().starts_with(b"-") {
            return Some((sub.clone(), "options before the subcommand do not pass"));
        }
        let harmless = self.harmless.iter().any(|name| sub == *name);
        (!harmless).then(|| (sub.clone(), "this subcommand must be listed by name"))
    }
}

impl Tool {
    fn denies(&self, at: usize, word: &OsStr) -> bool {
        // `tar xIf` is `tar -xIf`.
        let dashed = OsStr::from_bytes(&[b"-", word.as_bytes()].concat()).to_owned();
        let old_style =
            at == 0 && self.names.contains(&"tar") && !word.as_bytes().starts_with(b"-");
        let word = if old_style { &dashed } else { word };
        let long = word.as_bytes().starts_with(b"--");
        self.deny.iter().any(|pattern| {
            // `-*I*` is a letter in a bundle; long options are none.
            let bundle = pattern.starts_with("-*") && pattern.len() > 2;
            !(bundle && long) && matches(pattern, word)
        })
    }
}

/// Something to know about an entry before it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The entry.
    pub entry: String,
    /// What it means.
    pub what: String,
}

/// What the entries of a list mean that is easily missed.
pub fn warnings(entries: &[Entry]) -> Vec<Warning> {
    entries.iter().flat_map(|entry| of_entry(entry, &entry.words)).collect()
}

fn of_entry(entry: &Entry, words: &[String]) -> Vec<Warning> {
    let Some(tool) = words.first().and_then(|name| known(OsStr::new(name))) else {
        return Vec::new();
    };
    let name = &words[0];
    let what = match tool.unfit(words) {
        Some(why) if tool.kind == Kind::Own => format!("is always refused: {why}"),
        Some(why) if entry.risk_accepted => format!("gives the host away: {why}"),
        Some(why) => format!(
            "lets nothing through: {why}; name what it runs, or write `risk = \"accepted\"`"
        ),
        None => match (tool.kind, name.as_str()) {
            (Kind::Runs, _) => return of_entry(entry, &words[1..]),
            (Kind::Interprets, _) => {
                "runs code from files that the agent may be able to write".into()
            }
            (Kind::Rules, _) => "can change files and settings of the host".into(),
            (_, "git") => return git(entry, words),
            (_, "docker" | "podman")
                if words.get(1).is_some_and(|sub| !tool.harmless.contains(&sub.as_str())) =>
            {
                "is as good as root: containers can mount the whole host".into()
            }
            (_, "ssh" | "scp" | "sftp" | "rsync") => {
                "reaches other machines with the host's keys".into()
            }
            _ => return Vec::new(),
        },
    };
    vec![Warning { entry: entry.text(), what }]
}

fn git(entry: &Entry, words: &[String]) -> Vec<Warning> {
    let what = match words.get(1).map(String::as_str) {
        None => {
            "allows every git command that destroys nothing and runs nothing else; list the ones you need"
        }
        Some("push" | "fetch" | "pull" | "clone" | "ls-remote") => {
            "reaches other machines with the host's credentials"
        }
        Some("add" | "commit" | "checkout" | "switch" | "merge" | "stash") => {
            "writes to the repository that it is called in, on the host"
        }
        Some(_) => return Vec::new(),
    };
    vec![Warning { entry: entry.text(), what: what.into() }]
}
