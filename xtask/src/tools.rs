//! Tools and data that do not come as packages: components of the toolchain, released crates, SDKs, agents, images.
//! Each is fetched once, below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{as_root, output, quietly, succeeds, temporary};
use crate::made::Thing;
use crate::say::{Context, Failure, Outcome, say};
use crate::workspace::Workspace;

/// Tests of POSIX conformance: a released crate.
const PJDFSTEST: &str = "0.2.2";
/// Version of AgentFS's SDKs.
const AGENTFS: &str = "0.6.4";
/// Version of the tool that generates requests from the description of the API.
pub(crate) const SCHEMATHESIS: &str = "4.32.5";

/// Agents by program and package, as their makers publish them.
const AGENTS: [(&str, &str); 5] = [
    ("claude", "@anthropic-ai/claude-code"),
    ("codex", "@openai/codex"),
    ("opencode", "opencode-ai"),
    ("gemini", "@google/gemini-cli"),
    ("pi", "@mariozechner/pi-coding-agent"),
];

/// Installs what the commands of `./dev` need besides packages.
pub(crate) fn setup(workspace: &Workspace) -> Outcome {
    components()?;
    pjdfstest(workspace)?;
    say("everything is installed");
    Ok(())
}

/// Installs rustfmt and clippy, where they are missing.
pub(crate) fn components() -> Outcome {
    for (component, command) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !succeeds(Command::new("cargo").args([command, "--version"])) {
            quietly(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}

pub(crate) fn pjdfstest(workspace: &Workspace) -> Outcome {
    let tools = workspace.out.join("tools");
    let installed = Command::new(tools.join("bin/pjdfstest")).arg("--version").output();
    if installed.is_ok_and(|said| said.stdout == format!("pjdfstest {PJDFSTEST}\n").as_bytes()) {
        return Ok(());
    }
    say(format_args!("installing pjdfstest {PJDFSTEST} into {}", tools.display()));
    let mut install = Command::new("cargo");
    install
        .args(["install", "--locked", "--version", PJDFSTEST, "pjdfstest", "--root"])
        .arg(&tools);
    quietly(&mut install)
}

/// Compiles the bare mechanism that our own FUSE filesystem is compared with, and returns its directory.
pub(crate) fn bare_fuse(workspace: &Workspace) -> Result<PathBuf, Failure> {
    const SOURCE: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";
    let folder = workspace.out.join("tools/bin");
    let program = folder.join("passthrough_ll");
    if !program.is_file() {
        fs::create_dir_all(&folder).context(format_args!("create {}", folder.display()))?;
        let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", "fuse3"]))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-o"]).arg(&program).arg(SOURCE).args(flags.split_whitespace());
        quietly(&mut compiler)?;
    }
    Ok(folder)
}

/// Installs libraries of others that must work with ours: AgentFS's and the model providers'.
pub(crate) fn sdk(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let folder = workspace.out.join("sdk");
    let mark = folder.join(format!("agentfs-{AGENTFS}+providers"));
    if !mark.is_file() {
        say(format_args!("installing SDKs into {}", folder.display()));
        let agentfs = format!("agentfs-sdk=={AGENTFS}");
        from_index(pip(&folder.join("python")).args([&agentfs, "anthropic", "openai"]))?;
        let agentfs = format!("agentfs-sdk@{AGENTFS}");
        from_index(npm(&folder).args([&agentfs, "@anthropic-ai/sdk", "openai"]))?;
        fs::write(&mark, "").context(format_args!("write {}", mark.display()))?;
    }
    Ok(folder)
}

fn pip(folder: &Path) -> Command {
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(folder);
    pip
}

fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-fund", "--no-audit", "--prefix"]).arg(folder);
    npm
}

fn from_index(command: &mut Command) -> Outcome {
    let hint =
        "the tests need PyPI and npm, or mirrors of them that pip and npm are configured for";
    quietly(command).map_err(|failure| failure.hint(hint))
}

pub(crate) fn schemathesis(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let folder = workspace.out.join(format!("schemathesis-{SCHEMATHESIS}"));
    if !folder.join("bin/schemathesis").is_file() {
        say(format_args!("installing Schemathesis into {}", folder.display()));
        from_index(pip(&folder).arg(format!("schemathesis=={SCHEMATHESIS}")))?;
    }
    Ok(folder)
}

pub(crate) fn agents(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let folder = workspace.out.join("agents");
    let programs = folder.join("node_modules/.bin");
    if !AGENTS.iter().all(|(program, _)| programs.join(program).exists_now()) {
        say(format_args!("installing agents into {}", folder.display()));
        quietly(npm(&folder).args(AGENTS.map(|(_, package)| package)))?;
    }
    Ok(folder)
}

/// Shorthand for a file that can be reached through links.
trait ExistsNow {
    fn exists_now(&self) -> bool;
}

impl ExistsNow for Path {
    fn exists_now(&self) -> bool {
        self.try_exists().unwrap_or(false)
    }
}

/// Unpacks a base image without a registry, and returns its archive. As in Debian's own image, dpkg does not wait for the
/// disk and unpacks no documentation.
pub(crate) fn debian(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let archive = workspace.out.join("debian.tar");
    if archive.is_file() {
        return Ok(archive);
    }
    say(format_args!("unpacking a small Debian into {}", archive.display()));
    fs::create_dir_all(&workspace.out)
        .context(format_args!("create {}", workspace.out.display()))?;
    let folder = temporary("/var/tmp/as-debian.XXXXXX")?;
    let record = workspace.made.record(&Thing::Folder(folder.clone()))?;
    let (root, new) = (folder.join("root"), workspace.out.join("debian.tar.new"));
    let mut debootstrap = as_root("debootstrap");
    debootstrap
        .args(["--variant=minbase", "bookworm"])
        .arg(&root)
        .arg("http://deb.debian.org/debian");
    quietly(&mut debootstrap)?;
    let script = r#"printf '%s\n' force-unsafe-io path-exclude=/usr/share/doc/* path-exclude=/usr/share/man/* \
            path-exclude=/usr/share/locale/* >"$1/etc/dpkg/dpkg.cfg.d/lean"
        rm -rf "$1/var/cache/apt/archives" "$1/var/lib/apt/lists"
        tar --create --file "$2" --directory "$1" .
        rm -rf "$1""#;
    quietly(as_root("sh").args(["-euc", script, "sh"]).args([&root, &new]))?;
    fs::rename(&new, &archive).context(format_args!("rename {}", new.display()))?;
    record.undo()?;
    Ok(archive)
}

/// Fetches Debian's kernel for virtual machines.
pub(crate) fn kernel(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let folder = workspace.out.join("kernel");
    let find = || {
        let entries = fs::read_dir(folder.join("boot")).ok()?;
        let is_kernel = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        };
        entries.flatten().map(|entry| entry.path()).find(is_kernel)
    };
    if let Some(kernel) = find() {
        return Ok(kernel);
    }
    let depends = output(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let package = depends.lines().find_map(|line| {
        line.split("Depends: ").nth(1).filter(|name| name.starts_with("linux-image-"))
    });
    let package =
        package.ok_or_else(|| Failure::new("apt does not know linux-image-cloud-amd64"))?;
    say(format_args!("fetching {package} into {}", folder.display()));
    let scratch = workspace.made.scratch("kernel");
    fs::create_dir_all(&scratch).context(format_args!("create {}", scratch.display()))?;
    quietly(Command::new("apt-get").args(["download", package]).current_dir(&scratch))?;
    quietly(
        Command::new("sh")
            .args(["-c", r#"dpkg -x ./*.deb "$1""#, "sh"])
            .arg(&folder)
            .current_dir(&scratch),
    )?;
    find().ok_or_else(|| Failure::new(format!("there is no kernel in {package}")))
}
