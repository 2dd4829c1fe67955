//! The decision about one host. A deny rule wins over an allow rule, and a host without a rule is refused.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::address::{AddressClass, class};
use super::host::{HostName, HostPort};
use super::pattern::HostPattern;

/// The hosts that a sandbox can reach. The order of the rules does not matter. Without rules, no host can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressPolicy {
    /// Rules for hosts that can be reached.
    pub allowed: Vec<HostRule>,
    /// Rules for hosts that cannot be reached, even if another rule allows them.
    pub denied: Vec<HostRule>,
    /// Most bytes that a run may send to the hosts of each allow rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_limit: Option<UploadLimit>,
}

/// Limit on the bytes that a run may send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadLimit {
    /// Bytes per run, including the overhead of TLS.
    pub bytes: u64,
    /// File and line, or flag, of the limit.
    pub origin: String,
}

/// A rule about hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRule {
    /// The hosts.
    pub pattern: HostPattern,
    /// File and line, or flag, of the rule.
    pub origin: String,
    /// The preset that contains the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// True if the hosts may resolve to addresses of a private network or of this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// True if the hosts are only for downloads: visible requests that could send data are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl HostRule {
    /// Creates a rule that does not belong to a preset.
    pub fn new(pattern: HostPattern, origin: impl Into<String>) -> Self {
        Self { pattern, origin: origin.into(), preset: None, private: false, read_only: false }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.preset.as_ref().map(|preset| format!(" of {preset}")).unwrap_or_default();
        write!(f, "`{}`{of} ({})", self.pattern, self.origin)
    }
}

/// Decision about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// This rule allows it.
    Allowed(&'p HostRule),
    /// This rule denies it.
    Denied(&'p HostRule),
    /// No rule allows it.
    Unlisted,
}

/// A refused connection or name, for programs and for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The host, as requested.
    pub host: String,
    /// The port. `None` for a DNS lookup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The reason.
    pub rule: String,
    /// The command that would allow it. `None` if a rule denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_with: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "agent-sandbox refuses {}{port}: {}", self.host, self.rule)?;
        self.allow_with.as_ref().map_or(Ok(()), |command| write!(f, "; to allow it: {command}"))
    }
}

/// Returns the command line that allows a host.
pub fn allow_command(host: &HostName, port: Option<u16>) -> String {
    let port = port.filter(|port| !matches!(port, 80 | 443));
    let text = port.map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
    // Brackets are special characters in a shell.
    let text = if text.starts_with('[') { format!("'{text}'") } else { text };
    format!("agent-sandbox --allow-host {text} …")
}

impl EgressPolicy {
    /// Decides about a connection to a host.
    pub fn judge(&self, asked: &HostPort) -> Verdict<'_> {
        let find =
            |rules: &'_ [HostRule]| rules.iter().position(|rule| rule.pattern.matches(asked));
        match (find(&self.denied), find(&self.allowed)) {
            (Some(index), _) => Verdict::Denied(&self.denied[index]),
            (None, Some(index)) => Verdict::Allowed(&self.allowed[index]),
            (None, None) => Verdict::Unlisted,
        }
    }

    /// Decides about a host on any port. A host counts as denied only if it is denied on every port.
    pub fn judge_host(&self, host: &HostName) -> Verdict<'_> {
        let all = HostPattern::exact(host.clone());
        let denied = self.denied.iter().find(|rule| rule.pattern.covers(&all));
        let allowed = self.allowed.iter().find(|rule| rule.pattern.matches_host(host));
        match (denied, allowed) {
            (Some(rule), _) => Verdict::Denied(rule),
            (None, Some(rule)) => Verdict::Allowed(rule),
            (None, None) => Verdict::Unlisted,
        }
    }

    /// Returns true when a host can be reached on some port. The name server resolves only such hosts.
    pub fn knows(&self, host: &HostName) -> bool {
        matches!(self.judge_host(host), Verdict::Allowed(_))
    }

    /// Checks a connection to a host.
    pub fn check(&self, asked: &HostPort) -> Result<(), Refusal> {
        let (rule, allow_with) = match self.judge(asked) {
            Verdict::Allowed(_) => return Ok(()),
            Verdict::Denied(rule) => (format!("denied by {rule}"), None),
            Verdict::Unlisted => {
                let command = allow_command(&asked.host, Some(asked.port));
                ("not in `allowed_hosts`".to_owned(), Some(command))
            }
        };
        Err(refusal(asked, rule, allow_with))
    }

    /// Returns the index of the rule that allows a host.
    pub fn allowing(&self, asked: &HostPort) -> Option<usize> {
        self.allowed.iter().position(|rule| rule.pattern.matches(asked))
    }

    /// Returns the rule that makes a host read-only. Any other rule that allows the host makes it writable.
    fn read_only(&self, asked: &HostPort) -> Option<&HostRule> {
        let mut rules = self.allowed.iter().filter(|rule| rule.pattern.matches(asked));
        let first = rules.next()?;
        (first.read_only && rules.all(|rule| rule.read_only)).then_some(first)
    }

    /// Checks a visible request: a read-only host accepts only requests that read.
    pub fn check_request(&self, asked: &HostPort, reads: bool) -> Result<(), Refusal> {
        match self.read_only(asked) {
            Some(rule) if !reads => Err(only_read(asked, rule, "this request can send data")),
            _ => Ok(()),
        }
    }

    /// Checks a tunnel without TLS. A read-only host is refused, because the proxy cannot see whether data is sent.
    pub fn check_tunnel(&self, asked: &HostPort) -> Result<(), Refusal> {
        self.read_only(asked).map_or(Ok(()), |rule| {
            Err(only_read(asked, rule, "a tunnel without TLS can send data"))
        })
    }

    /// Returns the refusal for a host whose upload limit is used up.
    pub fn used_up(&self, asked: &HostPort) -> Refusal {
        let limit = self.upload_limit.as_ref();
        let (bytes, origin) = limit.map_or((0, ""), |limit| (limit.bytes, limit.origin.as_str()));
        let rule = match self.allowing(asked).map(|index| &self.allowed[index]) {
            Some(rule) => format!(" for `{}`", rule.pattern),
            None => String::new(),
        };
        let rule = format!(
            "the upload limit of {bytes} bytes{rule} is used up; raise `upload_limit` ({origin})"
        );
        refusal(asked, rule, None)
    }

    /// Checks an address that the host resolves to.
    pub fn check_address(&self, asked: &HostPort, address: IpAddr) -> Result<(), Refusal> {
        let itself = HostPort { host: HostName::Ip(address.to_canonical()), port: asked.port };
        if let Some(rule) = self.denied.iter().find(|rule| rule.pattern.matches(&itself)) {
            return Err(refusal(asked, format!("its address {address} is denied by {rule}"), None));
        }
        if self.allowed.iter().any(|rule| rule.pattern.matches(&itself)) {
            return Ok(());
        }
        let class = class(address);
        let by_name = matches!(class, AddressClass::Private | AddressClass::Loopback)
            && self.allowed.iter().any(|rule| rule.pattern.matches(asked) && allows_private(rule));
        if class == AddressClass::Public || by_name {
            return Ok(());
        }
        let rule = format!("it resolves to {address}, {class}, and no rule allows that address");
        Err(refusal(asked, rule, Some(allow_command(&itself.host, Some(asked.port)))))
    }
}

/// Returns true when a rule allows private addresses. A rule for `localhost` always does: no other machine has the name.
fn allows_private(rule: &HostRule) -> bool {
    let is_this_machine = |host: &HostName| host.labels().next() == Some("localhost");
    rule.private || rule.pattern.single().is_some_and(is_this_machine)
}

fn only_read(asked: &HostPort, rule: &HostRule, why: &str) -> Refusal {
    let command = allow_command(&asked.host, Some(asked.port));
    refusal(asked, format!("{rule} is read-only, and {why}"), Some(command))
}

fn refusal(asked: &HostPort, rule: String, allow_with: Option<String>) -> Refusal {
    Refusal { host: asked.host.to_string(), port: Some(asked.port), rule, allow_with }
}
