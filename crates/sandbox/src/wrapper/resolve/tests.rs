use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use sandbox_policy::config::command_rule::Builtin;
use sandbox_policy::config::{Network, Origin};

/// Machine with a private search path.
struct Machine {
    dir: TempDir,
    host: Host,
    config: Config,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let path =
            std::env::join_paths(["usr/bin", "bin", "file", "missing"].map(|name| root.join(name)));
        fs::write(root.join("file"), "").unwrap();
        let host = Host {
            cwd: Some(root.clone()),
            home: Some(root.join("home")),
            env: [("PATH".into(), path.unwrap()), ("HOME".into(), root.join("home").into())].into(),
            exe: root.join("agent-sandbox"),
            uid: 0,
            gid: 0,
            inside: false,
        };
        let config = config(root.join("project"));
        Self { dir, host, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn file(self, name: &str, text: &str, mode: u32) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn program(self, name: &str) -> Self {
        self.file(name, name, 0o755)
    }

    fn link(self, name: &str, to: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
        self
    }

    fn rule(mut self, name: &str, rule: CommandRule) -> Self {
        self.config.commands.insert(name.into(), Sourced::new(rule, Origin::Default));
        self
    }

    fn resolve(&self) -> Commands {
        resolve_in(&self.host, &self.config, None, None).unwrap()
    }

    fn covered(&self) -> Vec<PathBuf> {
        let covers = self.resolve().covers.into_iter().map(|cover| cover.target);
        covers.filter(|target| target.starts_with(self.path(""))).collect()
    }

    fn files(&self) -> Vec<(RuntimeDir, String, String)> {
        let text = |file: RuntimeFile| String::from_utf8(file.content).unwrap();
        let files = self.resolve().files.into_iter();
        files.map(|file| (file.dir, file.name.clone(), text(file))).collect()
    }

    fn bins(&self) -> Vec<(String, PathBuf)> {
        self.resolve().bins
    }
}

fn config(cwd: PathBuf) -> Config {
    fn by_default<T>(value: T) -> Sourced<T> {
        Sourced::new(value, Origin::Default)
    }
    Config {
        repo: None,
        cwd,
        presets: Vec::new(),
        paths: Vec::new(),
        unruled: Vec::new(),
        commands: BTreeMap::new(),
        network: by_default(Network::On),
        hosts: sandbox_policy::config::Hosts::default(),
        upload_limit: None,
        docker: by_default(false),
        tmp: by_default(Tmp::Private),
        launcher: by_default(Launcher::Binary),
        cow: by_default(sandbox_policy::config::Cow::OFF),
        sockets: Vec::new(),
        mounts: Vec::new(),
        secrets: BTreeMap::new(),
        env: BTreeMap::new(),
        session: sandbox_policy::config::SessionConfig::default(),
        skipped: Vec::new(),
        files: Vec::new(),
        loaded: Vec::new(),
    }
}

use CommandRule::{Block, Raw};
use RuntimeDir::{Presets, Wrappers};
use sandbox_protocol::Hint;

fn script(path: &str) -> CommandRule {
    CommandRule::Script(path.into())
}

fn file(dir: RuntimeDir, name: &str, text: &str) -> (RuntimeDir, String, String) {
    (dir, name.into(), text.into())
}

#[test]
fn resolve_covers_every_program_of_a_name_once() {
    let machine = Machine::new()
        .program("usr/bin/wget")
        .program("bin/wget")
        .link("usr/bin/curl", "../../opt/curl")
        .link("bin/curl", "../opt/curl")
        .program("opt/curl")
        .file("bin/data", "", 0o644)
        .rule("wget", Block)
        .rule("curl", Block)
        .rule("data", Block)
        .rule("absent", Block)
        .rule("ls", Raw);
    let expected = ["bin/wget", "opt/curl", "usr/bin/wget"].map(|name| machine.path(name));
    assert_eq!(machine.covered(), expected);
    assert!(machine.bins().is_empty(), "a refusal needs no program");
    let commands = machine.resolve();
    assert_eq!(commands, machine.resolve(), "resolving is deterministic");
    assert!(commands.files.iter().all(|file| file.content == b"deny\n" && file.dir == Wrappers));
    assert!(commands.covers.iter().all(|cover| cover.how == CoverBy::Launcher));
    let absent = commands.rules.iter().find(|ruled| ruled.name == "absent").unwrap();
    assert!(absent.targets.is_empty());
}

#[test]
fn resolve_marks_the_target_by_name_when_the_rule_names_a_symlink() {
    let machine =
        Machine::new().program("usr/bin/mawk").link("usr/bin/awk", "mawk").rule("awk", Block);
    assert_eq!(
        machine.files(),
        [file(Wrappers, "awk", "deny\n"), file(Wrappers, "mawk", "deny\n")]
    );
    let machine = machine.rule("mawk", Raw);
    assert_eq!(machine.files(), [file(Wrappers, "awk", "deny\n"), file(Presets, "mawk", "raw\n")]);
    assert_eq!(machine.bins(), [("mawk".into(), machine.path("usr/bin/mawk"))]);
}

#[test]
fn resolve_keeps_the_other_names_of_a_multicall_program() {
    let machine =
        Machine::new().program("bin/busybox").link("bin/wget", "busybox").rule("wget", Block);
    let many = file(Presets, "busybox", "multicall applets\n");
    assert_eq!(machine.files(), [file(Wrappers, "wget", "deny\n"), many.clone()]);
    assert_eq!(machine.bins(), [("busybox".into(), machine.path("bin/busybox"))]);
    let machine = machine.rule("busybox", Block);
    let expected = [file(Wrappers, "busybox", "deny\n"), file(Wrappers, "wget", "deny\n"), many];
    assert_eq!(machine.files(), expected);
    assert_eq!(machine.bins(), [("busybox".into(), machine.path("bin/busybox"))]);
}

#[test]
fn resolve_provides_script_and_program_when_a_rule_is_a_script() {
    let machine = Machine::new()
        .program("bin/npm")
        .program("usr/bin/npm")
        .file("project/guard", "#!/bin/sh\nexit 3\n", 0o644)
        .link("home/linked", "../project/guard")
        .rule("npm", script("guard"))
        .rule("npx", script("~/linked"));
    let commands = machine.resolve();
    assert_eq!(commands.files.len(), 2);
    assert!(
        commands.files.iter().all(|file| file.mode == 0o555 && file.content.starts_with(b"#!"))
    );
    assert_eq!(commands.bins, [("npm".into(), machine.path("usr/bin/npm"))]);
    assert_eq!(commands.scripts, [machine.path("home/linked"), machine.path("project/guard")]);
}

#[test]
fn resolve_provides_a_blocked_interpreter_when_a_script_needs_it() {
    for (line, name) in [("#!/nowhere/bash -e\n", "bash"), ("#!/usr/bin/env -S bash -e\n", "bash")]
    {
        let machine = Machine::new()
            .program("bin/bash")
            .program("bin/npm")
            .file("project/guard", line, 0o755)
            .rule(name, Block)
            .rule("npm", script("guard"));
        assert_eq!(machine.bins()[0], (name.into(), machine.path("bin/bash")), "{line}");
    }
}

#[test]
fn resolve_returns_an_error_with_a_hint_when_a_rule_is_invalid() {
    let machine = || Machine::new().file("project/plain", "echo\n", 0o755);
    for (name, rule, expected) in [
        ("npm", script("missing"), "cannot read the wrapper script"),
        ("npm", script("."), "cannot read the wrapper script"),
        ("npm", script("plain"), "does not start with `#!`"),
        ("bin/npm", Block, "invalid command name"),
        ("", Block, "invalid command name"),
        ("@start", Block, "invalid command name"),
        ("npm", CommandRule::Builtin(Builtin::Git), "wraps only `git`"),
    ] {
        let machine = machine().rule(name, rule);
        let error = resolve_in(&machine.host, &machine.config, None, None).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    let mut homeless = machine().rule("npm", script("~/x"));
    homeless.host.home = None;
    let error = resolve_in(&homeless.host, &homeless.config, None, None).unwrap_err();
    assert!(error.to_string().contains("needs a home"), "{error}");
}

#[test]
fn resolve_covers_the_copies_of_git_when_git_is_ruled() {
    let machine = Machine::new()
        .program("usr/bin/git")
        .link("usr/bin/git-upload-pack", "git")
        .program("usr/lib/git-core/git")
        .link("usr/lib/git-core/git-checkout", "git")
        .program("usr/lib/git-core/git-stash")
        .rule("git", CommandRule::Builtin(Builtin::Git));
    fs::hard_link(machine.path("usr/lib/git-core/git"), machine.path("usr/lib/git-core/git-reset"))
        .unwrap();
    let expected = ["usr/bin/git", "usr/lib/git-core/git", "usr/lib/git-core/git-reset"];
    assert_eq!(machine.covered(), expected.map(|name| machine.path(name)));
    assert_eq!(machine.bins(), [("git".into(), machine.path("usr/bin/git"))]);
    let home = machine.path("home");
    let [marker] = &machine.files()[..] else { panic!("one marker") };
    // On most machines the project of this test lies in /tmp, which is not scratch then.
    let scratch = if machine.config.cwd.starts_with("/tmp") { "" } else { "scratch /tmp\n" };
    assert_eq!(
        *marker,
        file(Presets, "git", &format!("git\n{scratch}env HOME={}\n", home.display()))
    );
}

#[test]
fn git_marker_has_scratch_only_when_tmp_is_private_and_the_project_elsewhere() {
    for (cwd, tmp, expected) in [
        ("/home/u/p", Tmp::Private, true),
        ("/tmpfoo", Tmp::Private, true),
        ("/tmp/p", Tmp::Private, false),
        ("/home/u/p", Tmp::Host, false),
    ] {
        let mut machine = Machine::new().rule("git", CommandRule::Builtin(Builtin::Git));
        machine.config.cwd = cwd.into();
        machine.config.tmp.value = tmp;
        assert_eq!(machine.files()[0].2.contains("scratch /tmp\n"), expected, "{cwd} {tmp:?}");
    }
}

#[test]
fn resolve_writes_shims_when_asked_and_possible() {
    let mut machine = Machine::new()
        .program("bin/wget")
        .program("bin/git")
        .rule("wget", Block)
        .rule("git", Block);
    machine.config.launcher.value = Launcher::Shim;
    let shims = |machine: &Machine| -> Vec<CoverBy> {
        let covers = machine.resolve().covers.into_iter();
        covers
            .filter(|cover| cover.target.starts_with(machine.path("")))
            .map(|cover| cover.how)
            .collect()
    };
    let shim = |name: &str| {
        CoverBy::Shim(format!(
            "#!/bin/sh\nexec /run/agent-sandbox/agent-sandbox multicall {name} \"$@\"\n"
        ))
    };
    assert_eq!(shims(&machine), [shim("\"$0\""), shim("wget")]);
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let machine = machine.link("bin/sh", shell.to_str().unwrap()).rule("sh", Block);
    assert_eq!(shims(&machine), [CoverBy::Launcher, CoverBy::Launcher]);
}

#[test]
fn resolve_keeps_the_rules_of_the_outer_sandbox() {
    let launcher = "the launcher";
    let machine = Machine::new()
        .file("agent-sandbox", launcher, 0o755)
        .file("run/agent-sandbox", launcher, 0o755)
        .file("run/presets/git", "git\n", 0o444)
        .file("run/outer/agent-sandbox", launcher, 0o755)
        .file("run/outer/wrappers/wget", "deny\n", 0o444)
        .file("run/presets/busybox", "multicall applets\n", 0o444)
        .file("project/guard", "#!/bin/sh\n", 0o755)
        .program("bin/npm")
        .rule("git", CommandRule::Builtin(Builtin::Git))
        .rule("wget", Raw)
        .rule("nawk", script("guard"))
        .rule("npm", Block)
        .rule("nc", script("guard"));
    for covered in ["bin/git", "bin/wget", "bin/mawk", "bin/busybox"] {
        fs::hard_link(machine.path("agent-sandbox"), machine.path(covered)).unwrap();
    }
    let machine = machine.link("bin/nawk", "mawk").link("bin/nc", "busybox");
    let run = machine.path("run");
    let resolve =
        |machine: &Machine| resolve_in(&machine.host, &machine.config, None, Some(&run)).unwrap();
    let commands = resolve(&machine);
    let ours = |commands: &Commands| -> Vec<PathBuf> {
        let targets = commands.covers.iter().map(|cover| cover.target.clone());
        targets.filter(|target| target.starts_with(machine.path(""))).collect()
    };
    assert_eq!(ours(&commands), [machine.path("bin/npm")]);
    let names: Vec<&str> = commands.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["nc", "npm"]);
    assert_eq!(commands.bins, [("nc".into(), run.join("bin/busybox"))]);
    let kept = |name: &str| commands.rules.iter().any(|ruled| ruled.name == name && ruled.outer);
    assert!(kept("git") && kept("wget") && kept("nawk") && !kept("npm") && !kept("nc"));
    assert!(commands.nested);

    let stricter = Machine {
        config: machine.config.clone(),
        host: machine.host.clone(),
        dir: tempfile::tempdir().unwrap(),
    }
    .rule("git", Block);
    let commands = resolve(&stricter);
    assert_eq!(ours(&commands), [machine.path("bin/npm")]);
    assert!(commands.files.iter().any(|file| file.name == "git" && file.content == b"deny\n"));
}
