//! A program that answers line by line: takes JSON on its standard input, gives one line of JSON for each. Called by
//! `kstatus` and `argo_cd`. It is started once, and ends with this value.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The running program.
#[derive(Debug)]
pub(super) struct LineProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl LineProgram {
    /// Starts the program of this file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take().context("the program has no input")?;
        let output = BufReader::new(child.stdout.take().context("the program has no output")?);
        Ok(Self { child, input, output })
    }

    /// What it answers to this.
    ///
    /// # Errors
    /// When it has ended, or answers with something else.
    pub(super) fn ask<A: DeserializeOwned>(&mut self, question: &Value) -> Result<A> {
        writeln!(self.input, "{question}").context("the program takes no more input")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the program answers {line:?}"))
    }
}

impl Drop for LineProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
