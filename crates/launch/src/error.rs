//! Errors of a run that did not start.

use std::error::Error;
use std::fmt;

use sandbox_core::doctor;
use sandbox_core::inspect::InspectError;
use sandbox_core::plan::{Plan, PlanError};
use sandbox_core::run::StartError;
use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

/// Failure before the command ran.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The policy cannot be turned into a plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run cannot be recorded.
    #[error(transparent)]
    Guard(#[from] InspectError),
    /// The sandbox did not start.
    #[error(transparent)]
    Start(NotStarted),
    /// A secret is not available.
    #[cfg(feature = "proxy")]
    #[error(transparent)]
    Credential(#[from] crate::credentials::CredentialError),
    /// The proxy cannot be started or reached.
    #[cfg(feature = "proxy")]
    #[error(transparent)]
    Proxy(#[from] crate::egress::ProxyError),
    /// The session's layers cannot be opened.
    #[cfg(feature = "layers")]
    #[error(transparent)]
    Layers(#[from] crate::layers::LayersError),
    /// The policy uses a feature that this build leaves out.
    #[error("`{key}` needs the feature `{feature}`, which this build leaves out")]
    Without {
        /// The configuration key.
        key: &'static str,
        /// The Cargo feature.
        feature: &'static str,
    },
}

impl From<StartError> for LaunchError {
    fn from(error: StartError) -> Self {
        let hint = error.hint();
        Self::Start(NotStarted { error, hint })
    }
}

/// A sandbox that did not start, with a hint for this machine.
#[derive(Debug)]
pub struct NotStarted {
    error: StartError,
    hint: Option<String>,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for NotStarted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl LaunchError {
    /// Returns the error of a sandbox that did not start, with a hint for this machine.
    pub(crate) fn start(error: StartError, plan: &Plan, host: &Host) -> Self {
        let hint = match &error {
            StartError::Overlay(_) => Some(plan.overlay_remedy()),
            StartError::Attach(_) => error.hint(),
            _ => doctor::cause(host).or_else(|| error.hint()),
        };
        Self::Start(NotStarted { error, hint })
    }
}

impl Hint for LaunchError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Guard(error) => error.hint(),
            Self::Start(failure) => failure.hint.clone(),
            #[cfg(feature = "proxy")]
            Self::Credential(error) => error.hint(),
            #[cfg(feature = "proxy")]
            Self::Proxy(error) => error.hint(),
            #[cfg(feature = "layers")]
            Self::Layers(error) => error.hint(),
            Self::Without { feature, .. } => {
                Some(format!("build with `--features {feature}`, or drop the key"))
            }
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Plan(error) => error.exit_code(),
            #[cfg(feature = "proxy")]
            Self::Credential(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}
