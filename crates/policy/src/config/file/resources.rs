//! Limits of a session: memory, CPUs, processes.

use std::fmt;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::word::Invalid;
use crate::text::shown;

/// Limits of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Resources {
    /// Memory: `"512m"`, `"2g"`, or bytes.
    pub memory: Option<Memory>,
    /// CPUs: `"1.5"` or `2`.
    pub cpus: Option<Cpus>,
    /// Number of processes.
    pub pids: Option<NonZeroU32>,
}

impl Resources {
    /// Merges with an earlier layer. The keys of this one win.
    pub(crate) fn over(self, earlier: Self) -> Self {
        Self {
            memory: self.memory.or(earlier.memory),
            cpus: self.cpus.or(earlier.cpus),
            pids: self.pids.or(earlier.pids),
        }
    }
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub u64);

/// CPUs, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus(pub u32);

impl Memory {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(format!("invalid amount of memory {}", shown(text)))
                .hint("write a number with `k`, `m` or `g`, such as `\"512m\"`")
        };
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(['b', 'i', 'k', 'm', 'g']);
        let unit: u64 = match &lower[digits.len()..] {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(wrong()),
        };
        let amount: u64 = digits.parse().map_err(|_| wrong())?;
        amount.checked_mul(unit).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}

impl Cpus {
    fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(format!("invalid number of CPUs {}", shown(text)))
                .hint("write a number such as `\"1.5\"`")
        };
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > 3 {
            return Err(wrong());
        }
        let thousandths = format!("{whole}{rest:0<3}").parse().map_err(|_| wrong())?;
        if thousandths == 0 { Err(wrong()) } else { Ok(Self(thousandths)) }
    }
}

/// Reads an amount that is written as a string or as a number.
fn amount<'de, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
) -> Result<String, D::Error> {
    struct Visitor(&'static str);

    impl de::Visitor<'_> for Visitor {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }

    deserializer.deserialize_any(Visitor(expecting))
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = amount(deserializer, "an amount such as `\"512m\"`")?;
        Self::parse(&text).map_err(Invalid::into_serde)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = amount(deserializer, "a number such as `\"1.5\"`")?;
        Self::parse(&text).map_err(Invalid::into_serde)
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "examples": ["512m", "2g"] })
    }
}

impl JsonSchema for Cpus {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "examples": ["1", "1.5"] })
    }
}
