//! `secret`: what can be said about stored secrets.

use clap::{Args, Subcommand};

/// Keep secrets for sandboxes.
#[derive(Debug, Subcommand)]
pub(crate) enum Secret {
    /// Store a secret: asked for on a terminal without showing it, else read from standard input
    Set(Set),
    /// List what is stored, without the secrets
    List,
    /// Let go of a secret
    Rm {
        /// Its name
        name: String,
    },
    /// Ask the provider whether it takes a secret, by a call that costs nothing
    Test(Test),
}

/// Store a secret.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// What to call it
    pub name: String,
    /// Take it from the variable NAME
    #[arg(long, value_name = "NAME")]
    pub from_env: Option<String>,
}

/// Ask the provider whether it takes a secret.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// A secret of the configuration, or a stored one
    pub name: String,
    /// Whose it is, where the configuration does not say
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Its server, where it is not the provider's own
    #[arg(long, value_name = "URL")]
    pub upstream_url: Option<String>,
}
