//! `why --host NAME`.

use serde::Serialize;

use super::change::{Change, Step};
use super::{Answer, Explainer, WhyError};
use crate::config::Network;

/// Whether a host can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkAnswer {
    /// The host that was asked about.
    pub host: String,
    /// Whether the network is there. Names are not told apart.
    pub network: Network,
    /// Who says so.
    pub origin: String,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// What would change it.
    pub changes: Vec<Change>,
}

impl Answer for NetworkAnswer {
    fn strictness(&self) -> usize {
        usize::from(self.network == Network::Off)
    }

    fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    fn allows(&self, to: &str) -> bool {
        to == word(Network::Off) || self.network == Network::On
    }
}

fn word(network: Network) -> &'static str {
    match network {
        Network::On => "on",
        Network::Off => "off",
    }
}

/// The longest name of the DNS, and of a file in `/etc/hosts`.
const LONGEST: usize = 253;

pub(super) fn check(name: &str) -> Result<(), WhyError> {
    let bad = |c: char| c.is_control() || c.is_whitespace();
    let problem = match name {
        "" => "is empty",
        name if name.contains(bad) => "holds a character that no host's name can have",
        name if name.contains(['/', '@', '?', '#', '\\']) => "is not the name of a host alone",
        name if name.len() > LONGEST => "is longer than any host's name",
        _ => return Ok(()),
    };
    Err(WhyError::Question { what: "the host", text: name.to_owned(), problem })
}

pub(super) fn answer(explainer: &Explainer<'_>, level: usize, name: &str) -> NetworkAnswer {
    let now = &explainer.levels[level].network;
    let other = if now.value == Network::On { Network::Off } else { Network::On };
    let steps = [Step::Network(other)];
    let works = explainer.attempt(level, &steps).is_some_and(|then| then.network.value == other);
    let changes = works.then(|| Change::of(word(other), &steps)).flatten();
    NetworkAnswer {
        host: name.to_owned(),
        network: now.value,
        origin: now.origin.clone(),
        notes: vec![note(now.value, name).to_owned()],
        changes: changes.into_iter().collect(),
    }
}

fn note(network: Network, name: &str) -> &'static str {
    let loopback = matches!(name, "localhost" | "::1" | "[::1]")
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    match (network, loopback) {
        (Network::On, true) => "the host's own services on loopback can be reached too",
        (Network::On, false) => "hosts are not told apart: all of them or none",
        (Network::Off, true) => "loopback is the sandbox's own: the host's services are not on it",
        (Network::Off, false) => "there is nothing but a loopback of the sandbox's own",
    }
}
