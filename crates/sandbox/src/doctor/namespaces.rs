//! Reasons why user namespaces do not work, with the name of the setting, and remedies.

use super::facts::{Facts, Tried};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;
const EUSERS: i32 = 87;

/// Returns the first error of creating the namespaces and of mounting in them.
pub(super) fn failure(facts: &Facts) -> Tried {
    facts.user_namespace.and(facts.mounts)
}

/// Returns the cause and the remedy.
pub(super) fn cause(facts: &Facts, errno: i32) -> (String, String) {
    let settings = &facts.settings;
    let forbidden = matches!(errno, EPERM | EACCES);
    if settings.max_user_namespaces == Some(0) || matches!(errno, ENOSPC | EUSERS) {
        let limit = settings.max_user_namespaces.unwrap_or(0);
        return (
            format!("`user.max_user_namespaces` is {limit}"),
            "sudo sysctl -w user.max_user_namespaces=15000".into(),
        );
    }
    if forbidden && settings.userns_clone == Some(0) && !facts.root {
        return (
            "`kernel.unprivileged_userns_clone` is 0".into(),
            "sudo sysctl -w kernel.unprivileged_userns_clone=1".into(),
        );
    }
    if forbidden && settings.apparmor_restricts.is_some_and(|on| on != 0) && !facts.root {
        return (
            "AppArmor: `kernel.apparmor_restrict_unprivileged_userns` is 1".into(),
            apparmor(),
        );
    }
    if forbidden && (settings.filtered && facts.container.is_some()) {
        return (
            "the container's system call filter forbids them (Docker's default profile does)"
                .into(),
            "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"
                .into(),
        );
    }
    if matches!(errno, EINVAL | ENOSYS) {
        return (
            "the kernel does not support them".into(),
            "use a kernel with CONFIG_USER_NS".into(),
        );
    }
    let place = if facts.container.is_some() { "container" } else { "system" };
    (
        format!("a security policy of this {place} forbids them"),
        "allow unprivileged user namespaces in SELinux, AppArmor or the container's options; \
         they do not work in a chroot"
            .into(),
    )
}

/// Returns the remedy for `AppArmor`. The distribution's profile is only for /usr/bin/bwrap, so it allows less than the
/// setting would.
fn apparmor() -> String {
    let profile = "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict";
    format!(
        "sudo apt install bubblewrap apparmor-profiles && sudo ln -s {profile} /etc/apparmor.d/ \
         && sudo systemctl reload apparmor (or, for every program: \
         sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
    )
}
