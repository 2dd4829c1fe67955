//! Permanent change from root to another user, with verification.

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use sandbox_linux::capability::{self, CapabilitySet};
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::user::User;

/// Failure to give up privileges. No program may run after it.
#[derive(Debug, Error)]
pub(crate) enum IdentityError {
    #[error("cannot {what}")]
    Refused { what: &'static str, source: io::Error },
    #[error("cannot give up the groups {groups:?}")]
    Groups { groups: Vec<u32>, source: io::Error },
    #[error("root was given up, but {0}")]
    NotProven(&'static str),
}

impl Hint for IdentityError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Refused { .. } | Self::Groups { .. } => {
                "start the container as the agent's user, or as root with the capabilities SETUID, SETGID and SETPCAP"
            }
            Self::NotProven(_) => {
                "the cause is the configuration of the container, or the kernel; nothing was started"
            }
        };
        Some(text.to_owned())
    }
}

fn refused(what: &'static str) -> impl FnOnce(Errno) -> IdentityError {
    move |error| IdentityError::Refused { what, source: error.into() }
}

/// Changes to a user and its group, without a way to change again.
pub(crate) fn become_user(user: &User) -> Result<(), IdentityError> {
    // First, because it needs `CAP_SETPCAP`, which is lost with uid 0.
    bound(CapabilitySet::empty());
    switch(user)?;
    drop_rest()?;
    prove(user)
}

/// Keeps the user, without any capability.
pub(crate) fn stay() -> Result<(), IdentityError> {
    bound(CapabilitySet::empty());
    drop_rest()
}

/// Changes only the ids. The uid comes last, because after it the groups cannot be changed.
pub(crate) fn switch(user: &User) -> Result<(), IdentityError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_groups(gid)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)
        .map_err(refused("change to the agent's group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused("change to the agent's user"))
}

/// Sets the supplementary groups to this group. A container may forbid the call, which is harmless if there are no
/// other groups.
fn set_groups(gid: Gid) -> Result<(), IdentityError> {
    let Err(error) = rustix::thread::set_thread_groups(&[gid]) else { return Ok(()) };
    let groups = rustix::process::getgroups().map_err(refused("read the groups"))?;
    if groups.iter().all(|group| *group == gid) {
        return Ok(());
    }
    let groups = groups.iter().map(|group| group.as_raw()).collect();
    Err(IdentityError::Groups { groups, source: error.into() })
}

/// Gives up all other capabilities, also for later programs.
pub(crate) fn keep(kept: CapabilitySet) -> Result<(), IdentityError> {
    bound(kept);
    capability::reduce(kept).map_err(given_up)
}

/// Reduces the bounding set. Without `CAP_SETPCAP` it does not change, but `no_new_privs` still prevents later programs
/// from gaining capabilities: capabilities(7).
fn bound(kept: CapabilitySet) {
    let _ = capability::bound(kept);
}

fn drop_rest() -> Result<(), IdentityError> {
    capability::reduce(CapabilitySet::empty()).map_err(given_up)?;
    rustix::thread::set_no_new_privs(true).map_err(refused("forbid new privileges"))
}

fn given_up(source: io::Error) -> IdentityError {
    IdentityError::Refused { what: "give up capabilities", source }
}

/// Verifies the ids and capabilities, and that the change cannot be undone.
fn prove(user: &User) -> Result<(), IdentityError> {
    use IdentityError::NotProven;
    let unread = |source| IdentityError::Refused { what: "read the ids", source };
    if sandbox_linux::process::user_ids().map_err(unread)? != [user.uid; 3] {
        return Err(NotProven("a uid is not that of the agent"));
    }
    if sandbox_linux::process::group_ids().map_err(unread)? != [user.gid; 3] {
        return Err(NotProven("a gid is not that of the agent"));
    }
    if user.uid != 0 && rustix::thread::set_thread_uid(Uid::ROOT).is_ok() {
        return Err(NotProven("setuid(0) still succeeds"));
    }
    if user.gid != 0 && rustix::thread::set_thread_gid(Gid::ROOT).is_ok() {
        return Err(NotProven("setgid(0) still succeeds"));
    }
    let left = rustix::thread::capabilities(None).map_err(refused("read the capabilities"))?;
    if !left.permitted.is_empty() || !left.effective.is_empty() || !left.inheritable.is_empty() {
        return Err(NotProven("capabilities remain"));
    }
    Ok(())
}
