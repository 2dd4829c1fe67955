//! Layers and origins: the place where each value was set, for messages that explain a decision.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Layer of the configuration, in order of precedence: a later layer overrides an earlier one.
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

/// The place where a value was set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A default of the product.
    Default,
    /// A line of a preset, such as `@secrets`.
    Preset(&'static str),
    /// A line of a configuration file.
    File {
        /// The layer of the file.
        layer: Layer,
        /// The file.
        path: Arc<Path>,
        /// The line, starting at 1.
        line: u32,
    },
    /// A flag, as typed: `--ro src`.
    Flag(String),
}

impl Origin {
    /// Returns the layer of this origin.
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

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Joins a value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
