//! Arguments of `secret`.

use clap::{Args, Subcommand};

/// Store, list, remove and test secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum Secret {
    /// Store a secret, typed at a hidden prompt or read from standard input
    Set(Set),
    /// List the names of stored secrets
    List,
    /// Remove a secret
    Rm {
        /// Name of the secret
        name: String,
    },
    /// Test a secret with a free call to its provider
    Test(Test),
}

/// Store a secret.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name of the secret
    pub name: String,
    /// Read it from the variable NAME
    #[arg(long, value_name = "NAME")]
    pub from_env: Option<String>,
}

/// Test a secret with a free call to its provider.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Secret of the configuration, or a stored one
    pub name: String,
    /// Provider, if the configuration has none
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Server, if it is not the provider's default
    #[arg(long, value_name = "URL")]
    pub upstream_url: Option<String>,
}
