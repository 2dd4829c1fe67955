//! Request of a sandbox: a path in the first line, headers in the others. The forwarded request must be unambiguous and
//! contain no credential.

use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use sandbox_proxy::headers::{is_credential, strip_request};
use sandbox_proxy::{path, query};

/// Session token.
const TOKEN: &str = "session-0123456789abcdef";

/// Hop-by-hop headers (RFC 9110, 7.6.1) and headers that each sender sets.
const BOUND: [&str; 9] = [
    "connection",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
];

/// Runs the target.
pub fn request(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    if let Ok(target) = std::str::from_utf8(lines.next().unwrap_or_default()) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        judge_path(path);
        query.split('&').for_each(judge_pair);
    }
    judge_headers(lines.filter_map(header).collect());
}

/// Checks that an allowed path has no dot segments, even when it is decoded several times.
fn judge_path(raw: &str) {
    let plain = path::plain(raw);
    if path::check(raw).is_err() {
        assert!(plain.is_err(), "`plain` accepts a path that `check` refuses");
        return;
    }
    let mut bytes = raw.as_bytes().to_vec();
    for _ in 0..8 {
        let is_dots = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            name == b"." || name == b".."
        };
        assert!(
            !bytes.split(|byte| b"/\\".contains(byte)).any(is_dots),
            "{raw:?} has a dot segment"
        );
        bytes = decoded(&bytes);
    }
    if let Ok(plain) = plain {
        let unclear = plain.contains("//") || plain.contains([';', '\\', '\0', '%']);
        assert!(!unclear, "{plain:?} is ambiguous");
    }
}

/// Checks that no spelling hides the name of a credential.
fn judge_pair(pair: &str) {
    if !query::is_credential(pair, None) {
        return;
    }
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    // Skip names with `%`, because an invalid escape would become a valid one.
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.$[]".contains(&byte));
    if plain {
        let encoded: Vec<String> = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for other in [name.to_ascii_uppercase(), encoded.concat()] {
            assert!(
                query::is_credential(&format!("{other}={value}"), None),
                "{other} hides {name}"
            );
        }
    }
    assert!(
        query::is_credential(&format!("a=1;{pair}"), None),
        "{pair} is not found after another pair"
    );
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let code = code.filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
}

fn judge_headers(lines: Vec<(HeaderName, HeaderValue)>) {
    let listed: Vec<Vec<u8>> = lines
        .iter()
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, value)| value.as_bytes().split(|byte| *byte == b','))
        .map(|name| name.trim_ascii().to_ascii_lowercase())
        .collect();
    let mut headers: HeaderMap =
        lines.into_iter().fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        });
    strip_request(&mut headers, TOKEN);
    for (name, value) in headers.iter().filter(|(name, _)| **name != ACCEPT_ENCODING) {
        let text = name.as_str();
        assert!(!is_credential(name), "{text} is a credential");
        assert!(!BOUND.contains(&text), "{text} is a hop-by-hop header");
        assert!(
            !listed.iter().any(|listed| listed == text.as_bytes()),
            "{text} is listed in Connection"
        );
        let has_token = value.as_bytes().windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
        assert!(!has_token, "{text} contains the token");
    }
    assert_eq!(headers.get_all(ACCEPT_ENCODING).iter().collect::<Vec<_>>(), ["identity"]);
    let mut again = headers.clone();
    strip_request(&mut again, TOKEN);
    assert_eq!(again, headers, "a second pass removes more");
}
