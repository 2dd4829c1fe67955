//! The tree for both syntaxes: values, keys and their positions.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml::de::{DeTable, DeValue};

use super::Problem;
use super::at::Position;

/// Maximum depth. The schema needs much less.
const MAX_DEPTH: usize = 64;

/// A value with the position of its start.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) kind: Kind,
}

/// Type and content of a value.
#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    /// The name of a type that the schema never accepts.
    Other(&'static str),
    List(Vec<Node>),
    Table(Vec<(Key, Node)>),
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) position: Position,
}

/// A result with the position of the problem.
pub(super) type Located<T> = Result<T, (Position, Problem)>;

/// Converter of byte offsets to lines and columns.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    pub(super) fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = &self.text.as_bytes()[start..offset.clamp(start, self.text.len())];
        // Continuation bytes of UTF-8 do not count as columns.
        let column = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        Position { line: number(line), column: number(column) }
    }
}

/// Converts an index to a number that starts at 1.
fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

pub(super) fn from_jsonc(text: &str, lines: &Lines<'_>) -> Located<Node> {
    // JSONC is JSON with comments and trailing commas.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        (lines.position(error.range().start), Problem::Syntax(lower(&error.kind().to_string())))
    })?;
    let value = parsed.value.ok_or((lines.position(text.len()), Problem::Empty))?;
    json_node(value, lines, 0)
}

fn json_node(value: ast::Value<'_>, lines: &Lines<'_>, depth: usize) -> Located<Node> {
    let position = lines.position(value.start());
    limit(depth, position)?;
    let kind = match value {
        ast::Value::NullKeyword(_) => Kind::Null,
        ast::Value::BooleanLit(lit) => Kind::Bool(lit.value),
        ast::Value::NumberLit(lit) => json_number(lit.value),
        ast::Value::StringLit(lit) => Kind::String(lit.value.into_owned()),
        ast::Value::Array(array) => {
            let items = array.elements.into_iter();
            Kind::List(
                items.map(|item| json_node(item, lines, depth + 1)).collect::<Result<_, _>>()?,
            )
        }
        ast::Value::Object(object) => json_table(object, lines, depth)?,
    };
    Ok(Node { position, kind })
}

fn json_table(object: ast::Object<'_>, lines: &Lines<'_>, depth: usize) -> Located<Kind> {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for property in object.properties {
        let position = lines.position(property.name.start());
        let text = property.name.into_string();
        if let Some(first) = seen.insert(text.clone(), position.line) {
            return Err((position, Problem::DuplicateKey { key: text, first: Some(first) }));
        }
        entries.push((Key { text, position }, json_node(property.value, lines, depth + 1)?));
    }
    Ok(Kind::Table(entries))
}

fn json_number(text: &str) -> Kind {
    if let Ok(integer) = text.parse() {
        return Kind::Integer(integer);
    }
    text.parse().map_or(Kind::Other("a number out of range"), Kind::Float)
}

pub(super) fn from_toml(text: &str, lines: &Lines<'_>) -> Located<Node> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let problem = match text.get(span.clone()) {
            Some(key) if error.message() == "duplicate key" => {
                Problem::DuplicateKey { key: key.trim_matches(['"', '\'']).to_owned(), first: None }
            }
            _ => Problem::Syntax(lower(error.message())),
        };
        (lines.position(span.start), problem)
    })?;
    let position = Position { line: 1, column: 1 };
    Ok(Node { position, kind: toml_table(table.into_inner(), lines, 0)? })
}

fn toml_node(value: DeValue<'_>, at: usize, lines: &Lines<'_>, depth: usize) -> Located<Node> {
    let position = lines.position(at);
    limit(depth, position)?;
    let kind = match value {
        DeValue::Boolean(value) => Kind::Bool(value),
        DeValue::String(text) => Kind::String(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Kind::Other("a number out of range"), Kind::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Kind::Other("a number out of range"), Kind::Float)
        }
        DeValue::Datetime(_) => Kind::Other("a date"),
        DeValue::Array(items) => Kind::List(
            items
                .into_iter()
                .map(|item| {
                    let at = item.span().start;
                    toml_node(item.into_inner(), at, lines, depth + 1)
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => toml_table(table, lines, depth)?,
    };
    Ok(Node { position, kind })
}

fn toml_table(table: DeTable<'_>, lines: &Lines<'_>, depth: usize) -> Located<Kind> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let position = lines.position(key.span().start);
        let at = value.span().start;
        let node = toml_node(value.into_inner(), at, lines, depth + 1)?;
        entries.push((Key { text: key.into_inner().into_owned(), position }, node));
    }
    // The parser sorts by name. In the order of the file, the first error is the topmost one.
    entries.sort_by_key(|(key, _)| key.position);
    Ok(Kind::Table(entries))
}

fn limit(depth: usize, position: Position) -> Located<()> {
    if depth > MAX_DEPTH { Err((position, Problem::TooDeep)) } else { Ok(()) }
}

/// Adapts a message of a parser to the style of our messages.
fn lower(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect::<String>().replace('\n', " ")
    })
}

/// Moves the keys of `sandbox = { … }` one level up, to where the schema has them. The empty `sandbox` remains and
/// shows that it was used.
pub(super) fn lift_sandbox(root: &mut Node) -> Located<()> {
    let Kind::Table(entries) = &mut root.kind else { return Ok(()) };
    let inner = entries.iter_mut().find(|(key, _)| key.text == "sandbox");
    let Some((_, Node { kind: Kind::Table(inner), .. })) = inner else { return Ok(()) };
    for (key, node) in std::mem::take(inner) {
        if let Some((first, _)) = entries.iter().find(|(first, _)| first.text == key.text) {
            let first = Some(first.position.line);
            return Err((key.position, Problem::DuplicateKey { key: key.text, first }));
        }
        entries.push((key, node));
    }
    Ok(())
}
