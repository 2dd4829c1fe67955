//! A serde deserializer over the tree, so that one set of types serves both syntaxes.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::Problem;
use super::at::{self, Position};
use super::node::{Key, Kind, Node};
use crate::text::{did_you_mean, shown};

/// A problem, its position once it is known, and the path of keys to it, innermost first.
#[derive(Debug)]
pub(super) struct NodeError {
    pub(super) problem: Problem,
    pub(super) position: Option<Position>,
    keys: Vec<String>,
}

impl NodeError {
    fn at(mut self, position: Position) -> Self {
        self.position.get_or_insert(position);
        self
    }

    fn under(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    /// Returns the path of the key, such as `filesystem.ro[2]`.
    pub(super) fn key(&self) -> String {
        let mut path = String::new();
        for key in self.keys.iter().rev() {
            if !path.is_empty() && !key.starts_with('[') {
                path.push('.');
            }
            path.push_str(key);
        }
        path
    }
}

impl From<Problem> for NodeError {
    fn from(problem: Problem) -> Self {
        Self { problem, position: None, keys: Vec::new() }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    /// Splits the message: its second line, if there is one, is the hint.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        let (message, hint) = match text.split_once('\n') {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
            None => (text, None),
        };
        Problem::Invalid { message, hint }.into()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Problem::WrongType { expected: plain(&expected.to_string()), found: named(found) }.into()
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let hint = did_you_mean(field, known.iter().copied());
        Problem::UnknownKey { key: field.to_owned(), hint }.into()
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Problem::UnknownWord { word: word.to_owned(), known }.into()
    }

    fn missing_field(field: &'static str) -> Self {
        Problem::MissingKey { key: field }.into()
    }
}

/// Translates serde's names of types for users.
fn plain(expected: &str) -> String {
    match expected {
        "a sequence" => "a list",
        "a map" => "a table",
        "u16" | "u32" | "u64" => "a whole number",
        "a nonzero u16" | "a nonzero u32" => "a whole number from 1",
        other => other,
    }
    .to_owned()
}

fn named(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Str(text) => format!("the text {}", shown(text)),
        Unexpected::Unit => "`null`".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let value = match &self.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value) => visitor.visit_bool(*value),
            Kind::Integer(number) => visitor.visit_i64(*number),
            Kind::Float(number) => visitor.visit_f64(*number),
            Kind::String(text) => visitor.visit_borrowed_str(text),
            Kind::Other(name) => Err(de::Error::invalid_type(Unexpected::Other(name), &visitor)),
            Kind::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Kind::Table(entries) => visitor.visit_map(Entries { entries, value: None }),
        };
        value.map_err(|error| error.at(self.position))
    }

    // `null` is a value of the wrong type, not an absent key.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        if name == at::NAME {
            visitor.visit_seq(Parts { node: self, next: 0 })
        } else {
            visitor.visit_newtype_struct(self).map_err(|error| error.at(self.position))
        }
    }

    // By default, serde also accepts a list of the fields for a struct.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match self.kind {
            Kind::List(_) => {
                let error: NodeError = de::Error::invalid_type(Unexpected::Seq, &visitor);
                Err(error.at(self.position))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.kind {
            Kind::String(word) => {
                visitor.visit_enum(Word(word)).map_err(|error| error.at(self.position))
            }
            _ => self.deserialize_any(OnlyWords(visitor)),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// Visitor for an enum whose value is not a word. It reports that a word was expected.
struct OnlyWords<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OnlyWords<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }
}

/// A variant without content.
struct Word<'de>(&'de str);

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = NodeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), NodeError> {
        let word: StrDeserializer<'de, NodeError> = self.0.into_deserializer();
        Ok((seed.deserialize(word)?, self))
    }
}

impl<'de> VariantAccess<'de> for Word<'de> {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, NodeError> {
        Err(de::Error::invalid_type(Unexpected::Str(self.0), &"a table"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, NodeError> {
        Err(de::Error::invalid_type(Unexpected::Str(self.0), &"a list"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NodeError> {
        Err(de::Error::invalid_type(Unexpected::Str(self.0), &"a table"))
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = NodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, NodeError> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        self.next += 1;
        let index = self.next;
        let placed = |error: NodeError| error.at(item.position).under(format!("[{}]", index - 1));
        seed.deserialize(item).map(Some).map_err(placed)
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    value: Option<(&'de Key, &'de Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = NodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, NodeError> {
        let Some(((key, node), rest)) = self.entries.split_first() else { return Ok(None) };
        self.entries = rest;
        self.value = Some((key, node));
        let name: StrDeserializer<'de, NodeError> = key.text.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|error| error.at(key.position))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, NodeError> {
        let Some((key, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was requested before its key"));
        };
        seed.deserialize(node).map_err(|error| error.at(node.position).under(key.text.clone()))
    }
}

/// Line, column and value, in the order that `At` reads them.
struct Parts<'de> {
    node: &'de Node,
    next: u8,
}

impl<'de> SeqAccess<'de> for Parts<'de> {
    type Error = NodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, NodeError> {
        self.next += 1;
        let position = self.node.position;
        match self.next {
            1 => seed.deserialize(position.line.into_deserializer()).map(Some),
            2 => seed.deserialize(position.column.into_deserializer()).map(Some),
            3 => seed.deserialize(self.node).map(Some),
            _ => Ok(None),
        }
    }
}
