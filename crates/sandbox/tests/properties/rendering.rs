//! Snapshots of one small plan in both renderings.

use std::fmt::Write as _;

use sandbox_core::plan::Plan;
use sandbox_core::render::bwrap::{self, Word};
use sandbox_core::render::own::{self, Hiding};
use sandbox_linux::root::Step;
use sandbox_policy::config::Access::{Exclude, Ro, Rw};
use sandbox_policy::config::Layer;

use super::world::{Rule, Tree, World};

fn small() -> (World, Plan) {
    let files = ["src/main", "src/secret/key", "src/secret/shown", "../.ssh/id", "../.cargo/bin/x"];
    let tree = Tree { files: files.map(str::to_owned).to_vec(), ..Tree::default() };
    let world = World::new(&tree, true);
    let rules = [(Ro, "src/main"), (Exclude, "src/secret"), (Rw, "src/secret/shown")];
    let rule = |(access, pattern): (_, &str)| {
        let pattern = pattern.to_owned();
        Rule { access, pattern, layer: Layer::Flags }
    };
    let config = world.config(&["!@git"], &rules.map(rule));
    let mut plan = world.plan_of(config).unwrap();
    // Sockets and mounts that depend on the machine are left out.
    plan.sockets.clear();
    plan.mounts.retain(|mount| mount.target.starts_with(world.host.home.as_deref().unwrap()));
    (world, plan)
}

/// Replaces the path of the home directory, which differs in each run.
fn short(world: &World, text: &str) -> String {
    let home = world.host.home.as_deref().unwrap();
    let top = home.parent().unwrap().display().to_string();
    text.replace(&home.display().to_string(), "~").replace(&top, "TOP")
}

#[test]
#[allow(clippy::too_many_lines, reason = "most of them are the arguments")]
fn arguments_are_complete_when_bubblewrap_does_everything() {
    let (world, plan) = small();
    let mut lines = String::new();
    for word in &bwrap::arguments(&plan).words {
        match word {
            Word::Text(text) if text.as_encoded_bytes().starts_with(b"--") => {
                let _ = write!(lines, "\n{}", text.display());
            }
            Word::Text(text) => {
                let _ = write!(lines, " {}", text.display());
            }
            Word::Data(index) => {
                let _ = write!(lines, " &{index}");
            }
        }
    }
    insta::assert_snapshot!(short(&world, lines.trim()), @"
    --unshare-user
    --unshare-ipc
    --unshare-uts
    --unshare-pid
    --die-with-parent
    --unshare-cgroup-try
    --ro-bind / /
    --dev /dev
    --proc /proc
    --perms 0755
    --tmpfs /run
    --perms 1777
    --tmpfs /tmp
    --bind ~/.cargo ~/.cargo
    --ro-bind ~/.cargo/bin ~/.cargo/bin
    --perms 0555
    --tmpfs ~/.ssh
    --bind ~/work ~/work
    --bind ~/work/src ~/work/src
    --ro-bind ~/work/src/main ~/work/src/main
    --perms 0555
    --tmpfs ~/work/src/secret
    --bind ~/work/src/secret/shown ~/work/src/secret/shown
    --perms 0700
    --tmpfs /run/user/1000
    --perms 0755
    --dir /run/agent-sandbox
    --perms 0755
    --dir /run/agent-sandbox/bin
    --perms 0755
    --dir /run/agent-sandbox/real
    --perms 0755
    --dir /run/agent-sandbox/wrappers
    --perms 0755
    --dir /run/agent-sandbox/presets
    --ro-bind /usr/bin/env /run/agent-sandbox/agent-sandbox
    --chmod 0111 /run/agent-sandbox/bin
    --chmod 0111 /run/agent-sandbox/real
    --chmod 0111 /run/agent-sandbox/wrappers
    --chmod 0111 /run/agent-sandbox/presets
    --chmod 0111 /run/agent-sandbox
    --remount-ro ~/.ssh
    --remount-ro ~/work/src/secret
    --remount-ro /run
    --seccomp &0
    --chdir ~/work
    ");
}

fn line(step: &Step) -> String {
    match step {
        Step::Bind { source, target, read_only, devices } => {
            let read_only = if *read_only { " read-only" } else { "" };
            let devices = if *devices { " devices" } else { "" };
            format!("bind {} at {}{read_only}{devices}", source.display(), target.display())
        }
        Step::Dir { target, mode } => format!("dir {mode:04o} {}", target.display()),
        Step::File { target, mode, .. } => format!("file {mode:04o} {}", target.display()),
        Step::Tmpfs { target, mode, .. } => format!("tmpfs {mode:04o} {}", target.display()),
        Step::Processes { target, guarded } => {
            format!("processes {} {guarded:?}", target.display())
        }
        Step::EmptyDir { target } => format!("empty dir {}", target.display()),
        Step::Seal { target } => format!("seal {}", target.display()),
        Step::HidingOverlay { dir, hidden } => {
            let ssh: Vec<_> = hidden.iter().filter(|(path, _)| path.starts_with(".ssh")).collect();
            format!("overlay {} {ssh:?} and more", dir.display())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn steps_are_complete_when_the_mounts_are_our_own() {
    let (world, plan) = small();
    let root = own::root(&plan, Hiding::Overlay, None);
    let lines: Vec<_> =
        root.steps.iter().map(line).filter(|line| !line.contains("/dev/")).collect();
    insta::assert_snapshot!(short(&world, &lines.join("\n")), @r#"
    dir 0755 /proc
    processes /proc []
    dir 0755 /dev
    tmpfs 0755 /dev
    dir 0755 /run
    tmpfs 0755 /run
    dir 0755 /tmp
    tmpfs 1777 /tmp
    overlay ~ [(".ssh", Dir)] and more
    bind ~/.cargo at ~/.cargo
    bind ~/.cargo/bin at ~/.cargo/bin read-only
    bind ~/work at ~/work
    bind ~/work/src at ~/work/src
    bind ~/work/src/main at ~/work/src/main read-only
    tmpfs 0555 ~/work/src/secret
    dir 0755 /var
    dir 0755 /var/tmp
    dir 0755 TOP
    dir 0755 ~
    dir 0755 ~/work
    dir 0755 ~/work/src
    dir 0755 ~/work/src/secret
    file 0644 ~/work/src/secret/shown
    bind ~/work/src/secret/shown at ~/work/src/secret/shown
    dir 0755 /run/user
    dir 0700 /run/user/1000
    tmpfs 0700 /run/user/1000
    dir 0111 /run/agent-sandbox
    dir 0111 /run/agent-sandbox/bin
    dir 0111 /run/agent-sandbox/real
    dir 0111 /run/agent-sandbox/wrappers
    dir 0111 /run/agent-sandbox/presets
    file 0644 /run/agent-sandbox/agent-sandbox
    bind /usr/bin/env at /run/agent-sandbox/agent-sandbox read-only
    seal ~/work/src/secret
    seal /run
    "#);
}
