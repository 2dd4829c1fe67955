//! Why a path, a host, a command or a variable is as it is in the sandbox, and what would change it.
//!
//! Outside, the answers come from the plan of the sandbox that would be made, and every change
//! that is offered was planned too. Inside, they come from the description that the sandbox around
//! left at `/run/agent-sandbox/policy`, and from those of the sandboxes around that one: the
//! strictest counts.
//!
//! ```no_run
//! use sandbox_core::{plan::plan, why::Explainer};
//! use sandbox_policy::{Host, config::Request};
//!
//! let (host, request) = (Host::read(), Request::default());
//! let plan = plan(&host, &request)?;
//! let answer = Explainer::of_plan(&host, &request, &plan).path("~/.ssh".as_ref())?;
//! println!("{:?} by {:?}", answer.answer.verdict, answer.answer.rule);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod policy;
mod judge;
mod change;
mod path;
mod command;
mod variable;
mod network;
pub mod page;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{self, RUNTIME_DIR, runtime};
use sandbox_protocol::{ExitCode, Hint};
use serde::Serialize;
use thiserror::Error;

pub use change::Change;
pub use command::{CommandAnswer, CommandVerdict};
pub use judge::{By, State};
pub use network::NetworkAnswer;
pub use path::{PathAnswer, Verdict};
pub use policy::{Line, Policy, describe};
pub use variable::{VariableAnswer, VariableVerdict};

use change::Step;

use crate::plan::{Plan, plan_config};
use sandbox_policy::config::Request;
use sandbox_policy::host::Host;

impl Plan {
    /// Adds the description by which `why` answers inside the sandbox.
    #[must_use]
    pub fn described(mut self) -> Self {
        self.runtime.policy = describe(&self);
        self
    }
}

/// More sandboxes around this one than anybody has use for.
const MAX_DEPTH: usize = 32;

/// A question that has no answer.
#[derive(Debug, Error)]
pub enum WhyError {
    /// The question makes no sense.
    #[error("{what} `{}` {problem}", text.escape_debug())]
    Question {
        /// What was asked about.
        what: &'static str,
        /// What was typed.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The sandbox around left no description that can be read.
    #[error("the sandbox around this process left no description at `{}`", path.display())]
    Undescribed {
        /// Where it should be.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl Hint for WhyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Question { .. } => None,
            Self::Undescribed { .. } => {
                Some("it was started by another version: ask outside".to_owned())
            }
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Question { .. } => ExitCode::Usage,
            Self::Undescribed { .. } => ExitCode::Setup,
        }
    }
}

/// An answer, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained<A> {
    /// Whether it speaks of the sandbox around this process.
    pub inside: bool,
    /// How many sandboxes there are around it, or 1 for the one that would be made.
    pub sandboxes: usize,
    /// Which of them decides: 1 is the innermost.
    pub decided_by: usize,
    /// The answer.
    #[serde(flatten)]
    pub answer: A,
}

/// What answers of several sandboxes are compared by.
trait Answer {
    /// The higher, the stricter.
    fn strictness(&self) -> usize;
    /// What would change it.
    fn changes(&mut self) -> &mut Vec<Change>;
    /// Whether this sandbox has nothing against an outcome.
    fn allows(&self, to: &str) -> bool;
}

/// Answers questions about one sandbox, or about all that are around this process.
#[derive(Debug)]
pub struct Explainer<'a> {
    host: &'a Host,
    request: Option<&'a Request>,
    /// Innermost first.
    levels: Vec<Policy>,
}

impl<'a> Explainer<'a> {
    /// About the sandbox that a plan would make.
    pub fn of_plan(host: &'a Host, request: &'a Request, plan: &Plan) -> Self {
        Self { host, request: Some(request), levels: vec![Policy::of(plan)] }
    }

    /// About the sandboxes around this process.
    pub fn around(host: &'a Host) -> Result<Self, WhyError> {
        Self::left_in(host, Path::new(RUNTIME_DIR))
    }

    fn left_in(host: &'a Host, runtime: &Path) -> Result<Self, WhyError> {
        let mut dir = runtime.to_path_buf();
        let mut levels = Vec::new();
        while levels.len() < MAX_DEPTH {
            let path = dir.join(runtime::POLICY);
            let read = fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
            levels.push(read.map_err(|source| WhyError::Undescribed { path, source })?);
            dir.push(runtime::OUTER);
            if !dir.join(layout::BINARY).try_exists().unwrap_or(false) {
                break;
            }
        }
        Ok(Self { host, request: None, levels })
    }

    /// About a path, as the command would name it.
    pub fn path(&self, path: &Path) -> Result<Explained<PathAnswer>, WhyError> {
        let mut at = self.absolute(path)?;
        let mut answers = Vec::new();
        for (level, policy) in self.levels.iter().enumerate() {
            answers.push(path::answer(self, level, &at));
            at = path::outward(policy, &at);
        }
        Ok(self.strictest(answers))
    }

    /// About a host on the network.
    pub fn host(&self, name: &str) -> Result<Explained<NetworkAnswer>, WhyError> {
        let asked = network::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| network::answer(self, level, &asked)).collect()))
    }

    /// About a command, by its name.
    pub fn command(&self, name: &str) -> Result<Explained<CommandAnswer>, WhyError> {
        command::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| command::answer(self, level, name)).collect()))
    }

    /// About a variable of the environment.
    pub fn variable(&self, name: &str) -> Result<Explained<VariableAnswer>, WhyError> {
        variable::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| variable::answer(self, level, name)).collect()))
    }

    fn is_outside(&self) -> bool {
        self.request.is_some()
    }

    /// The sandbox as it would be after some steps: planned outside, imagined inside.
    fn attempt(&self, level: usize, steps: &[Step]) -> Option<Policy> {
        let Some(request) = self.request else {
            let mut policy = self.levels[level].clone();
            for step in steps {
                step.imagine(&mut policy);
            }
            return Some(policy);
        };
        let mut request = request.clone();
        for step in steps {
            step.type_in(&mut request);
        }
        let mut config = sandbox_policy::config::load(self.host, &request).ok()?;
        for step in steps {
            step.write_in(&mut config);
        }
        plan_config(self.host, config, Vec::new()).ok().map(|plan| Policy::of(&plan))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf, WhyError> {
        let refuse = |problem: &str| WhyError::Question {
            what: "the path",
            text: path.to_string_lossy().into_owned(),
            problem: problem.to_owned(),
        };
        if path.as_os_str().is_empty() {
            return Err(refuse("is empty"));
        }
        if let Ok(rest) = path.strip_prefix("~") {
            let home = self.host.home.as_ref().ok_or_else(|| refuse("needs `HOME` to be set"))?;
            return Ok(home.join(rest));
        }
        // Outside, the command would start in the effective directory; inside, this process knows.
        let here = if self.is_outside() { None } else { self.host.cwd.as_deref() };
        Ok(here.unwrap_or(&self.levels[0].cwd).join(path))
    }

    /// A path as a user would type it: below the working directory, below home, or from the root.
    fn spell(&self, policy: &Policy, path: &Path) -> Option<String> {
        if let Ok(rest) = path.strip_prefix(&policy.cwd) {
            let text = rest.to_str()?;
            return Some(match text.chars().next() {
                None => ".".to_owned(),
                Some('!' | '~' | '-') => format!("./{text}"),
                Some(_) => text.to_owned(),
            });
        }
        let home = self.host.home.as_deref().filter(|home| home.parent().is_some());
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_path_buf)) {
            Some(rest) if rest.as_os_str().is_empty() => Some("~".to_owned()),
            Some(rest) => Some(format!("~/{}", rest.to_str()?)),
            None => Some(path.to_str()?.to_owned()),
        }
    }

    /// Of several sandboxes the strictest decides, and a change helps only if no other is against it.
    fn strictest<A: Answer>(&self, answers: Vec<A>) -> Explained<A> {
        let sandboxes = answers.len();
        let most = answers.iter().map(Answer::strictness).max().unwrap_or(0);
        let decides = answers.iter().position(|answer| answer.strictness() == most).unwrap_or(0);
        let mut answers = answers;
        let mut answer = answers.remove(decides);
        answer.changes().retain(|change| answers.iter().all(|other| other.allows(change.to)));
        Explained { inside: !self.is_outside(), sandboxes, decided_by: decides + 1, answer }
    }
}
