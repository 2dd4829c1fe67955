//! Giving up root for good, with proof.

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use thiserror::Error;

use crate::user::User;

/// A step that failed: nothing may run after it.
#[derive(Debug, Error)]
pub(crate) enum CredentialsError {
    #[error("cannot {what}")]
    Refused { what: &'static str, source: io::Error },
    #[error("cannot give up the groups {groups:?}")]
    Groups { groups: Vec<u32>, source: io::Error },
    #[error("root was given up, but {0}")]
    NotProven(&'static str),
}

impl CredentialsError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Refused { .. } | Self::Groups { .. } => {
                "start the container as the agent's user, or as root with the capabilities SETUID, SETGID and SETPCAP"
            }
            Self::NotProven(_) => {
                "this is a fault of the container's set-up or of the kernel: nothing was started"
            }
        }
    }
}

fn refused(what: &'static str) -> impl FnOnce(Errno) -> CredentialsError {
    move |error| CredentialsError::Refused { what, source: error.into() }
}

/// Becomes a user, with its one group, and with nothing to become anybody else again.
pub(crate) fn become_user(user: &User) -> Result<(), CredentialsError> {
    // First, because it takes a capability that goes with root.
    drop_bounding();
    switch(user)?;
    drop_rest()?;
    prove(user)
}

/// Stays who it is, without any capability.
pub(crate) fn stay() -> Result<(), CredentialsError> {
    drop_bounding();
    drop_rest()
}

/// Changes the ids alone. `setuid` is last: after it, nothing else would be allowed.
pub(crate) fn switch(user: &User) -> Result<(), CredentialsError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_groups(gid)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)
        .map_err(refused("change to the agent's group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused("change to the agent's user"))
}

/// Exactly the one group. A container may forbid the call; that is no harm where there are no others.
fn set_groups(gid: Gid) -> Result<(), CredentialsError> {
    let Err(error) = rustix::thread::set_thread_groups(&[gid]) else { return Ok(()) };
    let groups = rustix::process::getgroups().map_err(refused("read the groups"))?;
    if groups.iter().all(|group| *group == gid) {
        return Ok(());
    }
    let groups = groups.iter().map(|group| group.as_raw()).collect();
    Err(CredentialsError::Groups { groups, source: error.into() })
}

/// Gives up every capability but these, also what later programs could get.
pub(crate) fn keep(kept: CapabilitySet) -> Result<(), CredentialsError> {
    let now = rustix::thread::capabilities(None).map_err(refused("read the capabilities"))?;
    drop_bounding_but(kept);
    rustix::thread::clear_ambient_capability_set()
        .map_err(refused("empty the ambient capabilities"))?;
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(refused("give up capabilities"))
}

/// Takes every capability out of what any later program could get. Without the capability for that
/// it stays as it is; no-new-privileges then keeps later programs from getting any.
fn drop_bounding() {
    drop_bounding_but(CapabilitySet::empty());
}

fn drop_bounding_but(kept: CapabilitySet) {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        // The kernel knows no more, or does not allow it.
        let Ok(there) = rustix::thread::capability_is_in_bounding_set(capability) else { return };
        if there && rustix::thread::remove_capability_from_bounding_set(capability).is_err() {
            return;
        }
    }
}

fn drop_rest() -> Result<(), CredentialsError> {
    rustix::thread::clear_ambient_capability_set()
        .map_err(refused("empty the ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(refused("empty the capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(refused("forbid new privileges"))
}

/// Asks the kernel who this is now, and tries to come back.
fn prove(user: &User) -> Result<(), CredentialsError> {
    use CredentialsError::NotProven;
    let unread = |source| CredentialsError::Refused { what: "read the ids", source };
    if sandbox_linux::process::user_ids().map_err(unread)? != [user.uid; 3] {
        return Err(NotProven("a user id is another one"));
    }
    if sandbox_linux::process::group_ids().map_err(unread)? != [user.gid; 3] {
        return Err(NotProven("a group id is another one"));
    }
    if rustix::thread::set_thread_uid(Uid::ROOT).is_ok() {
        return Err(NotProven("it comes back as user"));
    }
    if user.gid != 0 && rustix::thread::set_thread_gid(Gid::ROOT).is_ok() {
        return Err(NotProven("it comes back as group"));
    }
    let left = rustix::thread::capabilities(None).map_err(refused("read the capabilities"))?;
    if !left.permitted.is_empty() || !left.effective.is_empty() || !left.inheritable.is_empty() {
        return Err(NotProven("capabilities are left"));
    }
    Ok(())
}
