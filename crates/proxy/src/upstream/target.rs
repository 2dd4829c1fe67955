//! The one server that a session talks to. It comes from the session, never from a request.

use std::net::IpAddr;

use hyper::Uri;
use hyper::header::HeaderValue;
use thiserror::Error;

/// An upstream URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The host as a resolver wants it: without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands before each request's path; empty or `/…` without a slash at the end.
    pub base: String,
    /// Whether the user named this server, so that it may be in a private network.
    pub named: bool,
}

/// Why a URL is no upstream.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// Not a URL with a scheme and a host.
    #[error("`{0}` is no URL of a server: write `https://host` or `http://host:port`")]
    Url(String),
    /// Not HTTP.
    #[error("`{0}` is not reached by http or https")]
    Scheme(String),
    /// Credentials belong to secrets.
    #[error("an upstream URL has no user or password in it")]
    User,
    /// A query or fragment would be lost.
    #[error("an upstream URL has no `?` and no `#`")]
    Query,
    /// The base climbs.
    #[error("the path of the upstream URL cannot be used")]
    Path(#[source] crate::path::PathError),
}

impl Target {
    /// The server that somebody named.
    pub fn named(url: &str) -> Result<Self, TargetError> {
        Self::parse(url, true)
    }

    /// A provider's own server, which is never in a private network.
    pub(crate) fn public(url: &str) -> Result<Self, TargetError> {
        Self::parse(url, false)
    }

    fn parse(url: &str, named: bool) -> Result<Self, TargetError> {
        let wrong = || TargetError::Url(url.to_owned());
        if url.contains(['?', '#']) {
            return Err(TargetError::Query);
        }
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(other) => return Err(TargetError::Scheme(other.to_owned())),
            None => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(TargetError::User);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let host = host.to_ascii_lowercase();
        let usual = if tls { 443 } else { 80 };
        let port = match &authority.as_str()[authority.host().len()..] {
            "" => usual,
            _ => uri.port_u16().filter(|port| *port > 0).ok_or_else(wrong)?,
        };
        if host.is_empty() {
            return Err(wrong());
        }
        crate::path::check(uri.path()).map_err(TargetError::Path)?;
        Ok(Self { tls, host, port, base: uri.path().trim_end_matches('/').to_owned(), named })
    }

    /// The host, when it is an address.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// What `Host` says.
    pub(crate) fn authority(&self) -> String {
        let host = match self.address() {
            Some(IpAddr::V6(_)) => format!("[{}]", self.host),
            _ => self.host.clone(),
        };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// The same, as a header.
    pub(crate) fn host_header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.authority()).ok()
    }

    /// For people.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_what_the_url_says() {
        for (url, host, port, base, written) in [
            (
                "https://api.anthropic.com",
                "api.anthropic.com",
                443,
                "",
                "https://api.anthropic.com",
            ),
            ("https://API.Example.com/", "api.example.com", 443, "", "https://api.example.com"),
            ("http://127.0.0.1:11434", "127.0.0.1", 11434, "", "http://127.0.0.1:11434"),
            ("http://[::1]:80/x/", "::1", 80, "/x", "http://[::1]/x"),
            ("https://host:8443/v1/proxy", "host", 8443, "/v1/proxy", "https://host:8443/v1/proxy"),
        ] {
            let target = Target::named(url).unwrap();
            assert_eq!(
                (target.host.as_str(), target.port, target.base.as_str()),
                (host, port, base),
                "{url}"
            );
            assert_eq!(target.url(), written);
        }
    }

    #[test]
    fn target_is_refused_when_it_is_not_one_server() {
        for url in [
            "",
            "api.example.com",
            "/v1",
            "file:///etc/passwd",
            "ftp://host",
            "https://",
            "https://u:p@host",
            "https://host?x=y",
            "https://host/#x",
            "https://host/a/../b",
            "https://host:0",
            "https://host:",
            "https://host:99999",
        ] {
            assert!(Target::named(url).is_err(), "{url}");
        }
    }
}
