//! Errors of session registration.

use sandbox_policy::catalog::UnknownProvider;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::credential::{PlacementError, SourceError};
use crate::route::RouteError;
use crate::server_tools::NoTool;
use crate::upstream::TargetError;

/// Failure to register a session.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// Unknown provider.
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    /// No server to forward to.
    #[error("provider `{0}` has no default server")]
    NoUpstream(String),
    /// Invalid server URL.
    #[error("invalid `upstream_url`")]
    Upstream(#[from] TargetError),
    /// No key, or two.
    #[error("a session needs exactly one of `api_key` and `secret`")]
    Key,
    /// The key cannot be sent in a header.
    #[error("the key is empty or contains characters that are not allowed in a header")]
    KeyText,
    /// Invalid reference to a secret.
    #[error("invalid `secret`")]
    Source(#[from] SourceError),
    /// Invalid placement of the key.
    #[error("invalid `credential`")]
    Placement(#[from] PlacementError),
    /// A header that cannot be set.
    #[error("cannot set `{0}` with `headers`")]
    Header(String),
    /// Invalid route.
    #[error("invalid `routes`")]
    Route(#[from] RouteError),
    /// Invalid tool name.
    #[error("invalid `server_tools`")]
    ServerTool(#[from] NoTool),
    /// Characters that would be unsafe in a path or a log.
    #[error("invalid sandbox ID: it must have 1 to 128 letters, digits, `-`, `_`, `.` or `:`")]
    SandboxId,
}

impl Hint for RegistrationError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Provider(unknown) => return unknown.hint(),
            Self::NoUpstream(_) => "set `upstream_url`".into(),
            Self::Upstream(_) => "use the server's URL, such as `https://api.example.com`".into(),
            Self::Key => "send the key as `api_key`, or a reference to it as `secret`".into(),
            Self::KeyText => "check the key for a line break or space at its end".into(),
            Self::Source(error) => error.hint.clone(),
            Self::Placement(_) => "use `{\"header\": {\"name\": \"x-key\", \"format\": \"Token {}\"}}`, `query` or `basic`".into(),
            Self::Header(_) => "use `credential` for credentials; headers of the connection cannot be set".into(),
            Self::Route(_) => "use rules such as `POST /v1/messages`".into(),
            Self::ServerTool(_) => "use types such as `web_search`, or `*` for all".into(),
            Self::SandboxId => "use the ID that the sandbox was started with".into(),
        })
    }
}
