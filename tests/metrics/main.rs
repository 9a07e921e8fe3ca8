//! The metrics as people meet them: the table in the documentation, the alerts and the dashboard are held against the
//! tables in the code.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its fixture is not as it should be"
)]

mod alerts;
mod dashboard;
mod document;
mod expressions;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of this repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).expect(name)
}
