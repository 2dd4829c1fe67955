//! Explanations of the policy for a path, a host, a command or a variable, and changes to it.
//!
//! Outside, the answers come from the plan of the sandbox that would be started. Every suggested change
//! was planned too. Inside, they come from the description of the enclosing sandbox at
//! `/run/agent-sandbox/policy`, and from those of the sandboxes that enclose that one. The strictest
//! answer counts.
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
    /// Adds the description from which `why` answers inside the sandbox.
    #[must_use]
    pub fn described(mut self) -> Self {
        self.runtime.policy = describe(&self);
        self
    }
}

/// Maximum number of nested sandboxes that are considered.
const MAX_DEPTH: usize = 32;

/// Error from answering a question.
#[derive(Debug, Error)]
pub enum WhyError {
    /// The question is invalid.
    #[error("{what} `{}` {problem}", text.escape_debug())]
    Question {
        /// Kind of subject, with its article.
        what: &'static str,
        /// The subject as the user typed it.
        text: String,
        /// The problem with it, a verb phrase.
        problem: String,
    },
    /// The description of an enclosing sandbox cannot be read.
    #[error("cannot read the policy of the enclosing sandbox from `{}`", path.display())]
    Undescribed {
        /// Expected path of the description.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Hint for WhyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Question { .. } => None,
            Self::Undescribed { .. } => Some(
                "another version may have started it; run `why` outside the sandbox".to_owned(),
            ),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Question { .. } => ExitCode::Usage,
            Self::Undescribed { .. } => ExitCode::Setup,
        }
    }
}

/// An answer, and the sandbox that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained<A> {
    /// True when it is about the sandbox that encloses this process.
    pub inside: bool,
    /// Number of sandboxes that enclose this process, or 1 for the one that would be started.
    pub sandboxes: usize,
    /// Number of the sandbox that decides: 1 is the innermost.
    pub decided_by: usize,
    /// The answer.
    #[serde(flatten)]
    pub answer: A,
}

/// Answer that can be compared with the answers of other sandboxes.
trait Answer {
    /// Returns the strictness: higher is stricter.
    fn strictness(&self) -> usize;
    /// Returns the changes that it suggests.
    fn changes(&mut self) -> &mut Vec<Change>;
    /// Returns true when this sandbox permits an outcome.
    fn allows(&self, to: &str) -> bool;
}

/// Source of answers about one sandbox, or about all that enclose this process.
#[derive(Debug)]
pub struct Explainer<'a> {
    host: &'a Host,
    request: Option<&'a Request>,
    /// Innermost first.
    levels: Vec<Policy>,
}

impl<'a> Explainer<'a> {
    /// Creates an explainer for the sandbox that a plan would start.
    pub fn of_plan(host: &'a Host, request: &'a Request, plan: &Plan) -> Self {
        Self { host, request: Some(request), levels: vec![Policy::of(plan)] }
    }

    /// Creates an explainer for the sandboxes that enclose this process.
    pub fn around(host: &'a Host) -> Result<Self, WhyError> {
        Self::from_dir(host, Path::new(RUNTIME_DIR))
    }

    fn from_dir(host: &'a Host, runtime: &Path) -> Result<Self, WhyError> {
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

    /// Explains a path, given as the command would name it.
    pub fn path(&self, path: &Path) -> Result<Explained<PathAnswer>, WhyError> {
        let mut at = self.absolute(path)?;
        let mut answers = Vec::new();
        for (level, policy) in self.levels.iter().enumerate() {
            answers.push(path::answer(self, level, &at));
            at = path::outward(policy, &at);
        }
        Ok(self.strictest(answers))
    }

    /// Explains a network host.
    pub fn host(&self, name: &str) -> Result<Explained<NetworkAnswer>, WhyError> {
        let asked = network::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| network::answer(self, level, &asked)).collect()))
    }

    /// Explains a command, given by its name.
    pub fn command(&self, name: &str) -> Result<Explained<CommandAnswer>, WhyError> {
        command::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| command::answer(self, level, name)).collect()))
    }

    /// Explains an environment variable.
    pub fn variable(&self, name: &str) -> Result<Explained<VariableAnswer>, WhyError> {
        variable::check(name)?;
        let levels = 0..self.levels.len();
        Ok(self.strictest(levels.map(|level| variable::answer(self, level, name)).collect()))
    }

    fn is_outside(&self) -> bool {
        self.request.is_some()
    }

    /// Returns the policy after some steps. Outside it is planned, inside it is derived from the description.
    fn attempt(&self, level: usize, steps: &[Step]) -> Option<Policy> {
        let Some(request) = self.request else {
            let mut policy = self.levels[level].clone();
            for step in steps {
                step.apply_to_policy(&mut policy);
            }
            return Some(policy);
        };
        let mut request = request.clone();
        for step in steps {
            step.apply_to_request(&mut request);
        }
        let mut config = sandbox_policy::config::load(self.host, &request).ok()?;
        for step in steps {
            step.apply_to_config(&mut config);
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
        // Outside, the command would start in the policy's directory. Inside, this process's directory counts.
        let here = if self.is_outside() { None } else { self.host.cwd.as_deref() };
        Ok(here.unwrap_or(&self.levels[0].cwd).join(path))
    }

    /// Returns a path as a user would type it: relative to the working directory, below `~`, or absolute.
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

    /// Returns the answer of the strictest sandbox. Keeps only changes that every other sandbox permits.
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
