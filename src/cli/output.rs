//! The option `--output` of the commands that report findings. Pure.

use anyhow::Result;
use serde::Serialize;

use super::yaml;

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For programs, and for people who read YAML.
    Yaml,
}

/// How programs get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

impl Output {
    /// The format for programs; `None` for people.
    pub(super) const fn for_programs(self) -> Option<Format> {
        match self {
            Self::Text => None,
            Self::Json => Some(Format::Json),
            Self::Yaml => Some(Format::Yaml),
        }
    }
}

impl Format {
    /// A value as one document, with a newline at its end.
    ///
    /// # Errors
    /// When the value cannot be written so.
    pub(super) fn text(self, value: &impl Serialize) -> Result<String> {
        match self {
            Self::Json => Ok(format!("{}\n", serde_json::to_string_pretty(value)?)),
            Self::Yaml => yaml::document(value),
        }
    }
}
