//! The catalog: one row for each agent, each provider and each group of secrets.
//!
//! Rows have no defaults: a field that a row leaves out does not compile. Everything else that knows an agent or a
//! provider reads its row, and so do the tables in `docs`. To add one that behaves like those that are there, add its
//! row. Code changes only for a new behaviour: a new file format of a login, or a new way to name the proxy to an agent.
//!
//! ```text
//! hosts     named groups of hosts: packages, forges
//! provider  servers of models: address, key, routes, variables
//! agent     programs: state, settings, logins, how the proxy is named to them
//! secret    paths and variables that hold credentials
//! ```

pub mod hosts;
pub mod provider;
pub mod agent;
pub mod secret;

pub use agent::{AGENTS, Agent, AgentFile, Login};
pub use hosts::HostPreset;
pub use provider::{PROVIDERS, Provider, UnknownProvider};

/// Returns every preset of hosts: those of the providers, then those of tools.
pub fn host_presets() -> impl Iterator<Item = &'static HostPreset> {
    let of_provider = |provider: &'static Provider| match &provider.hosts {
        provider::Hosts::Preset(preset) => Some(preset),
        provider::Hosts::None => None,
    };
    PROVIDERS.iter().filter_map(of_provider).chain(hosts::TOOLS)
}

/// Returns a preset of hosts by its name, `@` included.
pub fn host_preset(name: &str) -> Option<&'static HostPreset> {
    host_presets().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests;
