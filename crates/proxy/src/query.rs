//! Query parameters that could carry a credential, in every spelling that some server reads as one.
//!
//! Servers decode names, ignore case, join repeated names and arrays, and some split at `;`. So a name is
//! compared by its letters and digits, after every layer of encoding. What matches is not forwarded.

use crate::path::decode;

/// Names that are credentials as a whole, by their letters and digits.
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

/// Names that count only with the `$` that Google puts before a system parameter.
const SYSTEM: &[&str] = &["httpheaders", "httpmethod", "req", "ct"];

/// Words that make a name a credential wherever they stand in it.
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

/// Most layers of encoding that are looked under: some servers stand behind others that decode too.
const LAYERS: usize = 4;

/// Returns whether a raw pair (`name=value`, as it stands between two `&`) could carry a credential: by a
/// name, or as the parameter that this session's own key is sent in.
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

/// Returns the values of a raw pair, decoded once, as a server reads them.
pub(crate) fn values(pair: &str) -> impl Iterator<Item = String> + '_ {
    let values = pair.split(';').filter_map(|part| part.split_once('=')).map(|(_, value)| value);
    values.map(|value| String::from_utf8_lossy(&decode(value.as_bytes()).bytes).into_owned())
}

/// Returns whether a text stands in a raw pair, under any layer of encoding.
pub(crate) fn carries(pair: &str, text: &str) -> bool {
    !text.is_empty()
        && layers(pair.as_bytes())
            .any(|pair| memchr::memmem::find(&pair, text.as_bytes()).is_some())
}

/// The bytes as they stand, and under each layer of encoding.
fn layers(raw: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let next = |seen: &Vec<u8>| {
        let decoded = decode(seen).bytes;
        (decoded != *seen).then_some(decoded)
    };
    std::iter::successors(Some(raw.to_vec()), next).take(LAYERS + 1)
}

/// The letters and digits of a name, in lower case, up to where an array's index or a C string's end cuts it.
/// Case is that of Unicode: comparisons that ignore case take the Kelvin sign for a `k`.
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
    fn other_parameters_are_no_credentials() {
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
    fn the_parameter_of_the_sessions_own_key_is_one() {
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
