//! `@lint/*`: an agent cannot change the rules that its code is checked against.

use super::Line;
use crate::config::Access::Ro;

/// TypeScript and JavaScript.
pub(super) const TS: &[Line] = &[
    (Ro, "biome.json"),
    (Ro, "biome.jsonc"),
    (Ro, ".eslintrc"),
    (Ro, ".eslintrc.js"),
    (Ro, ".eslintrc.json"),
    (Ro, "eslint.config.js"),
    (Ro, "eslint.config.mjs"),
    (Ro, ".oxlintrc.json"),
    (Ro, ".prettierrc"),
    (Ro, ".prettierrc.json"),
    (Ro, "prettier.config.js"),
    (Ro, "tsconfig.json"),
    (Ro, "tsconfig.build.json"),
    EDITORCONFIG,
];

/// Go.
pub(super) const GO: &[Line] = &[
    (Ro, ".golangci.yml"),
    (Ro, ".golangci.yaml"),
    (Ro, ".golangci.toml"),
    (Ro, ".golangci.json"),
    EDITORCONFIG,
];

/// Python.
pub(super) const PYTHON: &[Line] = &[
    (Ro, "pyproject.toml"),
    (Ro, "setup.cfg"),
    (Ro, ".flake8"),
    (Ro, "mypy.ini"),
    (Ro, ".mypy.ini"),
    (Ro, ".pylintrc"),
    (Ro, "ruff.toml"),
    (Ro, ".ruff.toml"),
    EDITORCONFIG,
];

/// Part of every lint preset.
const EDITORCONFIG: Line = (Ro, ".editorconfig");
