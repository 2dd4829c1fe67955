//! Sessions that cannot be registered.

use sandbox_policy::catalog::UnknownProvider;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::credential::{PlacementError, SourceError};
use crate::route::RouteError;
use crate::server_tools::NoTool;
use crate::upstream::TargetError;

/// A session that cannot be registered.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// No such provider.
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    /// No server.
    #[error("the provider `{0}` has no server of its own")]
    NoUpstream(String),
    /// Not a server.
    #[error("`upstream_url` cannot be used")]
    Upstream(#[from] TargetError),
    /// No key, or two.
    #[error("a session needs one of `api_key` and `secret`")]
    Key,
    /// The key cannot be sent.
    #[error("the key is empty or has characters that no header can carry")]
    KeyText,
    /// The reference means nothing.
    #[error("the secret cannot be used")]
    Source(#[from] SourceError),
    /// The key would go nowhere.
    #[error("`credential` cannot be used")]
    Placement(#[from] PlacementError),
    /// Not a header that can be set.
    #[error("`headers` has `{0}`, which the proxy does not set")]
    Header(String),
    /// Not a rule.
    #[error("`routes` cannot be used")]
    Route(#[from] RouteError),
    /// Not a tool.
    #[error("`server_tools` cannot be used")]
    ServerTool(#[from] NoTool),
    /// Would be a path or a control character elsewhere.
    #[error("a sandbox's id has 1 to 128 letters, digits, `-`, `_`, `.` or `:`")]
    SandboxId,
}

impl Hint for RegistrationError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Provider(unknown) => return unknown.hint(),
            Self::NoUpstream(_) => "give an `upstream_url`".into(),
            Self::Upstream(_) => "write the server's address, such as `https://api.example.com`".into(),
            Self::Key => "send the key as `api_key`, or say where it is as `secret`".into(),
            Self::KeyText => "look for a line break or a blank at the end of the key".into(),
            Self::Source(error) => error.hint.clone(),
            Self::Placement(_) => "write `{\"header\": {\"name\": \"x-key\", \"format\": \"Token {}\"}}`, `query` or `basic`".into(),
            Self::Header(_) => "credentials go by `credential`; headers of the connection are the proxy's own".into(),
            Self::Route(_) => "write rules such as `POST /v1/messages`".into(),
            Self::ServerTool(_) => "write types such as `web_search`, or `*` for everything".into(),
            Self::SandboxId => "use the id that the sandbox was started with".into(),
        })
    }
}
