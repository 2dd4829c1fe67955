//! Server of a session. It is part of the session and never comes from a request.

use std::net::IpAddr;

use hyper::Uri;
use hyper::header::HeaderValue;
use thiserror::Error;

/// Parsed upstream URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// True for `https`.
    pub tls: bool,
    /// Host without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Prefix of request paths: empty, or `/…` without a trailing slash.
    pub base: String,
    /// True when the user named the server, which may then be in a private network.
    pub named: bool,
}

/// Invalid upstream URL.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// It is not a URL with a scheme and a host.
    #[error("invalid upstream URL `{0}`: use `https://host` or `http://host:port`")]
    Url(String),
    /// The scheme is not HTTP.
    #[error("unsupported URL scheme `{0}`: use http or https")]
    Scheme(String),
    /// It contains credentials, which belong in secrets.
    #[error("an upstream URL must not contain a user or password")]
    User,
    /// It contains a query or fragment, which would be lost.
    #[error("an upstream URL must not contain `?` or `#`")]
    Query,
    /// Its path is not safe.
    #[error("invalid path in the upstream URL")]
    Path(#[source] crate::path::PathError),
}

impl Target {
    /// Parses the URL of a server that the user named.
    pub fn named(url: &str) -> Result<Self, TargetError> {
        Self::parse(url, true)
    }

    /// Parses the URL of a provider's public server.
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

    /// Returns the host if it is an IP address.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host = match self.address() {
            Some(IpAddr::V6(_)) => format!("[{}]", self.host),
            _ => self.host.clone(),
        };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the `Host` header.
    pub(crate) fn host_header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.authority()).ok()
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_parses_urls() {
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
    fn named_refuses_other_urls() {
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
