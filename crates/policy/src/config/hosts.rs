//! Merged host lists of all layers, with presets expanded and removals applied.

use serde::Serialize;

use super::file::unmarked;
use super::layer::{Origin, Sourced};
use crate::catalog::host_preset;
use crate::network::{EgressPolicy, HostPattern, HostRule};

/// The list that contains a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostList {
    /// `allowed_hosts`.
    Allowed,
    /// `private_hosts`.
    Private,
    /// `denied_hosts`.
    Denied,
}

impl HostList {
    /// Returns the key of the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Allowed => "allowed_hosts",
            Self::Private => "private_hosts",
            Self::Denied => "denied_hosts",
        }
    }
}

/// One pattern of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostEntry {
    /// The list.
    pub list: HostList,
    /// The hosts.
    pub pattern: HostPattern,
    /// The preset that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
}

/// Merged host lists of all layers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Hosts {
    /// The lines of the three lists.
    pub entries: Vec<Sourced<HostEntry>>,
}

/// Returns the patterns of a valid line: those of a preset, or the line itself.
pub(super) fn spelled_out(list: HostList, line: &str) -> Vec<HostEntry> {
    let line = unmarked(line);
    let (preset, texts) = match host_preset(line) {
        Some(preset) => (Some(preset.name), preset.hosts.to_vec()),
        None => (None, vec![line]),
    };
    let patterns = texts.into_iter().filter_map(|text| text.parse().ok());
    patterns.map(|pattern| HostEntry { list, pattern, preset }).collect()
}

impl Hosts {
    /// Merges a later layer. `!` removes lines of earlier layers from the same list: a preset, or a pattern whether or
    /// not it belongs to a preset.
    pub(super) fn apply(&mut self, lines: Vec<(HostList, Sourced<String>)>) {
        let (removals, additions): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|(_, line)| line.value.starts_with('!'));
        for (list, line) in removals {
            let gone = spelled_out(list, &line.value);
            let whole = unmarked(&line.value).starts_with('@');
            let same = |gone: &HostEntry, entry: &HostEntry| {
                (gone.list, &gone.pattern) == (entry.list, &entry.pattern)
                    && (!whole || gone.preset == entry.preset)
            };
            let is_gone = |entry: &HostEntry| gone.iter().any(|gone| same(gone, entry));
            self.entries.retain(|entry| !is_gone(&entry.value));
        }
        for (list, line) in additions {
            let entries = spelled_out(list, &line.value).into_iter();
            self.entries.extend(entries.map(|entry| Sourced::new(entry, line.origin.clone())));
        }
    }

    /// Adds a line to `denied_hosts`.
    pub fn deny(&mut self, line: &str) {
        let entries = spelled_out(HostList::Denied, line).into_iter();
        self.entries.extend(entries.map(|entry| Sourced::new(entry, Origin::Default)));
    }

    /// Returns true when these lists allow a host.
    pub(super) fn allow_any(&self) -> bool {
        self.entries.iter().any(|entry| entry.value.list != HostList::Denied)
    }

    /// Returns true when these lists already allow all hosts of a line.
    pub(super) fn allow(&self, list: HostList, line: &str) -> bool {
        let covers = |entry: &HostEntry, asked: &HostEntry| {
            (entry.list == list || entry.list == HostList::Private && list == HostList::Allowed)
                && entry.pattern.covers(&asked.pattern)
        };
        spelled_out(list, line)
            .iter()
            .all(|asked| self.entries.iter().any(|entry| covers(&entry.value, asked)))
    }

    /// Returns the policy of the lists, without an upload limit.
    pub(super) fn policy(&self) -> EgressPolicy {
        let rules = |wanted: fn(HostList) -> bool| {
            let entries = self.entries.iter().filter(move |entry| wanted(entry.value.list));
            entries.map(rule).collect()
        };
        EgressPolicy {
            allowed: rules(|list| list != HostList::Denied),
            denied: rules(|list| list == HostList::Denied),
            upload_limit: None,
        }
    }
}

fn rule(entry: &Sourced<HostEntry>) -> HostRule {
    let HostEntry { list, pattern, preset } = &entry.value;
    HostRule {
        pattern: pattern.clone(),
        origin: entry.origin.to_string(),
        preset: preset.map(str::to_owned),
        private: *list == HostList::Private,
        read_only: preset.and_then(host_preset).is_some_and(|preset| preset.read_only),
    }
}
