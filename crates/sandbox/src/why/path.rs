//! `why PATH`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use sandbox_protocol::layout::FILES_DIR;
use serde::Serialize;

use super::change::{Change, Step, word};
use super::judge::{By, Judged, State, judge};
use super::policy::{Line, Policy, bytes, list};
use super::{Answer, Explainer};
use crate::plan::View;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, Layer};
use sandbox_policy::path::Kind;
use sandbox_policy::path::resolve::{ResolvedPath, Resolver};

/// Answer about a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathAnswer {
    /// The path in question, absolute.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// The path after resolving symlinks.
    #[serde(with = "bytes")]
    pub real: PathBuf,
    /// The directories of the symlinks that were followed.
    #[serde(with = "list")]
    pub links: Vec<PathBuf>,
    /// True when the path exists; `None` when that cannot be seen from here.
    pub exists: Option<bool>,
    /// The verdict.
    pub verdict: Verdict,
    /// Access to the path, even if it does not exist.
    pub state: State,
    /// The cause of the decision.
    pub by: By,
    /// The rule that decides, if it is a rule.
    pub rule: Option<Line>,
    /// Rules for the same path that it beat.
    pub beaten: Vec<Line>,
    /// Rules for shorter paths that it beat, the longest path first.
    pub above: Vec<Line>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Suggested changes.
    pub changes: Vec<Change>,
}

/// Verdict about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The command can read and write it.
    Writable,
    /// The command can only read it.
    ReadOnly,
    /// It does not exist.
    Missing,
    /// It exists on the host, but the command cannot see it.
    Hidden,
    /// The sandbox has a private one instead.
    Own,
}

impl Answer for PathAnswer {
    fn strictness(&self) -> usize {
        self.state as usize
    }

    fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    fn allows(&self, to: &str) -> bool {
        word(self.state) == to || matches!((self.state, to), (State::Writable, "read-only"))
    }
}

/// A question about one path in one sandbox.
pub(super) struct Question<'a> {
    explainer: &'a Explainer<'a>,
    level: usize,
    policy: &'a Policy,
    path: PathBuf,
    place: ResolvedPath,
}

/// Answers a question about a path in one of the sandboxes.
pub(super) fn answer(explainer: &Explainer<'_>, level: usize, path: &Path) -> PathAnswer {
    let policy = &explainer.levels[level];
    let place = if explainer.is_outside() { follow(path) } else { follow_inside(path) };
    let question = Question { explainer, level, policy, path: path.to_path_buf(), place };
    question.answer()
}

/// Returns the path in the enclosing sandbox, which may have another name there because of a mount.
pub(super) fn outward(policy: &Policy, path: &Path) -> PathBuf {
    let real = follow_inside(path).path;
    match judge(policy, &real).by {
        By::Mount { source, target, .. } => {
            real.strip_prefix(&target).map_or(path.to_path_buf(), |rest| source.join(rest))
        }
        _ => path.to_path_buf(),
    }
}

/// Resolves symlinks and `..` as the kernel does (`path_resolution(7)`).
fn follow(path: &Path) -> ResolvedPath {
    walk(path, |_, place| place)
}

/// Resolves symlinks inside a sandbox. There, a writable file of the home directory is a symlink into `FILES_DIR`, because
/// of the overlay on the home directory. Such a file keeps its name.
fn follow_inside(path: &Path) -> ResolvedPath {
    walk(path, |name, place| {
        let shown = place.path.starts_with(FILES_DIR) && !name.starts_with(FILES_DIR);
        if shown { ResolvedPath { path: name, kind: place.kind, links: Vec::new() } } else { place }
    })
}

fn walk(path: &Path, seen: impl Fn(PathBuf, ResolvedPath) -> ResolvedPath) -> ResolvedPath {
    let mut resolver = Resolver::default();
    let mut at = ResolvedPath { path: "/".into(), kind: Kind::Dir, links: Vec::new() };
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                let name = at.path.join(name);
                let found = resolver.place(&name);
                let mut next = seen(name, found);
                at.links.append(&mut next.links);
                at = ResolvedPath { links: at.links, ..next };
            }
            Component::ParentDir => {
                at.path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    at.links.dedup();
    at
}

impl Question<'_> {
    fn answer(&self) -> PathAnswer {
        let judged = self.judged(self.policy);
        let exists = self.exists(&judged);
        let verdict = match judged.state {
            State::Hidden => Verdict::Hidden,
            State::Own => Verdict::Own,
            _ if exists == Some(false) => Verdict::Missing,
            State::Writable => Verdict::Writable,
            State::ReadOnly => Verdict::ReadOnly,
        };
        let mut lines = judged.lines.iter().cloned();
        PathAnswer {
            path: self.path.clone(),
            real: self.place.path.clone(),
            links: self.place.links.clone(),
            exists,
            verdict,
            state: judged.state,
            rule: lines.next(),
            beaten: lines.collect(),
            notes: self.notes(&judged, verdict),
            changes: self.changes(&judged, verdict),
            above: judged.above,
            by: judged.by,
        }
    }

    /// Judges the path, or the first followed symlink that is not visible.
    fn judged(&self, policy: &Policy) -> Judged {
        let followed = self.place.links.iter().map(|dir| judge(policy, dir));
        let mut hidden = followed.filter(|judged| judged.state >= State::Hidden);
        hidden.next().unwrap_or_else(|| judge(policy, &self.place.path))
    }

    fn exists(&self, judged: &Judged) -> Option<bool> {
        if let By::Mount { source, target, .. } = &judged.by
            && self.explainer.is_outside()
        {
            let rest = self.place.path.strip_prefix(target).unwrap_or(Path::new(""));
            return source.join(rest).symlink_metadata().map(|_| true).ok().or(Some(false));
        }
        let seen = self.place.kind != Kind::Missing;
        (self.explainer.is_outside() || judged.state < State::Hidden).then_some(seen)
    }

    fn notes(&self, judged: &Judged, verdict: Verdict) -> Vec<String> {
        let mut notes = Vec::new();
        let path = &self.place.path;
        if verdict == Verdict::Missing {
            notes.extend(self.waiting_rule());
            notes.push(
                match judged.state {
                    State::Writable => "the command can create it",
                    _ => "the command cannot create it",
                }
                .into(),
            );
        }
        notes.extend(judged.lines.first().and_then(reason).map(str::to_owned));
        if judged.state < State::Hidden && self.is_socket(judged) {
            notes.push("it is a socket: the command can connect to its listener".into());
        }
        let pinned = |mount: &super::policy::Bind| {
            mount.view == View::Pin && mount.target == *path && judged.state == State::Writable
        };
        if let Some(pin) = self.policy.mounts.iter().find(|mount| pinned(mount)) {
            notes.push(format!("it cannot be renamed or removed ({})", pin.origin));
        }
        let isolated = self.policy.cow_roots.iter().any(|root| path.starts_with(root));
        if isolated && judged.state == State::Writable {
            notes.push("changes are isolated until they are applied (`cow`)".into());
        }
        let denied = verdict == Verdict::Writable
            && self.explainer.is_outside()
            && self.explainer.host.uid != 0
            && !sandbox_linux::file::writable(path);
        if denied {
            notes.push("its file permissions do not let this user write it".into());
        }
        notes
    }

    /// Describes the effect of a rule for a path that does not exist yet.
    fn waiting_rule(&self) -> Option<String> {
        let line =
            self.policy.missing.iter().find(|line| self.place.path.starts_with(&line.path))?;
        let by = format!("`{}` ({})", line.pattern, line.origin);
        let in_overlay = self.policy.home_overlay.iter().any(|dir| line.path.starts_with(dir));
        match line.access {
            Access::Exclude if in_overlay => Some(format!(
                "if it appears during a run, {by} hides it with an overlay on the home directory; plain bubblewrap cannot hide paths that do not exist yet"
            )),
            Access::Exclude => Some(format!(
                "{by} hides it from the next run on, if it exists then; paths that appear during a run are not hidden"
            )),
            Access::Ro if line.layer > Layer::Builtin => Some(format!(
                "{by} does not prevent its creation; the scan at the end of a run reports it"
            )),
            Access::Ro => {
                Some(format!("{by} makes it read-only from the next run on, if it exists then"))
            }
            Access::Rw => None,
        }
    }
}

/// Suggested changes.
impl Question<'_> {
    fn changes(&self, judged: &Judged, verdict: Verdict) -> Vec<Change> {
        let mut found: Vec<(&'static str, Vec<Step>)> = Vec::new();
        let goals: &[State] = match (judged.state, verdict) {
            (State::Writable, Verdict::Missing) => &[],
            (_, Verdict::Missing) => &[State::Writable],
            (State::Writable, _) => &[State::ReadOnly, State::Hidden],
            (State::ReadOnly, _) => &[State::Writable, State::Hidden],
            (State::Hidden | State::Own, _) => &[State::ReadOnly, State::Writable],
        };
        for goal in goals {
            let candidates = self.candidates(judged, *goal);
            let works = candidates
                .into_iter()
                .find_map(|(steps, extend)| self.works(judged.state, *goal, steps, extend));
            let Some((to, steps)) = works else { continue };
            let known = found.iter().position(|(known, _)| *known == to);
            match known {
                // The steps for exactly this goal are simpler than steps that went beyond another goal.
                Some(at) if to == word(*goal) => found[at] = (to, steps),
                Some(_) => {}
                None => found.push((to, steps)),
            }
        }
        let mut changes: Vec<Change> =
            found.iter().filter_map(|(to, steps)| Change::of(to, steps)).collect();
        if verdict == Verdict::Missing && judged.state != State::Writable && changes.is_empty() {
            changes.extend(self.after_creating());
        }
        changes
    }

    /// Returns steps that may reach the goal, the smallest first. The flag allows adding more steps of that kind.
    fn candidates(&self, judged: &Judged, goal: State) -> Vec<(Vec<Step>, bool)> {
        let access = match goal {
            State::Writable => Access::Rw,
            State::ReadOnly => Access::Ro,
            State::Hidden | State::Own => Access::Exclude,
        };
        let add = self.add(access);
        let back = against(&judged.lines, access);
        let both: Vec<Step> = back.iter().chain(&add).cloned().collect();
        let exact = judged.lines.first().is_some_and(|line| line.path == self.place.path);
        let mut all = if exact {
            vec![(back, true), (both, true), (add, false)]
        } else {
            vec![(add, false), (back, true), (both, true)]
        };
        for steps in self.special(judged, access) {
            all.insert(0, (steps, false));
        }
        if matches!(judged.by, By::OwnDir { dir: "/tmp" }) {
            let first = self.place.path == Path::new("/tmp") && access == Access::Rw;
            all.insert(if first { 0 } else { all.len() }, (vec![Step::HostTmp], false));
        }
        all.retain(|(steps, _)| !steps.is_empty());
        all
    }

    /// Returns steps other than path rules. The last is tried first.
    fn special(&self, judged: &Judged, access: Access) -> Vec<Vec<Step>> {
        match &judged.by {
            By::Launcher { commands } => {
                let free = |name: &String| Step::Command(name.clone(), CommandRule::Raw);
                vec![commands.iter().map(free).collect()]
            }
            By::Mount { origin, .. } if access != Access::Exclude => {
                vec![vec![Step::Mode(origin.clone(), access)]]
            }
            _ if access == Access::Rw && self.is_socket(judged) => {
                let path = &self.place.path;
                let text = self.explainer.spell(self.policy, path);
                let open = text.map(|text| vec![Step::Socket(text, path.clone())]);
                open.into_iter().chain([vec![Step::Docker]]).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_socket(&self, judged: &Judged) -> bool {
        let meta = self.place.path.symlink_metadata();
        judged.by == By::Socket || meta.is_ok_and(|meta| meta.file_type().is_socket())
    }

    /// Returns the step that adds a rule for the path, or for its nearest existing parent.
    fn add(&self, access: Access) -> Vec<Step> {
        let mut path = self.place.path.as_path();
        if self.explainer.is_outside() {
            while path.symlink_metadata().is_err()
                && let Some(parent) = path.parent()
            {
                path = parent;
            }
        }
        // Never suggest opening the whole home directory or the whole machine for one missing file.
        let home = self.explainer.host.home.as_deref().unwrap_or(Path::new("/"));
        let too_much = path != self.place.path && follow(home).path.starts_with(path);
        let text = self.explainer.spell(self.policy, path);
        let text = text.filter(|_| !too_much && path.parent().is_some());
        text.map(|text| Step::Add(access, text, path.to_path_buf())).into_iter().collect()
    }

    /// Returns the change that would make the path writable if it existed. The rules for missing paths are known only
    /// outside.
    fn after_creating(&self) -> Option<Change> {
        let path = &self.place.path;
        let waiting: Vec<Line> =
            self.policy.missing.iter().filter(|line| line.path == *path).cloned().collect();
        let mut steps = against(&waiting, Access::Rw);
        let text = self.explainer.spell(self.policy, path)?;
        steps.push(Step::Add(Access::Rw, text, path.clone()));
        let mut policy = self.policy.clone();
        policy.rules.extend(waiting);
        policy.sort();
        for step in &steps {
            step.apply_to_policy(&mut policy);
        }
        let works = self.explainer.is_outside() && self.judged(&policy).state == State::Writable;
        let mut change = works.then(|| Change::of(word(State::Writable), &steps)).flatten()?;
        change
            .edit
            .push("first create it outside the sandbox: rules apply only to existing paths".into());
        Some(change)
    }

    /// Tries the steps. If another rule then decides, that rule is negated too.
    fn works(
        &self,
        now: State,
        goal: State,
        mut steps: Vec<Step>,
        extend: bool,
    ) -> Option<(&'static str, Vec<Step>)> {
        for _ in 0..4 {
            let policy = self.explainer.attempt(self.level, &steps)?;
            let judged = self.judged(&policy);
            let reached = if goal < now { judged.state <= goal } else { judged.state == goal };
            if matches!(steps[..], [Step::Command(..), ..]) {
                let lifted = !matches!(judged.by, By::Launcher { .. });
                return lifted.then_some(("uncovered", steps));
            }
            if reached && judged.state != now {
                return Some((word(judged.state), steps));
            }
            let wanted = if goal == State::Writable { Access::Rw } else { Access::Ro };
            let more = against(&judged.lines, wanted);
            let more: Vec<Step> = more.into_iter().filter(|step| !steps.contains(step)).collect();
            if !extend || more.is_empty() {
                return None;
            }
            steps.splice(0..0, more);
        }
        None
    }
}

/// Returns the reason for a rule, if its text does not tell.
fn reason(line: &Line) -> Option<&'static str> {
    match (line.preset(), line.access) {
        (Some("@git" | "@git-strict"), Access::Ro) => Some(
            "git on the host acts on its content: change it outside the sandbox, where you see what runs",
        ),
        (None, Access::Ro | Access::Exclude) if line.layer == Layer::Builtin => {
            Some("files that configure sandboxes cannot be changed from inside one")
        }
        _ => None,
    }
}

/// Returns the steps that disable all stricter rules. Returns no steps when one of the rules cannot be disabled.
fn against(lines: &[Line], access: Access) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines.iter().filter(|line| line.access > access) {
        let Some(step) = Step::against(line) else { return Vec::new() };
        let same = |other: &Step| match (other, &step) {
            (Step::Negate(one), Step::Negate(two)) => {
                (one.access, &one.pattern) == (two.access, &two.pattern)
            }
            (one, two) => one == two,
        };
        if !steps.iter().any(same) {
            steps.push(step);
        }
    }
    steps
}
