//! Verdict for a resolved path. The rule or mount with the longest matching path decides.

use std::path::{Path, PathBuf};

use sandbox_protocol::layout::RUNTIME_DIR;
use serde::Serialize;

use super::policy::{Bind, Line, Policy, bytes};
use crate::plan::{BaseView, View};
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, Tmp};

/// Access of a command to a path, in order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Read and write.
    Writable,
    /// Read only.
    ReadOnly,
    /// None: the command sees an empty file or directory, or nothing.
    Hidden,
    /// None to the host's file: the sandbox has a private one there.
    Own,
}

/// Cause of the decision about a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum By {
    /// The first of the path rules.
    Rule,
    /// A bind mount, a shared socket, or another file that is mounted there.
    Mount {
        /// The path on the host.
        #[serde(with = "bytes")]
        source: PathBuf,
        /// The path inside.
        #[serde(with = "bytes")]
        target: PathBuf,
        /// Origin of the mount.
        origin: String,
    },
    /// A directory that is private to every sandbox.
    #[serde(rename = "ground")]
    OwnDir {
        /// The directory.
        dir: &'static str,
    },
    /// No rule matches: the host's root is read-only.
    Root,
    /// The launcher, mounted in place of a program.
    Launcher {
        /// The commands whose rules cause it.
        commands: Vec<String>,
    },
    /// A socket with a listener on the host.
    Socket,
    /// A private copy with an entry for the user `agent`.
    Copy,
}

/// The outcome for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) state: State,
    pub(super) by: By,
    /// The rules for the deciding path, the winner first.
    pub(super) lines: Vec<Line>,
    /// The winners for shorter paths, the longest first.
    pub(super) above: Vec<Line>,
}

/// Outcome, cause and rules at one path.
type Found<'p> = (State, By, &'p [Line]);

/// Judges a path without symlinks. Starts at the root, in the order of the mounts, because the effect of a
/// rule depends on the directory above it.
pub(super) fn judge(policy: &Policy, path: &Path) -> Judged {
    let (state, by, lines) = match special(policy, path) {
        Some((state, by)) => (state, by, &[][..]),
        None => through_mounts(policy, path),
    };
    let decided = lines.first().map(|line| &line.path);
    let above = path.ancestors().filter(|ancestor| decided.is_none_or(|path| path != ancestor));
    let above = above.filter_map(|ancestor| policy.at(ancestor).first().cloned()).collect();
    Judged { state, by, lines: lines.to_vec(), above }
}

fn through_mounts<'p>(policy: &'p Policy, path: &Path) -> Found<'p> {
    let from_the_root: Vec<&Path> = path.ancestors().collect();
    let root = (State::ReadOnly, By::Root, &[][..]);
    from_the_root
        .into_iter()
        .rev()
        .fold(root, |above, path| at(policy, path, above.0).unwrap_or(above))
}

/// Judges single files that path rules do not decide about.
fn special(policy: &Policy, path: &Path) -> Option<(State, By)> {
    let is = |list: &[PathBuf]| list.iter().any(|entry| entry == path);
    if path.starts_with(RUNTIME_DIR) {
        return Some((State::Own, By::OwnDir { dir: RUNTIME_DIR }));
    }
    if is(&policy.covers) {
        return Some((State::ReadOnly, By::Launcher { commands: covering(policy, path) }));
    }
    if is(&policy.copies) {
        return Some((State::ReadOnly, By::Copy));
    }
    is(&policy.sockets).then_some((State::Hidden, By::Socket))
}

fn covering(policy: &Policy, path: &Path) -> Vec<String> {
    let ruled = policy.commands.iter().filter(|ruling| {
        ruling.rule.value != CommandRule::Raw && ruling.targets.iter().any(|target| target == path)
    });
    ruled.map(|ruling| ruling.name.clone()).collect()
}

/// Returns the verdict about exactly this path, where the directory above it shows `above`.
fn at<'p>(policy: &'p Policy, path: &Path, above: State) -> Option<Found<'p>> {
    if let Some(mount) = mount_at(policy, path) {
        let Bind { source, target, origin, .. } = mount.clone();
        return Some((view_state(mount.view), By::Mount { source, target, origin }, &[]));
    }
    let own_dir = own_dir_at(policy, path);
    let before = if own_dir.is_some() { State::Own } else { above };
    let lines = policy.at(path);
    let is_device = before == State::Own && BaseView::of(path, policy.tmp.value) == BaseView::Own;
    let state = match lines.first().map(|line| line.access) {
        // A path that is not visible needs no hiding.
        Some(Access::Exclude) if before >= State::Hidden => None,
        // Device nodes in the private `/dev` are always writable.
        Some(_) if is_device => Some(State::Writable),
        access => access.map(access_state),
    };
    let ruled = state.map(|state| (state, By::Rule, lines));
    ruled.or_else(|| own_dir.map(|dir| (State::Own, By::OwnDir { dir }, &[][..])))
}

fn mount_at<'p>(policy: &'p Policy, path: &Path) -> Option<&'p Bind> {
    policy.mounts.iter().find(|mount| mount.target == path && mount.view != View::Pin)
}

fn view_state(view: View) -> State {
    match view {
        View::ReadWrite | View::Pin | View::Device => State::Writable,
        View::ReadOnly => State::ReadOnly,
        View::EmptyFile | View::EmptyDir => State::Hidden,
    }
}

fn access_state(access: Access) -> State {
    match access {
        Access::Rw => State::Writable,
        Access::Ro => State::ReadOnly,
        Access::Exclude => State::Hidden,
    }
}

/// Returns the private directory of the sandbox that begins at a path.
fn own_dir_at(policy: &Policy, path: &Path) -> Option<&'static str> {
    let private = policy.tmp.value == Tmp::Private;
    let own = ["/proc", "/dev", "/run", "/tmp"];
    own.into_iter().find(|dir| path == Path::new(dir) && (*dir != "/tmp" || private))
}
