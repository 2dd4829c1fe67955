//! The catalog: one row for each agent, each provider and each group of secrets.
//!
//! Rows have no defaults: a row without one of the fields does not compile. All other code reads the rows, and so do the
//! generated tables in `docs`. To add an agent or provider that behaves like an existing one, add its row. Code changes
//! only for new behaviour, such as a new file format of a login or a new way to tell an agent the proxy's address.
//!
//! ```text
//! hosts     named groups of hosts: packages, forges
//! provider  model APIs: address, key, routes, variables
//! agent     programs: state, settings, logins, how they learn the proxy's address
//! secret    paths and variables that hold credentials
//! ```

pub mod hosts;
pub mod provider;
pub mod agent;
pub mod secret;

pub use agent::{AGENTS, Agent, AgentFile, Login};
pub use hosts::HostPreset;
pub use provider::{PROVIDERS, Provider, UnknownProvider};

/// Returns every host preset: those of the providers, then those of tools.
pub fn host_presets() -> impl Iterator<Item = &'static HostPreset> {
    let of_provider = |provider: &'static Provider| match &provider.hosts {
        provider::Hosts::Preset(preset) => Some(preset),
        provider::Hosts::None => None,
    };
    PROVIDERS.iter().filter_map(of_provider).chain(hosts::TOOLS)
}

/// Returns the host preset with this name, which includes the `@`.
pub(crate) fn host_preset(name: &str) -> Option<&'static HostPreset> {
    host_presets().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests;
