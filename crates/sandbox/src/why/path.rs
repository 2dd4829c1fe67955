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
use sandbox_policy::path::resolve::{Place, Resolver};

/// What holds at a path, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathAnswer {
    /// The path that was asked about, absolute.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// Where it leads.
    #[serde(with = "bytes")]
    pub real: PathBuf,
    /// The directories of the symlinks on the way.
    #[serde(with = "list")]
    pub links: Vec<PathBuf>,
    /// Whether there is anything; `None` where that cannot be seen from here.
    pub exists: Option<bool>,
    /// The answer in one word.
    pub verdict: Verdict,
    /// What holds there, whether anything exists or not.
    pub state: State,
    /// What decides.
    pub by: By,
    /// The rule that decides, when it is one.
    pub rule: Option<Line>,
    /// Rules for the same path that it beat.
    pub beaten: Vec<Line>,
    /// Rules for shorter paths that it beat, the longest first.
    pub above: Vec<Line>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// What would change it.
    pub changes: Vec<Change>,
}

/// The answer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It can be changed.
    Writable,
    /// It can be read.
    ReadOnly,
    /// There is nothing.
    Missing,
    /// It is on the host, and not to be seen.
    Hidden,
    /// The sandbox has its own instead.
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
    place: Place,
}

/// Answers for one of the sandboxes.
pub(super) fn answer(explainer: &Explainer<'_>, level: usize, path: &Path) -> PathAnswer {
    let policy = &explainer.levels[level];
    let place = if explainer.is_outside() { follow(path) } else { follow_inside(path) };
    let question = Question { explainer, level, policy, path: path.to_path_buf(), place };
    question.answer()
}

/// The path inside the sandbox around: what is mounted elsewhere has another name there.
pub(super) fn outward(policy: &Policy, path: &Path) -> PathBuf {
    let real = follow_inside(path).path;
    match judge(policy, &real).by {
        By::Mount { source, target, .. } => {
            real.strip_prefix(&target).map_or(path.to_path_buf(), |rest| source.join(rest))
        }
        _ => path.to_path_buf(),
    }
}

/// Follows every symlink as the kernel does, `..` included.
fn follow(path: &Path) -> Place {
    walk(path, |_, place| place)
}

/// Follows links inside a sandbox. A writable file of the home directory is a link into our own directory there, by which
/// the overlay on home shows it; the file keeps its name.
fn follow_inside(path: &Path) -> Place {
    walk(path, |name, place| {
        let is_ours = place.path.starts_with(FILES_DIR) && !name.starts_with(FILES_DIR);
        if is_ours { Place { path: name, kind: place.kind, links: Vec::new() } } else { place }
    })
}

fn walk(path: &Path, seen: impl Fn(PathBuf, Place) -> Place) -> Place {
    let mut resolver = Resolver::default();
    let mut at = Place { path: "/".into(), kind: Kind::Dir, links: Vec::new() };
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                let name = at.path.join(name);
                let found = resolver.place(&name);
                let mut next = seen(name, found);
                at.links.append(&mut next.links);
                at = Place { links: at.links, ..next };
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

    /// The path's own outcome, or that of a symlink on the way which cannot be seen.
    fn judged(&self, policy: &Policy) -> Judged {
        let on_the_way = self.place.links.iter().map(|dir| judge(policy, dir));
        let mut hidden = on_the_way.filter(|judged| judged.state >= State::Hidden);
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
            notes.extend(self.should_it_appear());
            notes.push(
                match judged.state {
                    State::Writable => "the command may create it",
                    _ => "the command cannot create it",
                }
                .into(),
            );
        }
        notes.extend(judged.lines.first().and_then(reason).map(str::to_owned));
        if judged.state < State::Hidden && self.is_socket(judged) {
            notes.push("it is a socket: whoever listens on it can be reached".into());
        }
        let pinned = |mount: &super::policy::Bind| {
            mount.view == View::Pin && mount.target == *path && judged.state == State::Writable
        };
        if let Some(pin) = self.policy.mounts.iter().find(|mount| pinned(mount)) {
            notes.push(format!("it cannot be renamed or removed ({})", pin.origin));
        }
        let apart = self.policy.apart.iter().any(|root| path.starts_with(root));
        if apart && judged.state == State::Writable {
            notes.push("changes are kept apart until they are applied (`cow`)".into());
        }
        let denied = verdict == Verdict::Writable
            && self.explainer.is_outside()
            && self.explainer.host.uid != 0
            && !sandbox_linux::file::writable(path);
        if denied {
            notes.push("its own permissions do not let this user write it".into());
        }
        notes
    }

    /// What a rule for a path that does not exist can hold.
    fn should_it_appear(&self) -> Option<String> {
        let line =
            self.policy.missing.iter().find(|line| self.place.path.starts_with(&line.path))?;
        let by = format!("`{}` ({})", line.pattern, line.origin);
        let in_overlay = self.policy.home_overlay.iter().any(|dir| line.path.starts_with(dir));
        match line.access {
            Access::Exclude if in_overlay => Some(format!(
                "should it appear during a run, {by} hides it, by an overlay on the home directory; plain bubblewrap cannot hide what does not exist yet"
            )),
            Access::Exclude => Some(format!(
                "{by} hides it from the next run on, if it exists then; what appears during a run is not hidden"
            )),
            Access::Ro if line.layer > Layer::Builtin => Some(format!(
                "{by} does not keep it from being created; the end of a run reports it"
            )),
            Access::Ro => {
                Some(format!("{by} makes it read-only from the next run on, if it exists then"))
            }
            Access::Rw => None,
        }
    }
}

/// What would change it.
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
                // The goal's own way is plainer than one that went further than it should.
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

    /// What may help, the smallest first, and whether more of the same may be needed.
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

    /// What does not go by path rules; the last is tried first.
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

    /// A rule for the path, or for the nearest parent of what does not exist.
    fn add(&self, access: Access) -> Vec<Step> {
        let mut path = self.place.path.as_path();
        if self.explainer.is_outside() {
            while path.symlink_metadata().is_err()
                && let Some(parent) = path.parent()
            {
                path = parent;
            }
        }
        // Nobody opens the whole home or the whole machine for one file that is not there.
        let home = self.explainer.host.home.as_deref().unwrap_or(Path::new("/"));
        let too_much = path != self.place.path && follow(home).path.starts_with(path);
        let text = self.explainer.spell(self.policy, path);
        let text = text.filter(|_| !too_much && path.parent().is_some());
        text.map(|text| Step::Add(access, text, path.to_path_buf())).into_iter().collect()
    }

    /// What would make a path writable if it existed. Only outside is it known what rules wait for it.
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
            step.imagine(&mut policy);
        }
        let works = self.explainer.is_outside() && self.judged(&policy).state == State::Writable;
        let mut change = works.then(|| Change::of(word(State::Writable), &steps)).flatten()?;
        change.edit.push("create it first, outside: a rule needs something to hold on to".into());
        Some(change)
    }

    /// Tries the steps. Where another rule steps in, that one is taken back too.
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

/// Why there is such a rule, where its words do not tell.
fn reason(line: &Line) -> Option<&'static str> {
    match (line.preset(), line.access) {
        (Some("@git" | "@git-strict"), Access::Ro) => Some(
            "git on this machine obeys what stands there: change it outside, where you see what runs",
        ),
        (None, Access::Ro | Access::Exclude) if line.layer == Layer::Builtin => {
            Some("what decides about sandboxes cannot be changed from inside one")
        }
        _ => None,
    }
}

/// Steps against all rules that ask for more than this; nothing when one of them cannot be helped.
fn against(lines: &[Line], access: Access) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines.iter().filter(|line| line.access > access) {
        let Some(step) = Step::against(line) else { return Vec::new() };
        let same = |other: &Step| match (other, &step) {
            (Step::TakeBack(one), Step::TakeBack(two)) => {
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
