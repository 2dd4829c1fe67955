//! Strict JSON parser for rules that inspect a body. It rejects documents that parsers interpret differently.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess};

/// A JSON value. Numbers and booleans carry no content, because no rule needs them.
#[derive(Debug, PartialEq)]
pub(crate) enum Json<'t> {
    Text(Cow<'t, str>),
    List(Vec<Json<'t>>),
    /// Has no duplicate names, because parsers disagree about which of them counts.
    Object(BTreeMap<Cow<'t, str>, Json<'t>>),
    Null,
    Other,
}

impl<'t> Json<'t> {
    pub(crate) fn read(text: &'t [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn list(&self) -> Option<&[Json<'t>]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    /// Returns all values of an object's field, in any spelling of the name.
    pub(crate) fn all<'j>(&'j self, name: &'j str) -> impl Iterator<Item = &'j Json<'t>> {
        let object = if let Self::Object(object) = self { Some(object) } else { None };
        let fields = object.into_iter().flatten();
        fields.filter(move |(key, _)| is(key, name)).map(|(_, value)| value)
    }
}

/// Returns true when two names are equal except for case and underscores, like `mcp_servers` and `mcpServers`. Case
/// folding is Unicode's, because some servers treat `ſ` as `s` (Go's `encoding/json` does).
pub(crate) fn is(name: &str, wanted: &str) -> bool {
    fn plain(text: &str) -> impl Iterator<Item = u8> {
        text.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase())
    }
    if name.is_ascii() {
        return plain(name).eq(plain(wanted));
    }
    let folded = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(|letter| *letter != '_').eq(plain(wanted).map(char::from))
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(text.to_owned().into()))
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json<'de>, E> {
        Ok(Json::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json<'de>, A::Error> {
        let mut object = BTreeMap::new();
        while let Some((Key(name), value)) = fields.next_entry()? {
            if object.insert(name, value).is_some() {
                return Err(de::Error::custom("duplicate name in an object"));
            }
        }
        Ok(Json::Object(object))
    }
}

/// A field name, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Key<'t>(#[serde(borrow)] Cow<'t, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_rejects_ambiguous_json() {
        let read = |text: &str| Json::read(text.as_bytes()).is_ok();
        for good in ["{}", r#"{"a":{"b":1},"b":[{"a":1},{"a":2}]}"#, "[null,true,1.5,-1]", "\"x\""]
        {
            assert!(read(good), "{good}");
        }
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for wrong in [
            "",
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":[{"a":1,"a":1}]}"#,
            "{} {}",
            "\u{feff}{}",
            "{'a':1}",
            "NaN",
            "{\"a\":1,}",
            &deep,
        ] {
            assert!(!read(wrong), "{wrong}");
        }
        assert!(Json::read(b"\"\xff\"").is_err());
        assert!(
            Json::read(&"{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
                .is_err()
        );
    }

    #[test]
    fn all_finds_names_in_every_spelling() {
        let json =
            Json::read(br#"{"mcpServers":"1","MCP_SERVERS":"2","m\u0063p_servers":"3","mcp":"4","mcp_server\u017f":"5"}"#);
        let json = json.unwrap();
        let found: Vec<_> = json.all("mcp_servers").filter_map(Json::text).collect();
        assert_eq!(found, ["2", "1", "3", "5"]);
    }
}
