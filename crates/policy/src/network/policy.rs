//! The decision about one host: what is denied is denied, what is not allowed is not allowed.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::address::{AddressClass, class};
use super::host::{HostName, HostPort};
use super::pattern::HostPattern;

/// Which hosts a sandbox reaches. The order of the rules means nothing, and no rule allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressPolicy {
    /// What can be reached.
    pub allowed: Vec<HostRule>,
    /// What cannot, whatever is allowed.
    pub denied: Vec<HostRule>,
    /// How much may be sent to the hosts of each rule that allows some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_limit: Option<UploadLimit>,
}

/// How much may be sent, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadLimit {
    /// In a run, with what TLS adds to it.
    pub bytes: u64,
    /// Where it stands.
    pub origin: String,
}

/// One rule, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRule {
    /// Which hosts it means.
    pub pattern: HostPattern,
    /// Where it stands.
    pub origin: String,
    /// The preset that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Whether the hosts may have addresses of a private network or of this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Whether the hosts are there to be read: nothing is sent to them that can be seen to be more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl HostRule {
    /// A rule that was written by itself.
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

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// This rule allows it.
    Allowed(&'p HostRule),
    /// This rule denies it.
    Denied(&'p HostRule),
    /// No rule allows it.
    Unlisted,
}

/// Why something was refused, in words for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The host, as it was asked for.
    pub host: String,
    /// The port; none for a question about a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What decided.
    pub rule: String,
    /// The command that would allow it; none where nothing should.
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

/// What is typed to allow a host.
pub fn allow_command(host: &HostName, port: Option<u16>) -> String {
    let port = port.filter(|port| !matches!(port, 80 | 443));
    let text = port.map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
    // Brackets mean something to a shell.
    let text = if text.starts_with('[') { format!("'{text}'") } else { text };
    format!("agent-sandbox --allow-host {text} …")
}

impl EgressPolicy {
    /// What becomes of a connection to a host.
    pub fn judge(&self, asked: &HostPort) -> Verdict<'_> {
        let find =
            |rules: &'_ [HostRule]| rules.iter().position(|rule| rule.pattern.matches(asked));
        match (find(&self.denied), find(&self.allowed)) {
            (Some(index), _) => Verdict::Denied(&self.denied[index]),
            (None, Some(index)) => Verdict::Allowed(&self.allowed[index]),
            (None, None) => Verdict::Unlisted,
        }
    }

    /// The same on whatever port: denied is what is denied on all of them.
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

    /// Whether a host can be reached on some port: then its name is answered for.
    pub fn knows(&self, host: &HostName) -> bool {
        matches!(self.judge_host(host), Verdict::Allowed(_))
    }

    /// A connection to a host: nothing when it is allowed, else why it is not.
    pub fn check(&self, asked: &HostPort) -> Result<(), Refusal> {
        let (rule, allow_with) = match self.judge(asked) {
            Verdict::Allowed(_) => return Ok(()),
            Verdict::Denied(rule) => (format!("{rule} denies it"), None),
            Verdict::Unlisted => {
                let command = allow_command(&asked.host, Some(asked.port));
                ("no rule of `allowed_hosts` allows it".to_owned(), Some(command))
            }
        };
        Err(refusal(asked, rule, allow_with))
    }

    /// The rule that allows a host, by its place in the list.
    pub fn allowing(&self, asked: &HostPort) -> Option<usize> {
        self.allowed.iter().position(|rule| rule.pattern.matches(asked))
    }

    /// The rule by which a host is only read: there is none once any other allows it.
    fn read_only(&self, asked: &HostPort) -> Option<&HostRule> {
        let mut rules = self.allowed.iter().filter(|rule| rule.pattern.matches(asked));
        let first = rules.next()?;
        (first.read_only && rules.all(|rule| rule.read_only)).then_some(first)
    }

    /// A request that can be seen: nothing when it only reads, or may do more.
    pub fn check_request(&self, asked: &HostPort, reads: bool) -> Result<(), Refusal> {
        match self.read_only(asked) {
            Some(rule) if !reads => Err(only_read(asked, rule, "this request sends something")),
            _ => Ok(()),
        }
    }

    /// A connection that is not TLS: whoever is only read has to be asked so that it can be seen.
    pub fn check_tunnel(&self, asked: &HostPort) -> Result<(), Refusal> {
        self.read_only(asked).map_or(Ok(()), |rule| {
            Err(only_read(asked, rule, "nobody can see that in a tunnel without TLS"))
        })
    }

    /// What is said when no more may be sent to a host.
    pub fn used_up(&self, asked: &HostPort) -> Refusal {
        let limit = self.upload_limit.as_ref();
        let (bytes, origin) = limit.map_or((0, ""), |limit| (limit.bytes, limit.origin.as_str()));
        let rule = match self.allowing(asked).map(|index| &self.allowed[index]) {
            Some(rule) => format!("the hosts of `{}`", rule.pattern),
            None => "it".to_owned(),
        };
        let rule = format!(
            "{rule} were sent the {bytes} bytes of `upload_limit` ({origin}); raise it there"
        );
        refusal(asked, rule, None)
    }

    /// One address that the host was found to have: nothing when it may be dialled.
    pub fn check_address(&self, asked: &HostPort, address: IpAddr) -> Result<(), Refusal> {
        let itself = HostPort { host: HostName::Ip(address.to_canonical()), port: asked.port };
        if let Some(rule) = self.denied.iter().find(|rule| rule.pattern.matches(&itself)) {
            return Err(refusal(asked, format!("{rule} denies its address {address}"), None));
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
        let rule = format!("it leads to {address}, {class}, which must be named itself");
        Err(refusal(asked, rule, Some(allow_command(&itself.host, Some(asked.port)))))
    }
}

/// `localhost` cannot mean anything but this machine: naming it says so.
fn allows_private(rule: &HostRule) -> bool {
    let is_this_machine = |host: &HostName| host.labels().next() == Some("localhost");
    rule.private || rule.pattern.single().is_some_and(is_this_machine)
}

fn only_read(asked: &HostPort, rule: &HostRule, why: &str) -> Refusal {
    let command = allow_command(&asked.host, Some(asked.port));
    refusal(asked, format!("{rule} is there to be read, and {why}"), Some(command))
}

fn refusal(asked: &HostPort, rule: String, allow_with: Option<String>) -> Refusal {
    Refusal { host: asked.host.to_string(), port: Some(asked.port), rule, allow_with }
}
