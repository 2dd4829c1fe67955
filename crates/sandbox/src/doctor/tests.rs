//! Facts about other machines, and the rows that result.

use std::path::PathBuf;

use super::checks::all;
use super::facts::{Facts, Found, Settings};
use super::trial::Trial;
use super::*;
use crate::render::find::{Bwrap, FindError, Version};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EINVAL: i32 = 22;

const HELP: &str = "--perms OCTAL --chmod OCTAL --ro-bind-data FD --seccomp FD --die-with-parent \
                    --cap-drop CAP --size BYTES --disable-userns";

/// Returns the facts of a machine on which everything works.
fn healthy() -> Facts {
    let bwrap = Bwrap { path: "/usr/bin/bwrap".into(), setuid: false };
    Facts {
        kernel: "6.12.1-arch".into(),
        user_namespace: Ok(()),
        mounts: Ok(()),
        overlay: Ok(()),
        written_overlay: Ok(()),
        seccomp: Ok(()),
        pidfd: Ok(()),
        enter: Ok(()),
        fuse: Ok(()),
        fuse_helper: Some("/usr/bin/fusermount3".into()),
        fuse_others: false,
        landlock_abi: 7,
        landlock_scope: Ok(()),
        bwrap: Ok(Found { bwrap, version: Some(Version(0, 8, 0)), help: HELP.into() }),
        trials: vec![(Rendering::Own(Hiding::Overlay), Trial::Works)],
        settings: Settings::default(),
        container: None,
        docker: Some(("/run/docker.sock".into(), Ok(()))),
        docker_host: None,
        runc: Some("1.3.3".into()),
        git: Some("/usr/bin/git".into()),
        root: false,
        inside: false,
    }
}

/// Returns the facts of a machine that refuses user namespaces, also to bubblewrap.
fn without_namespaces(errno: i32) -> Facts {
    let why = || Trial::NotPrepared("make a user namespace".into());
    let refused = Trial::Refused("No permissions to create a new namespace".into());
    Facts {
        user_namespace: Err(errno),
        mounts: Err(errno),
        trials: vec![
            (Rendering::Own(Hiding::Overlay), why()),
            (Rendering::Own(Hiding::Binds), why()),
            (Rendering::Bubblewrap, refused),
        ],
        ..healthy()
    }
}

fn row(facts: &Facts, name: &str) -> Check {
    all(facts).into_iter().find(|check| check.name == name).unwrap()
}

#[test]
fn checks_are_all_ok_when_everything_works() {
    let checks = all(&healthy());
    let bad: Vec<_> = checks.iter().filter(|check| check.status != Status::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(first_cause(&checks), None);
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = all(&healthy()).iter().map(|check| check.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn user_namespaces_name_the_setting_that_forbids_them() {
    let none = Settings::default;
    for (why, errno, settings, container, cause, remedy) in [
        (
            "AppArmor",
            EACCES,
            Settings { apparmor_restricts: Some(1), ..none() },
            None,
            "apparmor_restrict_unprivileged_userns",
            "bwrap-userns-restrict",
        ),
        (
            "Debian's switch",
            EPERM,
            Settings { userns_clone: Some(0), ..none() },
            None,
            "unprivileged_userns_clone",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "none allowed",
            ENOSPC,
            Settings { max_user_namespaces: Some(0), ..none() },
            None,
            "max_user_namespaces` is 0",
            "sysctl -w user.max_user_namespaces=",
        ),
        (
            "Docker's filter",
            EPERM,
            Settings { filtered: true, ..none() },
            Some("/.dockerenv exists"),
            "Docker's default profile",
            "--security-opt seccomp=unconfined",
        ),
        ("not built in", EINVAL, none(), None, "the kernel does not support", "CONFIG_USER_NS"),
        ("unknown policy", EPERM, none(), None, "a security policy", "SELinux"),
    ] {
        let facts = Facts { settings, container, ..without_namespaces(errno) };
        let check = row(&facts, "user-namespaces");
        assert_eq!(check.status, Status::Fail, "{why}");
        assert!(check.detail.contains(cause), "{why}: {}", check.detail);
        assert!(
            check.remedy.as_ref().is_some_and(|text| text.contains(remedy)),
            "{why}: {check:?}"
        );
        let hint = first_cause(&all(&facts)).unwrap();
        assert!(hint.contains(cause) && hint.contains(remedy), "{why}: {hint}");
    }
}

#[test]
fn user_namespaces_only_warn_when_bubblewrap_has_its_own_profile() {
    let mut facts = without_namespaces(EACCES);
    facts.settings.apparmor_restricts = Some(1);
    facts.trials.last_mut().unwrap().1 = Trial::Works;
    assert_eq!(row(&facts, "user-namespaces").status, Status::Warn);
    let sandbox = row(&facts, "sandbox");
    assert_eq!(sandbox.status, Status::Warn);
    assert_eq!(sandbox.limits, limits(Rendering::Bubblewrap, false));
    assert_eq!(first_cause(&all(&facts)), None);
}

#[test]
fn bubblewrap_fails_when_it_cannot_be_used() {
    let found = |help: &str| {
        let bwrap = Bwrap { path: "/usr/bin/bwrap".into(), setuid: false };
        Ok(Found { bwrap, version: Some(Version(0, 4, 0)), help: help.to_owned() })
    };
    let old = FindError::Setuid { path: "/usr/bin/bwrap".into(), version: Some(Version(0, 9, 0)) };
    for (why, bwrap, detail, remedy) in [
        ("missing", Err(FindError::Missing), "not in PATH", "install with: apt install bubblewrap"),
        ("planted", Err(FindError::Untrusted("/w/bwrap".into())), "/w/bwrap", "distribution's"),
        ("setuid", Err(old), "CVE-2026-41163", "chmod u-s /usr/bin/bwrap"),
        ("too old", found("--seccomp FD --die-with-parent"), "lacks --perms", "0.8.0"),
    ] {
        let facts = Facts { bwrap, trials: Vec::new(), ..healthy() };
        let check = row(&facts, "bubblewrap");
        assert_eq!(check.status, Status::Fail, "{why}");
        assert!(check.detail.contains(detail), "{why}: {}", check.detail);
        assert!(check.remedy.is_some_and(|text| text.contains(remedy)), "{why}");
        assert!(first_cause(&all(&facts)).is_some_and(|hint| hint.contains(detail)), "{why}");
    }
}

#[test]
fn optional_checks_never_fail() {
    let facts = Facts {
        kernel: "4.18.0".into(),
        overlay: Err(EINVAL),
        enter: Err(EINVAL),
        fuse: Err(EACCES),
        landlock_abi: 3,
        landlock_scope: Err(EINVAL),
        docker: Some((PathBuf::from("/run/docker.sock"), Err(EACCES))),
        git: None,
        ..healthy()
    };
    for name in ["kernel", "overlay", "replaced-files", "fuse", "landlock", "docker", "git"] {
        let check = row(&facts, name);
        assert_eq!(check.status, Status::Warn, "{name}: {check:?}");
    }
    assert_eq!(first_cause(&all(&facts)), None);
}

#[test]
fn sandbox_lists_the_limits_of_a_weaker_rendering() {
    for (root, rendering, count) in [
        (false, Rendering::Own(Hiding::Binds), 2),
        (false, Rendering::Bubblewrap, 4),
        (true, Rendering::Bubblewrap, 5),
    ] {
        let first = Trial::NotPrepared("mount an overlay on /home/u: permission denied".into());
        let trials = vec![(Rendering::Own(Hiding::Overlay), first), (rendering, Trial::Works)];
        let check = row(&Facts { trials, root, ..healthy() }, "sandbox");
        assert_eq!(check.status, Status::Warn);
        assert_eq!(check.limits.len(), count, "{rendering:?}");
        assert!(check.detail.contains("because: mount an overlay"), "{}", check.detail);
    }
}

#[test]
fn sandbox_fails_when_a_container_hides_parts_of_proc() {
    let refused =
        Trial::Refused("Can't mount proc on /newroot/proc: Operation not permitted".into());
    let facts = Facts {
        container: Some("/.dockerenv exists"),
        trials: vec![(Rendering::Own(Hiding::Overlay), refused)],
        ..healthy()
    };
    let check = row(&facts, "sandbox");
    assert_eq!(check.status, Status::Fail);
    assert!(check.remedy.unwrap().contains("systempaths=unconfined"));
}
