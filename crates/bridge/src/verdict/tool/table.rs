//! Table of known tools.

use super::{Kind, Tool, tool};

#[rustfmt::skip]
const DOCKER: &[&str] = &["ps", "images", "logs", "version", "info", "stats", "top", "port", "events", "inspect"];
#[rustfmt::skip]
const SYSTEMCTL: &[&str] = &[
    "status", "is-active", "is-enabled", "is-failed", "show", "list-units", "list-timers", "list-sockets",
    "list-unit-files", "list-dependencies",
];
const KUBECTL: &[&str] = &["get", "describe", "logs", "version", "top", "explain"];

/// Patterns: `-*I*` is the letter in a bundle of short options, `--name*` a long option or its abbreviation.
#[rustfmt::skip]
pub(super) static TOOLS: &[Tool] = &[
    tool(Kind::Own, &["agent-sandbox", "agent-sandbox-init", "agent-sandbox-shell", "agentfs", "miclaw-cmd-wrapper"], &[]),
    tool(Kind::Runs, &[
        "sudo", "doas", "setpriv", "env", "nice", "ionice", "nohup", "timeout", "time", "stdbuf", "setsid", "chroot", "unshare",
        "nsenter", "flock", "strace", "ltrace", "systemd-run", "busybox", "toybox", "command", "exec", "chrt", "taskset",
        "pkexec", "run0", "fakeroot", "proot", "bwrap", "firejail", "prlimit", "numactl", "setarch", "choom", "cpulimit",
        "faketime", "unbuffer", "rlwrap", "dbus-run-session", "ssh-agent", "start-stop-daemon", "capsh", "torsocks",
        "proxychains", "valgrind", "perf", "hyperfine",
    ], &[]),
    tool(Kind::Obeys, &[
        "xargs", "parallel", "watch", "su", "runuser", "sg", "script", "expect", "entr", "at", "batch", "gdb", "gdbserver",
        "run-parts", "watchexec", "nodemon", "eval", "source",
    ], &[]),
    tool(Kind::Interprets, &[
        "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "python", "python2", "python3", "perl", "ruby",
        "sed", "node", "nodejs", "deno", "bun", "php", "lua", "awk", "gawk", "mawk", "nawk", "tclsh", "wish", "sqlite3", "vi",
        "vim", "nvim", "view", "vimdiff", "emacs", "nano", "ed", "ex", "less", "more", "most", "man", "info", "bat", "batcat",
        "make", "gmake", "ninja", "cmake", "meson", "just", "rake", "bazel", "npm", "npx", "yarn", "pnpm", "tsx", "ts-node",
        "pip", "pip3", "pipx", "uv", "uvx", "poetry", "conda", "tox", "nox", "pytest", "pre-commit", "bundle", "gem",
        "composer", "cargo", "rustc", "go", "gradle", "mvn", "java", "javac", "scala", "dotnet", "swift", "julia", "Rscript",
        "octave", "guile", "ghc", "runghc", "erl", "elixir", "iex", "ansible", "ansible-playbook", "terraform", "tofu", "helm",
        "nix", "nix-build", "nix-shell", "crontab", "dc", "bc", "m4", "gcc", "cc", "clang", "ld", "jshell", "irb", "psql",
        "mysql", "tmux", "screen", "hg", "jj", "mail", "mailx", "mutt", "ftp", "telnet", "gs", "latex", "pdflatex", "nmap",
    ], &[]),
    tool(Kind::Rules, &["mount", "umount", "dd", "tee", "cp", "mv", "ln", "rm", "install", "chmod", "chown", "chattr", "setfacl",
        "setcap", "patch", "truncate", "shred", "useradd", "usermod", "groupadd", "passwd", "chpasswd", "visudo", "apt",
        "apt-get", "dpkg", "dnf", "yum", "rpm", "snap", "pacman", "apk", "zypper", "flatpak", "iptables", "nft", "ufw",
        "sysctl", "insmod", "modprobe", "losetup", "ssh-keygen", "ssh-add", "ssh-copy-id", "socat", "nc", "ncat", "netcat",
        "openssl", "gpg", "virsh", "lxc", "ctr", "nerdctl", "runc", "crictl", "machinectl", "reboot", "shutdown", "unzip",
        "cpio", "7z", "7za", "ar",
    ], &[]),
    // Archives and transfers follow symlinks in the shared directory in both directions.
    tool(Kind::Rules, &["tar", "bsdtar"], &["-*I*", "--use-compress-program*", "--to-command*", "--checkpoint*", "-*F*",
        "--info-script*", "--new-volume-script*", "--rsh-command*", "--rmt-command*", "-*P*", "--absolute-names*", "*:*"]),
    tool(Kind::Rules, &["zip"], &["-*T*", "--test*", "--unzip-command*"]),
    tool(Kind::Rules, &["rsync"], &["-*e*", "--rsh*", "--rsync-path*", "-*M*", "--remote-option*", "--daemon*", "--config*"]),
    tool(Kind::Rules, &["curl"], &["-*K*", "--config*", "-*o*", "-*O*", "--output*", "--remote-*", "-*T*", "--upload*", "*@*",
        "*=<*", "*%output*", "--libcurl*", "-*D*", "--dump*", "-*b*", "-*c*", "--cookie*", "--trace*", "--stderr*", "--etag*",
        "--hsts*", "--alt-svc*", "--engine*", "--unix*", "--abstract*", "file:*"]),
    tool(Kind::Rules, &["wget"], &["-*O*", "--output*", "-*P*", "--directory*", "--use-askpass*", "-*e*", "--execute*", "-*i*",
        "--input*", "--post-file*", "--body-file*", "-*o*", "-*a*", "--append*", "--config*", "--save*", "--load*", "--warc*",
        "--hsts*", "--rejected*"]),
    tool(Kind::Options, &["git"], &[]),
    Tool { names: &["docker"], kind: Kind::Options, deny: &[], harmless: DOCKER },
    // Podman also accepts its global options after the subcommand.
    Tool {
        names: &["podman"], kind: Kind::Options, harmless: DOCKER,
        deny: &["--runtime*", "--conmon*", "--hooks-dir*", "--module*", "--url*", "--connection*", "--remote", "--identity*",
            "--storage*", "--root*", "--runroot*", "--imagestore*", "--config*", "--tmpdir*", "--network-*", "--volumepath*"],
    },
    Tool {
        names: &["systemctl"], kind: Kind::Options, harmless: SYSTEMCTL,
        deny: &["-*H*", "--host*", "-*M*", "--machine*", "--root*", "--image*"],
    },
    Tool {
        names: &["kubectl"], kind: Kind::Options, harmless: KUBECTL,
        deny: &["--kubeconfig*", "--raw*", "-*f*", "--filename*", "-*k*", "--kustomize*", "-*s*", "--server*", "--token*", "--as*",
            "--user*", "--context*", "--cluster*", "--insecure*", "--tls*", "--certificate*", "--client*", "--cache-dir*",
            "--profile*", "*file=*"],
    },
    tool(Kind::Options, &["journalctl"], &["--file*", "-*D*", "--directory*", "--root*", "--image*", "--vacuum*", "--rotate", "--flush",
        "--sync", "--cursor-file*", "-*M*", "--machine*", "-*i*", "--setup-keys", "--update-catalog"]),
    tool(Kind::Options, &["find"], &["-exec*", "-ok*", "-delete", "-fprint*", "-fls", "-files0-from"]),
    tool(Kind::Options, &["fd", "fdfind"], &["-*x*", "-*X*", "--exec*"]),
    tool(Kind::Options, &["rg"], &["--pre", "--hostname-bin*", "-*z*", "--search-zip"]),
    tool(Kind::Options, &["sort"], &["--compress-program*", "-*o*", "--output*", "-*T*", "--temporary-directory*", "--files0-from*"]),
    tool(Kind::Options, &["split"], &["--filter*"]),
    tool(Kind::Options, &["sdiff", "diff3"], &["--diff-program*", "-*o*", "--output*"]),
    tool(Kind::Options, &["svn"], &["--config*", "--editor-cmd*", "--diff-cmd*", "--diff3-cmd*", "-*F*", "--file*"]),
    tool(Kind::Options, &["ssh", "scp", "sftp"], &["-*"]),
    tool(Kind::Options, &["ip"], &["netn*", "vr*", "ex*", "-b", "-ba*", "--b*"]),
    tool(Kind::Options, &["tcpdump"], &["-*z*", "-*w*", "-*F*", "-*r*", "-*V*"]),
    tool(Kind::Options, &["date"], &["-*f*", "--file*", "-*s*", "--set*"]),
];
