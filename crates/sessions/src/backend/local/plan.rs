//! Plan of a local session. Errors are found before anything is created.

use std::ffi::OsString;

use sandbox_core::plan::{Plan, plan_config};
use sandbox_core::render::shell;
use sandbox_launch::layers::create_data_dir;
use sandbox_policy::Host;
use sandbox_policy::config::Config;

use super::{AgentCommand, policy, shape};
use crate::backend::{Form, Notice, Planned};
use crate::error::ControlError;
use crate::session::Settings;

/// Plan that the session's supervisor will carry out.
pub(super) struct LocalPlan {
    host: Host,
    plan: Plan,
    policy: String,
    agent: AgentCommand,
}

impl LocalPlan {
    pub(super) fn of(host: &Host, config: Config) -> Result<Self, ControlError> {
        let (config, agent) = shape(config)?;
        let policy = policy(&config);
        create_data_dir(&config, host)?;
        let plan = plan_config(host, config, Vec::new())?;
        Ok(Self { host: host.clone(), plan, policy, agent })
    }
}

impl Planned for LocalPlan {
    fn policy(&self) -> String {
        self.policy.clone()
    }

    /// Excludes the locations of settings.
    fn settings(&self) -> serde_json::Result<Settings> {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let workdir = self.agent.workdir.iter().map(|dir| dir.to_string_lossy().into_owned());
        Ok(Settings::of(&self.plan.config, &["files", "loaded", "skipped"])?
            .with("agent", self.agent.argv.iter().map(text))
            .with("agent.workdir", workdir))
    }

    fn keeps_changes(&self) -> bool {
        self.plan.config.cow.value.is_on()
    }

    fn notices(&self) -> Vec<Notice> {
        self.plan.notes.iter().cloned().map(Notice::Note).collect()
    }

    fn show(&self, form: Form) -> serde_json::Result<String> {
        match form {
            Form::Text => Ok(shell::line(&self.plan, &self.host)),
            Form::Json => Ok(serde_json::to_string_pretty(&self.plan)? + "\n"),
        }
    }
}
