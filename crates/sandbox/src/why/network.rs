//! `why --host NAME`, also with a port.

use serde::Serialize;

use super::change::{Change, Step};
use super::policy::Policy;
use super::{Answer, Explainer, WhyError};
use sandbox_policy::config::Network;
use sandbox_policy::network::{HostName, HostPort, Verdict};

/// Answer about a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NetworkAnswer {
    /// The host in question.
    pub host: String,
    /// True when it can be reached.
    pub reachable: bool,
    /// Network mode.
    pub network: Network,
    /// Origin of the network mode.
    pub origin: String,
    /// The rule for this host, and its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Suggested changes.
    pub changes: Vec<Change>,
}

impl Answer for NetworkAnswer {
    fn strictness(&self) -> usize {
        match (self.network, self.reachable) {
            (Network::On, _) => 0,
            (Network::Allow, true) => 1,
            (Network::Allow, false) => 2,
            (Network::Off, _) => 3,
        }
    }

    fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    fn allows(&self, to: &str) -> bool {
        match to {
            "on" => self.network == Network::On,
            "reachable" => self.reachable,
            _ => true,
        }
    }
}

/// Host in question.
pub(super) struct Asked {
    text: String,
    host: HostName,
    port: Option<u16>,
}

/// Parses a host, with or without a port.
pub(super) fn check(text: &str) -> Result<Asked, WhyError> {
    let alone = text.parse::<HostName>();
    let asked = alone.map(|host| (host, None)).or_else(|alone| {
        let with_port = text.parse::<HostPort>().map(|asked| (asked.host, Some(asked.port)));
        with_port.map_err(|_| alone)
    });
    match asked {
        Ok((host, port)) => Ok(Asked { text: text.to_owned(), host, port }),
        Err(problem) => Err(WhyError::Question {
            what: "the host",
            text: text.to_owned(),
            problem: problem.to_string(),
        }),
    }
}

pub(super) fn answer(explainer: &Explainer<'_>, level: usize, asked: &Asked) -> NetworkAnswer {
    let policy = &explainer.levels[level];
    let (reachable, rule) = judge(policy, asked);
    NetworkAnswer {
        host: asked.text.clone(),
        reachable,
        network: policy.network.value,
        origin: policy.network.origin.clone(),
        rule,
        notes: notes(policy, asked),
        changes: changes(explainer, level, asked),
    }
}

/// Returns true when the host can be reached, and the rule that decides.
fn judge(policy: &Policy, asked: &Asked) -> (bool, Option<String>) {
    let egress = match policy.network.value {
        Network::On => return (true, None),
        Network::Off => return (false, None),
        Network::Allow => policy.egress.clone().unwrap_or_default(),
    };
    let verdict = match asked.port {
        Some(port) => egress.judge(&HostPort { host: asked.host.clone(), port }),
        None => egress.judge_host(&asked.host),
    };
    match verdict {
        Verdict::Allowed(rule) => (true, Some(format!("allowed {rule}"))),
        Verdict::Denied(rule) => (false, Some(format!("denied {rule}"))),
        Verdict::Unlisted => (false, None),
    }
}

/// Returns suggested changes: of the network mode, or a rule for this host.
fn changes(explainer: &Explainer<'_>, level: usize, asked: &Asked) -> Vec<Change> {
    let policy = &explainer.levels[level];
    let (reachable, rule) = judge(policy, asked);
    let host = || Step::AllowHost(asked.text.clone());
    let offers = match policy.network.value {
        Network::On => vec![("off", Step::Network(Network::Off))],
        Network::Off => vec![("on", Step::Network(Network::On)), ("reachable", host())],
        Network::Allow if reachable => vec![("refused", Step::DenyHost(asked.text.clone()))],
        Network::Allow if rule.is_none() => vec![("reachable", host())],
        Network::Allow => return denied_by(policy, asked).into_iter().collect(),
    };
    let works = |to: &str, step: &Step| {
        let then = explainer.attempt(level, std::slice::from_ref(step));
        then.is_some_and(|then| match to {
            "on" => then.network.value == Network::On,
            "off" => then.network.value == Network::Off,
            "reachable" => judge(&then, asked).0,
            _ => !judge(&then, asked).0,
        })
    };
    let offers = offers.into_iter().filter(|(to, step)| works(to, step));
    offers.filter_map(|(to, step)| Change::of(to, &[step])).collect()
}

/// Returns the change that removes a denying rule from its file.
fn denied_by(policy: &Policy, asked: &Asked) -> Option<Change> {
    let denied = &policy.egress.as_ref()?.denied;
    let rule = denied.iter().find(|rule| rule.pattern.matches_host(&asked.host))?;
    let edit = vec![format!("remove `{}` from {}", rule.pattern, rule.origin)];
    Some(Change { to: "reachable", flags: Vec::new(), config: None, edit })
}

fn notes(policy: &Policy, asked: &Asked) -> Vec<String> {
    let loopback = match &asked.host {
        HostName::Ip(address) => address.is_loopback(),
        HostName::Dns(name) => name == "localhost",
    };
    let note = match (policy.network.value, loopback) {
        (Network::On, true) => "services on the host's loopback interface are reachable too",
        (Network::On, false) => "all hosts are reachable; no allow list is set",
        (Network::Allow, true) => {
            "the sandbox has a private loopback interface; only programs that use the proxy reach the host's services"
        }
        (Network::Allow, false) => {
            "hosts are allowed by name, through the proxy; private addresses must be allowed explicitly"
        }
        (Network::Off, true) => {
            "the sandbox has a private loopback interface; the host's services are not reachable"
        }
        (Network::Off, false) => "the sandbox has only a private loopback interface",
    };
    vec![note.to_owned()]
}
