//! Rewriting of a request's head for the server.

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, TE};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{StatusCode, Uri, Version};
use sandbox_policy::catalog::PROVIDERS;
use sandbox_policy::catalog::provider::Merge;

use super::authenticate::{self, Known};
use super::tunnel;
use crate::credential::PlacedKey;
use crate::error::Refusal;
use crate::query;
use crate::session::ProxySession;

/// Replaces the session token by the real key, and removes headers that must not reach the server.
pub(super) fn rewrite(
    head: &mut Parts,
    known: &Known,
    secrets: &PlacedKey,
    upgrade: bool,
) -> Result<(), Refusal> {
    let session = &known.session;
    let websocket = if upgrade { tunnel::keep(&head.headers) } else { Vec::new() };
    let trailers = !upgrade && crate::headers::wants_trailers(&head.headers, head.version);
    crate::headers::strip_request(&mut head.headers, &known.token);
    if trailers {
        head.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    head.headers.extend(websocket.into_iter().map(|(name, value)| (Some(name), value)));
    for (name, value) in session.headers.iter().chain(&secrets.extra) {
        set(&mut head.headers, name, value);
    }
    if let Some((name, value)) = &secrets.header {
        head.headers.insert(name.clone(), value.clone());
    }
    head.headers.insert(HOST, session.host.clone());
    head.uri = target(&head.uri, session, known, secrets)?;
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Ok(())
}

/// Sets a header. List headers are merged with the client's value.
fn set(headers: &mut HeaderMap, name: &HeaderName, value: &HeaderValue) {
    let mut rows = PROVIDERS.iter().flat_map(|provider| provider.headers);
    if !rows.any(|row| row.name == name.as_str() && row.merge == Merge::AddToList) {
        headers.insert(name.clone(), value.clone());
        return;
    }
    let mut items: Vec<&[u8]> = Vec::new();
    let sent: Vec<_> = headers.get_all(name).iter().cloned().collect();
    for item in
        sent.iter().chain([value]).flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
    {
        let item = item.trim_ascii();
        if !item.is_empty() && !items.contains(&item) {
            items.push(item);
        }
    }
    if let Ok(merged) = HeaderValue::from_bytes(&items.join(&b","[..])) {
        headers.insert(name.clone(), merged);
    }
}

/// Returns the path below the server's base path, and the query without the parameters that are for the proxy.
fn target(
    asked: &Uri,
    session: &ProxySession,
    known: &Known,
    secrets: &PlacedKey,
) -> Result<Uri, Refusal> {
    let own = secrets.query.as_ref().and_then(|pair| pair.split_once('=')).map(|(name, _)| name);
    let ours = |pair: &&str| {
        authenticate::is_key_parameter(pair, own) || query::carries(pair, known.token.as_str())
    };
    let sent = asked.query();
    let clean = sent.is_none_or(|sent| !sent.split('&').any(|pair| ours(&pair)));
    let same = session.target.base.is_empty() && secrets.query.is_none() && clean;
    if let Some(asked) = asked.path_and_query().filter(|_| same) {
        return Ok(Uri::from(asked.clone()));
    }
    let mut text = format!("{}{}", session.target.base, asked.path());
    let kept = sent.into_iter().flat_map(|sent| sent.split('&')).filter(|pair| !ours(pair));
    let pairs: Vec<&str> = kept.chain(secrets.query.as_ref().map(|pair| pair.as_str())).collect();
    if !pairs.is_empty() {
        text.push('?');
        text.push_str(&pairs.join("&"));
    }
    PathAndQuery::try_from(text).map(Uri::from).map_err(|_| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "path",
            "cannot forward the path",
            "use a shorter path",
        )
    })
}
