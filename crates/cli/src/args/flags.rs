//! Flags before a command: policy of the sandbox, and output.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sandbox_policy::config::{Access, Cow, Network, Request};

use super::words::{boolean, command_rules, cow, network, variable};

/// Flags for the policy of the sandbox, and for output.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sandbox")]
#[allow(clippy::struct_excessive_bools, reason = "each field is an independent flag")]
pub(crate) struct Flags {
    /// Run in DIR instead of the current directory
    #[arg(short = 'C', long, value_name = "DIR", global = true)]
    pub cwd: Option<PathBuf>,

    /// Read FILE instead of all configuration files of the project
    #[arg(short, long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Share the host's network; `=false` disables it, `=allow` permits only listed hosts [default: on]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = network, global = true)]
    pub network: Option<Network>,

    /// Allow HOST, and refuse hosts that are not listed: `NAME`, `*.NAME`, `NAME:PORT`, `@npm`
    #[arg(long, value_name = "HOST", global = true)]
    pub allow_host: Vec<String>,

    /// Share the Docker daemon's socket, which gives root access to the host [default: off]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, global = true)]
    pub docker: Option<bool>,

    /// Make PATH read-only; `!PATH` removes such a rule
    #[arg(long, value_name = "PATH", global = true, allow_hyphen_values = true)]
    pub ro: Vec<String>,

    /// Make PATH writable
    #[arg(long, value_name = "PATH", global = true, allow_hyphen_values = true)]
    pub rw: Vec<String>,

    /// Make the whole repository of the current directory writable
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true)]
    pub repo: bool,

    /// Hide PATH
    #[arg(long, value_name = "PATH", global = true, allow_hyphen_values = true)]
    pub exclude: Vec<String>,

    /// Set a rule for a command: `false` blocks it, `true` allows it; `@git`; a script
    #[arg(long = "cmd", value_name = "NAME=RULE", global = true)]
    pub commands: Vec<String>,

    /// Pass a hidden variable to the command, or set one
    #[arg(long, value_name = "NAME[=VALUE]", global = true)]
    pub env: Vec<OsString>,

    /// Isolate changes until they are applied: `=all` includes caches and settings, `=overlay` and
    /// `=agentfs` select the engine
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = cow, global = true)]
    pub cow: Option<Cow>,

    /// Continue or create the session NAME; implies `--cow`
    #[arg(short, long, value_name = "NAME", global = true)]
    pub session: Option<String>,

    /// Trust the project's configuration for this command
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true)]
    pub trust: bool,

    /// Exit with 4 if a host was refused although the command succeeded
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true)]
    pub fail_on_blocked: bool,

    /// Show what would be done, and change nothing
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true, help_heading = "Output")]
    pub dry_run: bool,

    /// Explain each decision on stderr
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true, help_heading = "Output")]
    pub debug: bool,

    /// Print JSON
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = boolean, value_name = "BOOL", hide_default_value = true, global = true, help_heading = "Output")]
    pub json: bool,

    /// Use colours [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto, hide_default_value = true,
          global = true, help_heading = "Output")]
    pub color: When,
}

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

impl Flags {
    /// Returns the request that the flags make.
    pub(crate) fn request(&self, command: Vec<OsString>, trust: bool) -> Result<Request, String> {
        let list = |access, paths: &[String]| {
            paths.iter().map(move |path| (access, path.clone())).collect::<Vec<_>>()
        };
        let mut paths = list(Access::Ro, &self.ro);
        paths.extend(list(Access::Rw, &self.rw));
        paths.extend(list(Access::Exclude, &self.exclude));
        if let Some((access, _)) = paths.iter().find(|(_, path)| path.is_empty()) {
            return Err(format!("`--{}` needs a path, not an empty string", access.word()));
        }
        Ok(Request {
            cwd: self.cwd.clone(),
            config: self.config.clone(),
            network: self.network,
            hosts: self.allow_host.clone(),
            docker: self.docker,
            cow: self.cow.or(self.session.as_ref().map(|_| Cow::ON)),
            paths,
            repo: self.repo,
            commands: command_rules(&self.commands)?,
            env: self.env.iter().map(|word| variable(word)).collect::<Result<_, _>>()?,
            trust: trust || self.trust,
            accepted: None,
            command,
        })
    }
}
