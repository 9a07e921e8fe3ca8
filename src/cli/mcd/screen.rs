//! Prints views: as text, in colours where the terminal wants them, or for programs; once, or again and again. IO; called by
//! every command that shows something.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use super::options::ScreenArgs;
use crate::cli::output::{Format, Output};

/// How long `--watch` waits between two looks.
const PACE: Duration = Duration::from_secs(2);
/// Clears a terminal, and goes to its upper left corner.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// Something to show: the same thing for programs and for people.
#[derive(Clone, Debug)]
pub struct Shown {
    value: Value,
    text: String,
}

impl Shown {
    /// A view, and how people read it.
    ///
    /// # Errors
    /// When the view does not serialise.
    pub fn new<V: Serialize>(view: &V, text: impl FnOnce(&V) -> String) -> Result<Self> {
        Ok(Self { value: serde_json::to_value(view)?, text: text(view) })
    }

    /// As it is printed.
    fn printed(&self, args: ScreenArgs) -> Result<String> {
        Ok(match args.output.for_programs() {
            None => self.text.clone(),
            // A program that reads a stream wants one document a line, or documents that are told apart.
            Some(Format::Json) if args.watch => format!("{}\n", self.value),
            Some(Format::Yaml) if args.watch => format!("---\n{}", Format::Yaml.text(&self.value)?),
            Some(format) => format.text(&self.value)?,
        })
    }

    /// Without the time of the look, which always differs.
    fn content(&self) -> Value {
        let mut content = self.value.clone();
        if let Some(fields) = content.as_object_mut() {
            fields.remove("at");
        }
        content
    }
}

/// Shows what `look` gives: once, or under `--watch` until somebody interrupts it. Then a terminal always shows the newest look,
/// and everything else gets each look that differs from the one before.
///
/// # Errors
/// Those of `look`, or when nothing can be printed.
pub async fn show(args: ScreenArgs, mut look: impl AsyncFnMut() -> Result<Shown>) -> Result<()> {
    let redraws = args.watch && args.output == Output::Text && std::io::stdout().is_terminal();
    let mut last = None;
    loop {
        let shown = look().await?;
        let content = shown.content();
        if redraws {
            print(&format!("{CLEAR}{}", shown.printed(args)?))?;
        } else if last.as_ref() != Some(&content) {
            print(&shown.printed(args)?)?;
        }
        if !args.watch {
            return Ok(());
        }
        last = Some(content);
        sleep(PACE).await;
    }
}

/// Prints on standard output; colours and the like only where somebody sees them.
///
/// # Errors
/// When it cannot be printed. A reader that has seen enough is no error: then the program ends.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        printed => printed.context("cannot print"),
    }
}
