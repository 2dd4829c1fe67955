//! Tests of the whole set-up, with real git, FUSE and overlayfs.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Process, Run, Signal, need};

use crate::room::{Room, Start, built, pid_1, signal};

/// Returns a room with all programs that `init` starts.
fn room() -> Room {
    let room = Room::new(Start::Root);
    for tool in ["fusermount3", "git"] {
        need(tool);
    }
    room.write("etc/fuse.conf", "user_allow_other\n");
    room.write("opt/agent-sandbox", "");
    room.write("home/octobot/.profile", "from the image\n");
    room.give("home/octobot", 1001);
    let tool = format!("mount --bind {} $root/opt/agent-sandbox", built("agent-sandbox").display());
    room.mounts(&tool).env("SESSION_ID", "s.1").env("AGENT_DOCKERD", "off")
}

/// Creates a repository and returns its commits. `file` is `one` on the main branch, `two` on the branch `other`, and
/// `three` in a commit that is on no branch.
fn repository(room: &Room) -> [String; 3] {
    let repository = room.path("srv/repo");
    fs::create_dir_all(&repository).unwrap();
    let script = "git init -q -b main; git config user.name T; git config user.email t@example.com
        echo one > file; git add .; git commit -qm one; git rev-parse HEAD
        git checkout -q -b other; echo two > file; git commit -qam two; git rev-parse HEAD
        git checkout -q --detach; echo three > file; git commit -qam three; git rev-parse HEAD
        git config uploadpack.allowAnySHA1InWant true; git checkout -q main
        echo 'touch /tmp/hook-ran' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout";
    let run = Command::new("sh").args(["-ec", script]).current_dir(repository).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let commits = String::from_utf8(run.stdout).unwrap();
    let mut commits = commits.lines().map(str::to_owned);
    std::array::from_fn(|_| commits.next().unwrap())
}

fn script(room: &Room, script: &str) -> Run {
    room.run(["/opt/obot-agent", "sh", "-ec", script])
}

const LOOK: &str =
    "cat ~/.profile workspace/file 2>/dev/null || cat file; id -u; stat -c %U . ~ ~/.profile";

#[test]
fn home_is_a_layer_over_a_copy_and_the_base_stays_as_it_is() {
    for engine in ["agentfs", "overlay"] {
        let room = room().env("WORKSPACE_PATH", "/srv/repo").env("AGENT_COW", engine);
        repository(&room);
        let run = script(
            &room,
            &format!(
                "pwd; {LOOK}; readlink /workspace; mkdir -p ~/.config/octobot; echo kept > ~/.config/octobot/agent-session.json; echo changed > file; rm ~/.profile"
            ),
        );
        run.succeeds().stdout("/home/octobot/workspace\nfrom the image\none\n1001\noctobot\noctobot\noctobot\n/home/octobot/workspace\n");
        let base = |path: &str| fs::read_to_string(room.path(".data/octobot").join(path));
        assert_eq!(base(".profile").unwrap(), "from the image\n", "{engine}");
        assert_eq!(base("workspace/file").unwrap(), "one\n", "{engine}");
        assert!(base(".config/octobot/agent-session.json").is_err(), "{engine}");
        script(&room, "cat ~/.config/octobot/agent-session.json file; test ! -e ~/.profile")
            .succeeds()
            .stdout("kept\nchanged\n");
        // Another session starts with the same base.
        let other = room.clone().without_env("SESSION_ID").env("SESSION_ID", "s2");
        script(&other, "cat ~/.profile file").succeeds().stdout("from the image\none\n");
        assert!(!room.path(".data/.octobot.staging").try_exists().unwrap());
    }
}

#[test]
fn changes_are_there_again_after_a_kill() {
    for engine in ["agentfs", "overlay"] {
        let room = room().env("AGENT_COW", engine);
        let process = room.start([
            "/opt/init",
            "sh",
            "-c",
            "echo kept > ~/file; sync -f ~/file; echo ready; exec sleep 1000",
        ]);
        process.wait_for("ready\n");
        signal(&process, Signal::KILL);
        drop(process);
        script(&room, "cat ~/file").succeeds().stdout("kept\n");
    }
}

#[test]
fn layer_is_unmounted_and_at_rest_at_the_end() {
    let room = room();
    let run = script(&room, "echo x > ~/file").succeeds();
    run.stderr_lacks("warning");
    // No journal of an open database remains.
    let names: Vec<_> = fs::read_dir(room.path(".data/.agentfs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with("-wal")), "{names:?}");
    let cat = ["/opt/agent-sandbox", "fs", "cat", "/.data/.agentfs/s.1.db", "/file"];
    room.run(cat).succeeds().stdout("x\n");
}

#[test]
fn root_reads_the_agents_home() {
    let process = room().start([
        "/opt/init",
        "sh",
        "-c",
        "echo secret > ~/file; chmod 600 ~/file; echo ready; exec sleep 1000",
    ]);
    process.wait_for("ready\n");
    let enter = need("nsenter");
    let pid = pid_1(&process).to_string();
    let cat = Command::new(enter)
        .args(["-t", &pid, "-U", "-m", "-p", "--root", "cat", "/home/octobot/file"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&cat.stdout),
        "secret\n",
        "{}",
        String::from_utf8_lossy(&cat.stderr)
    );
    signal(&process, Signal::TERM);
    process.wait().code(143);
}

#[test]
fn another_engine_does_not_put_changes_out_of_sight() {
    let room = room();
    script(&room, "echo x > ~/file").succeeds();
    for other in ["overlay", "none"] {
        let other = room.clone().env("AGENT_COW", other);
        script(&other, "true").code(1).stderr_contains("changes are in `/.data/.agentfs/s.1.db`");
    }
    script(&room, "cat ~/file").succeeds().stdout("x\n");
}

#[test]
fn workspace_is_the_commit_that_was_asked_for() {
    let room = room().env("WORKSPACE_PATH", "/srv/repo").env("AGENT_COW", "none");
    let commits = repository(&room);
    for (commit, text) in commits.iter().zip(["one", "two", "three"]) {
        fs::remove_dir_all(room.path(".data/octobot")).ok();
        let room = room.clone().env("WORKSPACE_COMMIT", commit);
        script(&room, "cat file; git rev-parse HEAD; stat -c %U file; ls /tmp")
            .succeeds()
            .stdout(&format!("{text}\n{commit}\noctobot\n"));
    }
    fs::remove_dir_all(room.path(".data/octobot")).unwrap();
    for nowhere in ["0123456789012345678901234567890123456789", "--help"] {
        let gone = room.clone().env("WORKSPACE_COMMIT", nowhere);
        script(&gone, "true").code(1).stderr_contains("the workspace failed: `git`");
        assert!(!room.path(".data/octobot/workspace").try_exists().unwrap(), "nothing half done");
    }
    script(&room, "git branch -r").succeeds().stdout_contains("origin/other");
}

#[test]
fn git_runs_as_the_agent_without_prompts() {
    let room =
        room().env("WORKSPACE_PATH", "https://bob:hush@host.invalid/x").env("AGENT_COW", "none");
    room.program("opt/git", "#!/bin/sh\nid -u >&2; grep -E '^(CapBnd|NoNew)' /proc/self/status >&2; echo \"$@\" >&2; env | grep ^GIT >&2; cat \"$GIT_CONFIG_GLOBAL\" >&2; exit 1\n");
    let path = format!("/opt:{}", crate::room::PATH);
    script(&room.without_env("PATH").env("PATH", path), "true")
        .code(1)
        .stderr_contains("1001\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nclone --quiet --no-hardlinks -- https://host.invalid/x /.data/.octobot.staging/workspace\n")
        .stderr_contains("GIT_TERMINAL_PROMPT=0")
        .stderr_contains("hooksPath = /dev/null")
        .stderr_contains("[credential \"https://host.invalid\"]")
        .stderr_lacks("hush");
}

#[test]
fn image_home_is_copied_as_it_is_and_belongs_to_the_agent() {
    let room = room().env("AGENT_COW", "none");
    room.program("home/octobot/bin/tool", "#!/bin/sh\necho tool\n");
    room.mode("home/octobot/bin/tool", 0o750);
    symlink("tool", room.path("home/octobot/bin/link")).unwrap();
    chown(room.path("home/octobot/bin/tool"), Some(0), Some(0)).unwrap();
    script(&room, "cd; bin/link; stat -c '%U %a' bin/tool; readlink bin/link")
        .succeeds()
        .stdout("tool\noctobot 750\ntool\n");
    let special = self::room().env("AGENT_COW", "none");
    assert!(
        Command::new(need("mkfifo"))
            .arg(special.path("home/octobot/fifo"))
            .status()
            .unwrap()
            .success()
    );
    script(&special, "true").code(1).stderr_contains("`/home/octobot/fifo` is neither a file");
    assert!(!special.path(".data/octobot").try_exists().unwrap());
}

#[test]
fn workspace_link_takes_nothing_away() {
    let room = room().env("AGENT_COW", "none");
    let link = || fs::read_link(room.path("workspace"));
    script(&room, "true").succeeds().stderr_contains("the workspace link: done");
    assert_eq!(link().unwrap(), Path::new("/.data/octobot/workspace"));
    script(&room, "true").succeeds().stderr_contains("the workspace link: already done");
    fs::remove_file(room.path("workspace")).unwrap();
    room.write("workspace/mine", "x");
    script(&room, "cat /workspace/mine")
        .succeeds()
        .stdout("x")
        .stderr_contains("a directory with content and is not replaced");
    fs::remove_file(room.path("workspace/mine")).unwrap();
    let mounted = room.clone().mounts("mount -t tmpfs tmpfs $root/workspace");
    script(&mounted, "true").succeeds().stderr_contains("it is a mount and is not replaced");
    let bound = room.clone().mounts("mount --bind $root/tmp $root/workspace");
    script(&bound, "true").succeeds().stderr_contains("it is a mount and is not replaced");
    let sealed =
        room.clone().mounts("mount --bind $root/.data $root/.data; mount -o remount,ro,bind $root");
    script(&sealed, "true").succeeds().stderr_contains("the root file system is read-only");
}

#[test]
fn pid_1_keeps_few_capabilities_and_no_secret() {
    let room = room()
        .env("SESSION_TOKEN", "hush-token-1")
        .env("CONTROL_PLANE_URL", "hush-url-2")
        .env("SEEN", "seen-value-3");
    let process = room.start([
        "/opt/init",
        "sh",
        "-c",
        "grep -E 'Cap|NoNew' /proc/self/status; echo ready; exec sleep 1000",
    ]);
    process.wait_for("CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nready\n");
    let pid = pid_1(&process);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    // KILL, SETGID, SETUID and SYS_ADMIN.
    assert!(status.contains("CapPrm:\t00000000002000e0\nCapEff:\t00000000002000e0\n"), "{status}");
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let memory = memory(pid);
    let has = |text: &str| memory.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(environ.windows(12).any(|window| window == b"seen-value-3"), "the control");
    assert!(has("seen-value-3"), "the control");
    for secret in ["hush-token-1", "hush-url-2"] {
        assert!(!has(secret), "{secret}");
    }
    signal(&process, Signal::TERM);
    process.wait().code(143);
}

/// Returns the writable memory of a process.
fn memory(pid: i32) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let file = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, rest) = line.split_once('-').unwrap();
        let parse = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (from, to) = (parse(from), parse(rest.split(' ').next().unwrap()));
        let mut part = vec![0; usize::try_from(to - from).unwrap()];
        if file.read_exact_at(&mut part, from).is_ok() {
            all.extend(part);
        }
    }
    all
}

#[test]
fn control_file_stays_for_the_next_start() {
    let room = room()
        .without_env("SESSION_ID")
        .env("AGENT_CONTROL_FILE", "/run/control/file")
        .env("AGENT_COW", "none");
    room.write("run/control/file", "SESSION_ID=from-file\nSESSION_TOKEN=hush\n");
    room.mode("run/control/file", 0o600);
    for _ in 0..2 {
        script(&room, "env; cat /run/control/file 2>/dev/null || echo closed")
            .succeeds()
            .stdout_lacks("hush")
            .stdout_contains("closed");
    }
}

/// Replaces git by a program that reports its start and never ends.
fn slow(room: Room) -> Room {
    room.program("opt/git", "#!/bin/sh\nfor last; do :; done; echo half > \"$last/half\"; echo git-began >&2; sleep 1000\n");
    let path = format!("/opt:{}", crate::room::PATH);
    room.without_env("PATH").env("PATH", path).env("WORKSPACE_PATH", "/srv/repo")
}

#[test]
fn term_during_set_up_stops_the_step_and_removes_its_staging() {
    for sent in [Signal::TERM, Signal::INT] {
        let room = slow(room());
        let process = room.start(["/opt/init", "echo", "ran"]);
        process.wait_for_message("git-began\n");
        signal(&process, sent);
        process.wait().code(128 + sent.as_raw()).stdout("");
        assert!(!room.path(".data/.octobot.staging").try_exists().unwrap());
        assert!(!room.path(".data/octobot/workspace").try_exists().unwrap());
    }
}

#[test]
fn second_start_completes_what_a_kill_interrupted() {
    // Killed at the end of each step, and in the middle of the clone.
    let steps = [
        "the base home",
        "the workspace:",
        "the layer's directory",
        "the layer:",
        "the layer's mount",
        "the workspace link",
        "dockerd",
    ];
    for engine in ["agentfs", "overlay"] {
        for step in steps {
            let room = room().env("WORKSPACE_PATH", "/srv/repo").env("AGENT_COW", engine);
            repository(&room);
            killed(&room, step);
            script(&room, "cat ~/.profile file").succeeds().stdout("from the image\none\n");
        }
    }
    let room = room();
    repository(&room);
    killed(&slow(room.clone()), "git-began");
    assert!(
        room.path(".data/.octobot.staging/workspace/half").try_exists().unwrap(),
        "it was killed half way"
    );
    script(&room.clone().env("WORKSPACE_PATH", "/srv/repo"), "cat file; ls")
        .succeeds()
        .stdout("one\nfile\n");
    assert!(!room.path(".data/.octobot.staging").try_exists().unwrap());
}

fn killed(room: &Room, at: &str) {
    let process = room.start(["/opt/init", "sleep", "1000"]);
    process.wait_for_message(at);
    signal(&process, Signal::KILL);
    gone(&process);
}

/// Waits until a killed room and its mounts are gone, so that the second start does not find them.
fn gone(process: &Process) {
    let (outer, deadline) =
        (process.pid().as_raw_nonzero(), Instant::now() + Duration::from_secs(20));
    while fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"))
        .is_ok_and(|children| !children.is_empty())
    {
        assert!(Instant::now() < deadline, "it outlives its kill");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills the copy of the home at every system call that changes the disk. The copy must be complete or absent.
#[test]
fn copy_of_the_home_is_whole_or_not_there_wherever_it_is_killed() {
    need("strace");
    let mut interrupted = 0;
    for nth in 1..=12 {
        let room = room().env("AGENT_COW", "none");
        for name in ["a", "b", "c/d"] {
            room.write(Path::new("home/octobot").join(name), name);
        }
        let calls = "mkdir,rename,chmod,fchmodat,lchown,utimensat,syncfs";
        let inject = format!("--inject={calls}:signal=KILL:when={nth}");
        let strace = ["/usr/bin/strace", "-f", "-o", "/tmp/trace", &inject];
        let run = room.clone().before(&strace).run(["/opt/agent-sandbox-init", "init", "true"]);
        interrupted += usize::from(!run.status().success());
        let base = room.path(".data/octobot");
        if base.try_exists().unwrap() {
            assert_eq!(fs::read_to_string(base.join("c/d")).unwrap(), "c/d", "call {nth}");
            assert_eq!(fs::metadata(base.join("c")).unwrap().uid(), 1001, "call {nth}");
        }
        script(&room, "cat ~/a ~/b ~/c/d; stat -c %U ~/c").succeeds().stdout("abc/doctobot\n");
    }
    assert!(interrupted >= 5, "only {interrupted} were interrupted");
}

#[test]
fn check_says_what_an_image_lacks() {
    let check = ["/opt/agent-sandbox-init", "check"];
    room()
        .run(check)
        .succeeds()
        .stdout_contains("ok       user `octobot`, 1001:1001")
        .stdout_lacks("missing");
    let bare = room().env("AGENT_USER", "absent-user").without_env("PATH").env("PATH", "/nowhere");
    fs::remove_file(bare.path("etc/fuse.conf")).unwrap();
    bare.run(check)
        .code(1)
        .stdout_contains("missing  user `absent-user`\n")
        .stdout_contains("missing  program `git`\n         hint: install git")
        .stdout_contains("missing  `user_allow_other`");
    let weak =
        room().before(&["/usr/bin/setpriv", "--bounding-set=-setuid,-sys_admin", "--no-new-privs"]);
    weak.run(check)
        .code(1)
        .stdout_contains("missing  started as user id 0")
        .stdout_contains("missing  capability SYS_ADMIN")
        .stdout_contains("missing  new privileges");
    room().run(["/opt/agent-sandbox-init", "check", "entrypoint"]).succeeds();
    room().run(["/opt/agent-sandbox-init", "check", "what"]).code(2);
}
