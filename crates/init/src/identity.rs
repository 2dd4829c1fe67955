//! Giving up root for good, with proof.

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use sandbox_linux::capability::{self, CapabilitySet};
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::user::User;

/// A step that failed: nothing may run after it.
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
                "this is a fault of the container's set-up or of the kernel: nothing was started"
            }
        };
        Some(text.to_owned())
    }
}

fn refused(what: &'static str) -> impl FnOnce(Errno) -> IdentityError {
    move |error| IdentityError::Refused { what, source: error.into() }
}

/// Becomes a user, with its one group, and with nothing to become anybody else again.
pub(crate) fn become_user(user: &User) -> Result<(), IdentityError> {
    // First, because it takes a capability that goes with root.
    bound(CapabilitySet::empty());
    switch(user)?;
    drop_rest()?;
    prove(user)
}

/// Stays who it is, without any capability.
pub(crate) fn stay() -> Result<(), IdentityError> {
    bound(CapabilitySet::empty());
    drop_rest()
}

/// Changes the ids alone. `setuid` is last: after it, nothing else would be allowed.
pub(crate) fn switch(user: &User) -> Result<(), IdentityError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_groups(gid)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)
        .map_err(refused("change to the agent's group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused("change to the agent's user"))
}

/// Exactly the one group. A container may forbid the call; that is no harm where there are no others.
fn set_groups(gid: Gid) -> Result<(), IdentityError> {
    let Err(error) = rustix::thread::set_thread_groups(&[gid]) else { return Ok(()) };
    let groups = rustix::process::getgroups().map_err(refused("read the groups"))?;
    if groups.iter().all(|group| *group == gid) {
        return Ok(());
    }
    let groups = groups.iter().map(|group| group.as_raw()).collect();
    Err(IdentityError::Groups { groups, source: error.into() })
}

/// Gives up every capability but these, also what later programs could get.
pub(crate) fn keep(kept: CapabilitySet) -> Result<(), IdentityError> {
    bound(kept);
    capability::reduce(kept).map_err(given_up)
}

/// Without the capability for that it stays as it is; no-new-privileges then keeps later programs from
/// getting any.
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

/// Asks the kernel who this is now, and tries to come back.
fn prove(user: &User) -> Result<(), IdentityError> {
    use IdentityError::NotProven;
    let unread = |source| IdentityError::Refused { what: "read the ids", source };
    if sandbox_linux::process::user_ids().map_err(unread)? != [user.uid; 3] {
        return Err(NotProven("a user id is another one"));
    }
    if sandbox_linux::process::group_ids().map_err(unread)? != [user.gid; 3] {
        return Err(NotProven("a group id is another one"));
    }
    if user.uid != 0 && rustix::thread::set_thread_uid(Uid::ROOT).is_ok() {
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
