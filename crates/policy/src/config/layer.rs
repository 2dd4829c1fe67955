//! Layers and origins: where a value was written, so that every answer can say why.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who said it. The order is the precedence: a later layer wins over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Defaults and presets of the product.
    Builtin,
    /// The user's own configuration.
    Global,
    /// The project's configuration, or the file named by `--config`.
    Project,
    /// The command line.
    Flags,
}

/// The place a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A default of the product.
    Default,
    /// A line of a preset, such as `@secrets`.
    Preset(&'static str),
    /// A line of a configuration file.
    File {
        /// Which layer the file is.
        layer: Layer,
        /// The file.
        path: Arc<Path>,
        /// The line, from 1.
        line: u32,
    },
    /// A flag, as it was typed: `--ro src`.
    Flag(String),
}

impl Origin {
    /// The layer this origin belongs to.
    pub fn layer(&self) -> Layer {
        match self {
            Self::Default | Self::Preset(_) => Layer::Builtin,
            Self::File { layer, .. } => *layer,
            Self::Flag(_) => Layer::Flags,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Flag(text) => write!(f, "flag {text}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// What was written.
    pub value: T,
    /// Where.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Joins a value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
