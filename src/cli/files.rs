//! The files that commands take, and standard input. IO.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::yaml;

/// Every object of these files.
///
/// # Errors
/// When one cannot be read, or is not YAML.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Value>> {
    let objects = files.iter().map(|file| {
        let name = file.display().to_string();
        yaml::objects(&read(file)?).context(name)
    });
    Ok(objects.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The text of a file; `-` is standard input.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(file: &Path) -> Result<String> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    text.with_context(|| format!("cannot read {}", file.display()))
}
