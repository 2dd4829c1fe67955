//! Detection of query parameters that could carry a credential.
//!
//! Servers decode names, ignore case, join repeated names and arrays, and some split at `;`. So names are compared by
//! their letters and digits, after every layer of decoding. Matching parameters are not forwarded.

use crate::path::decode;

/// Names of credential parameters, reduced to letters and digits.
const CREDENTIALS: &[&str] = &[
    "key",
    "token",
    "auth",
    "bearer",
    "jwt",
    "sig",
    "signature",
    "accesskey",
    "authkey",
    "privatekey",
    "secretkey",
    "privatetoken",
    "jobtoken",
    "deploytoken",
    "usertoken",
    "bearertoken",
    "passwd",
    "pwd",
    // Google reads these as headers, as the method and as the body of the request.
    "httpheaders",
    "httpmethod",
    "req",
    "ct",
];

/// Names that count only with a leading `$`, Google's prefix of system parameters.
const SYSTEM: &[&str] = &["httpheaders", "httpmethod", "req", "ct"];

/// Words that make any name a credential that contains them.
const WORDS: &[&str] = &[
    "apikey",
    "authtoken",
    "accesstoken",
    "sessiontoken",
    "securitytoken",
    "oauthtoken",
    "idtoken",
    "subscriptionkey",
    "authorization",
    "password",
    "secret",
    "credential",
    "amzsignature",
    "googsignature",
];

/// Layers of encoding to decode. Some servers have proxies in front of them that decode as well.
const LAYERS: usize = 4;

/// Returns true when a raw `name=value` pair could carry a credential. `own` is the parameter in which the session's
/// key is sent.
pub fn is_credential(pair: &str, own: Option<&str>) -> bool {
    pair.split(';').any(|part| {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        layers(name.as_bytes()).any(|name| {
            let (system, letters) = (name.first() == Some(&b'$'), letters(&name));
            let exact = |known: &&str| **known == letters && (system || !SYSTEM.contains(known));
            CREDENTIALS.iter().any(exact)
                || WORDS.iter().any(|word| letters.contains(word))
                || own.is_some_and(|own| self::letters(own.as_bytes()) == letters)
        })
    })
}

/// Returns the values of a raw pair, decoded once.
pub(crate) fn values(pair: &str) -> impl Iterator<Item = String> + '_ {
    let values = pair.split(';').filter_map(|part| part.split_once('=')).map(|(_, value)| value);
    values.map(|value| String::from_utf8_lossy(&decode(value.as_bytes()).bytes).into_owned())
}

/// Returns true when a raw pair contains a text in any layer of encoding.
pub(crate) fn carries(pair: &str, text: &str) -> bool {
    !text.is_empty()
        && layers(pair.as_bytes())
            .any(|pair| memchr::memmem::find(&pair, text.as_bytes()).is_some())
}

/// Returns the raw bytes and each decoded layer.
fn layers(raw: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let next = |seen: &Vec<u8>| {
        let decoded = decode(seen).bytes;
        (decoded != *seen).then_some(decoded)
    };
    std::iter::successors(Some(raw.to_vec()), next).take(LAYERS + 1)
}

/// Returns the lower-case letters and digits of a name, up to an array index or NUL. Case folding is Unicode's, because
/// some comparisons treat the Kelvin sign as `k`.
fn letters(name: &[u8]) -> String {
    let name = name.split(|byte| matches!(byte, b'[' | 0)).next().unwrap_or_default();
    let text = String::from_utf8_lossy(name);
    let folded = text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_in_every_spelling() {
        for pair in [
            "key=x",
            "KEY=x",
            "kEy=x",
            "%6Bey=x",
            "%6b%65%79=x",
            "%4BEY=x",
            "%256Bey=x",
            "%25256bey=x",
            "+key=x",
            "key%20=x",
            "key[]=x",
            "key%5B0%5D=x",
            "key%00.png=x",
            "%E2%84%AAey=x",
            "key",
            "a=1;key=x",
            "api_key=x",
            "api-key=x",
            "apiKey=x",
            "api.key=x",
            "x-api-key=x",
            "X-Goog-Api-Key=x",
            "access_token=x",
            "Access-Token=x",
            "accessToken=x",
            "acce%73s_token=x",
            "oauth_token=x",
            "$key=x",
            "%24key=x",
            "$httpHeaders=x",
            "token=x",
            "auth=x",
            "authorization=x",
            "client_secret=x",
            "X-Amz-Security-Token=x",
            "X-Amz-Credential=x",
            "X-Amz-Signature=x",
        ] {
            assert!(is_credential(pair, None), "{pair}");
        }
    }

    #[test]
    fn other_parameters_are_not_credentials() {
        for pair in [
            "",
            "beta=true",
            "alt=sse",
            "$alt=json",
            "pageToken=abc",
            "page_token=abc",
            "after_id=key",
            "q=key",
            "limit=20",
            "max_tokens=1",
            "keys=1",
            "keyword=x",
            "monkey=1",
            "author=me",
            "req=1",
            "ct=1",
            "$filter=a",
            "design=1",
            "api-version=2024-02-01",
        ] {
            assert!(!is_credential(pair, None), "{pair}");
        }
    }

    #[test]
    fn parameter_of_the_sessions_key_is_a_credential() {
        assert!(!is_credential("appid=x", None));
        for pair in ["appid=x", "APPID=x", "%61ppid=x", "app_id=x", "appid[]=x"] {
            assert!(is_credential(pair, Some("appid")), "{pair}");
        }
        assert!(!is_credential("app=x", Some("appid")));
    }

    #[test]
    fn text_is_found_under_layers_of_encoding() {
        for pair in ["a=session-1", "a=%73ession-1", "a=%2573ession%2d1", "session%2D1=a"] {
            assert!(carries(pair, "session-1"), "{pair}");
        }
        assert!(!carries("a=session", "session-1") && !carries("a=b", ""));
        assert_eq!(values("a=%73ession-1").collect::<Vec<_>>(), ["session-1"]);
        assert_eq!(values("a;b=1;c=2").collect::<Vec<_>>(), ["1", "2"]);
    }
}
