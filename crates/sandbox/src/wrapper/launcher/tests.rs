use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

struct Runtime(TempDir);

impl Runtime {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap()).file("agent-sandbox", "")
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn launch(&self, line: &str, exe: &str) -> Option<Launch> {
        let words: Vec<OsString> = line
            .replace("RUN", &self.0.path().to_string_lossy())
            .split(' ')
            .map(OsString::from)
            .collect();
        Launcher { runtime: self.0.path() }.intercept(&words, Some(Path::new(exe)))
    }

    /// Returns the program below the runtime with its name and arguments, `itself`, or the first line of the message.
    fn outcome(&self, line: &str, exe: &str) -> String {
        let Some(launch) = self.launch(line, exe) else { return runs("itself") };
        match launch {
            Launch::Exec(exec) => {
                let program =
                    exec.program.strip_prefix(self.0.path()).unwrap().display().to_string();
                let words = [exec.argv0].into_iter().chain(exec.args);
                let words: Vec<String> =
                    words.map(|word| word.to_string_lossy().into_owned()).collect();
                format!("{program}: {}", words.join(" "))
            }
            Launch::Refuse(refusal) => refusal.message.lines().next().unwrap().to_owned(),
            Launch::Internal { name, rest } => format!("{name:?} {rest:?}"),
        }
    }
}

fn blocked(name: &str) -> String {
    format!("agent-sandbox: command '{name}' is blocked")
}

fn runs(text: &str) -> String {
    text.to_owned()
}

#[test]
fn dispatch_uses_the_rule_of_the_name_and_then_of_the_file() {
    let run = Runtime::new()
        .file("wrappers/wget", "deny\n")
        .file("wrappers/mawk", "deny\n")
        .file("wrappers/npm", "#!/bin/sh\n")
        .file("bin/npm", "")
        .file("presets/nawk", "raw\n")
        .file("outer/agent-sandbox", "")
        .file("outer/wrappers/curl", "deny\n");
    for (line, exe, expected) in [
        ("wget x", "/usr/bin/wget", blocked("wget")),
        ("/usr/bin/wget x", "/usr/bin/wget", blocked("wget")),
        ("other", "/usr/bin/wget", blocked("wget")),
        ("gawk 1", "/usr/bin/mawk", blocked("mawk")),
        ("nawk 1", "/usr/bin/mawk", runs("bin/nawk: nawk 1")),
        ("curl", "/usr/bin/curl", blocked("curl")),
        ("./npm ci", "/usr/bin/npm", runs("wrappers/npm: ./npm ci")),
        ("agent-sandbox wget", "/usr/bin/agent-sandbox", runs("itself")),
        ("asb wget", "/opt/asb", runs("itself")),
        ("wget", RUNTIME_BINARY, blocked("wget")),
        ("agent-sandbox multicall wget x", "/x/agent-sandbox", blocked("wget")),
        ("agent-sandbox multicall npm x", RUNTIME_BINARY, runs("wrappers/npm: npm x")),
        ("wget multicall npm", "/usr/bin/wget", blocked("wget")),
        ("agent-sandbox multicall @start 3", RUNTIME_BINARY, runs(r#""@start" ["3"]"#)),
    ] {
        assert_eq!(run.outcome(line, exe), expected, "{line} {exe}");
    }
    for line in ["agent-sandbox multicall", "agent-sandbox multicall ls"] {
        let Some(Launch::Refuse(refusal)) = run.launch(line, RUNTIME_BINARY) else {
            panic!("{line}")
        };
        assert_eq!(refusal.code.code(), 125, "{line}");
    }
    assert_eq!(Launcher { runtime: run.0.path() }.intercept(&[], None), None);
}

#[test]
fn scripts_get_their_command_and_the_real_program_as_variables() {
    let run =
        Runtime::new().file("wrappers/npm", "#!/bin/sh\n").file("wrappers/npx", "#!/bin/sh\n");
    let run = run.file("bin/npm", "");
    for (name, real) in [("npm", run.path("bin/npm").into_os_string()), ("npx", OsString::new())] {
        let Some(Launch::Exec(exec)) = run.launch(name, "/x") else { panic!("{name} runs") };
        let expected = [("AGENT_SANDBOX_CMD", name.into()), ("AGENT_SANDBOX_REAL", real)];
        assert_eq!(exec.env[..2], expected);
        let own = exec.env.iter().map(|(key, value)| (OsString::from(key), value.clone()));
        assert!(is_replaced_by(OsStr::new(name), own.clone()), "`exec {name}` in the script");
        assert!(!is_replaced_by(OsStr::new("other"), own.clone()));
        assert!(!is_replaced_by(OsStr::new(name), own.take(2)), "another process");
    }
}

#[test]
fn multicall_programs_keep_their_other_names() {
    let run = Runtime::new()
        .file("presets/busybox", "multicall applets\n")
        .file("presets/systemctl", "multicall\n")
        .file("wrappers/wget", "deny\n")
        .file("wrappers/toybox", "deny\n")
        .file("presets/toybox", "multicall applets\n");
    for (line, exe, expected) in [
        ("ls -l", "/bin/busybox", runs("bin/busybox: ls -l")),
        ("/bin/busybox ls", "/bin/busybox", runs("bin/busybox: /bin/busybox ls")),
        ("busybox wget x", "/bin/busybox", blocked("wget")),
        ("busybox --coreutils-prog=wget", "/bin/busybox", blocked("wget")),
        ("busybox", "/bin/busybox", runs("bin/busybox: busybox")),
        ("busybox busybox wget", "/bin/busybox", blocked("wget")),
        ("busybox busybox ls", "/bin/busybox", runs("bin/busybox: busybox busybox ls")),
        ("ls wget", "/bin/busybox", runs("bin/busybox: ls wget")),
        ("systemctl wget", "/bin/systemctl", runs("bin/systemctl: systemctl wget")),
        ("toybox ls", "/bin/toybox", blocked("toybox")),
        ("ls", "/bin/toybox", runs("bin/toybox: ls")),
    ] {
        assert_eq!(run.outcome(line, exe), expected, "{line}");
    }
}

#[test]
fn interpreters_run_wrapper_scripts_even_when_they_are_blocked() {
    let run = Runtime::new()
        .file("wrappers/sh", "deny\n")
        .file("bin/sh", "")
        .file("wrappers/env", "#!/usr/bin/env bash\n")
        .file("bin/env", "")
        .file("wrappers/npm", "#!/bin/sh -e\n")
        .file("wrappers/dash", "deny\n");
    for (line, expected) in [
        ("/bin/sh RUN/wrappers/npm x", "bin/sh: /bin/sh RUN/wrappers/npm x"),
        ("/bin/sh -e RUN/wrappers/npm", "bin/sh: /bin/sh -e RUN/wrappers/npm"),
        ("/usr/bin/env bash RUN/wrappers/env", "bin/env: /usr/bin/env bash RUN/wrappers/env"),
        ("env A=b", "wrappers/env: env A=b"),
    ] {
        let expected = expected.replace("RUN", &run.0.path().to_string_lossy());
        assert_eq!(run.outcome(line, "/x"), expected, "{line}");
    }
    for line in [
        "sh -c id",
        "sh evil.sh RUN/wrappers/npm",
        "sh -c id RUN/wrappers/npm",
        "sh RUN/wrappers/../../evil/wrappers/x",
        "sh /tmp/wrappers/npm",
    ] {
        assert_eq!(run.outcome(line, "/x"), blocked("sh"), "{line}");
    }
    assert_eq!(
        run.outcome("dash RUN/wrappers/npm", "/x"),
        blocked("dash"),
        "there is no program to run it"
    );
}

#[test]
fn git_is_judged_under_all_its_names() {
    let run = Runtime::new().file("presets/git", "git\n");
    let refused = |what: &str| {
        format!("agent-sandbox: `{what}` is blocked: it throws away changes that are not committed")
    };
    for (line, exe, expected) in [
        ("git status", "/usr/bin/git", runs("bin/git: git status")),
        ("git reset --hard", "/usr/bin/git", refused("git reset --hard")),
        ("git-reset --hard", "/usr/lib/git-core/git-reset", refused("git reset --hard")),
        ("git-upload-pack .", "/usr/bin/git", runs("bin/git: git-upload-pack .")),
        ("agent-sandbox multicall git checkout .", RUNTIME_BINARY, refused("git checkout")),
    ] {
        assert_eq!(run.outcome(line, exe), expected, "{line}");
    }
}

#[test]
fn multicall_ends_with_125_when_there_is_no_sandbox() {
    let nowhere = tempfile::tempdir().unwrap();
    let launcher = Launcher { runtime: nowhere.path() };
    let words = ["agent-sandbox", "multicall", "git"].map(OsString::from);
    let Some(Launch::Refuse(refusal)) = launcher.intercept(&words, None) else { panic!("refused") };
    assert_eq!(refusal.code.code(), 125);
    assert_eq!(launcher.intercept(&words[..1], None), None);
}

#[test]
fn exec_says_why_when_the_program_cannot_run() {
    let run = Runtime::new().file("data", "");
    fs::set_permissions(run.path("data"), fs::Permissions::from_mode(0o644)).unwrap();
    for (name, code) in [("missing", 127), ("data", 126)] {
        let exec =
            Exec { program: run.path(name), argv0: name.into(), args: Vec::new(), env: Vec::new() };
        assert_eq!(exec.run().code.code(), code, "{name}");
    }
}
