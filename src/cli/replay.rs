//! `memcached-operator replay`: feeds a journal's events to a kernel and holds its effects against the recorded
//! ones. Takes one file of a journal; gives a summary or the first difference. IO only in that it reads the file.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::kernel::kernel::Kernel;
use crate::shell::journal::{Opening, Step, VERSION};

/// Options of `replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One file of a journal; each replays alone
    pub file: PathBuf,
}

/// What was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Steps of the kernel.
    pub steps: u64,
    /// Effects of all steps.
    pub effects: u64,
    /// Whether the last line was cut off, as by a kill or a full disk, and therefore left out.
    pub cut_off: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps, {} effects, identical", self.steps, self.effects)?;
        if self.cut_off {
            write!(f, " (the last line was cut off and left out)")?;
        }
        Ok(())
    }
}

/// Why a journal was not replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read line {line}")]
    Read {
        /// Counted from 1.
        line: u64,
        /// What the system says.
        source: std::io::Error,
    },
    /// The first line is no snapshot.
    #[error("line 1 is not the snapshot that a journal's file begins with")]
    NoSnapshot(#[source] serde_json::Error),
    /// A line, not the last, is no step.
    #[error("line {line} is not a step of a journal")]
    NoStep {
        /// Counted from 1.
        line: u64,
        /// Where it stops to make sense.
        source: serde_json::Error,
    },
    /// The kernel did something else.
    #[error("{0}")]
    Differs(Box<Difference>),
}

/// The first step at which the kernel did something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which one, counted from 1.
    pub step: u64,
    /// What was learned, as JSON.
    pub event: String,
    /// The effects recorded, as JSON.
    pub expected: String,
    /// The effects now, as JSON.
    pub got: String,
    /// The build that recorded them.
    pub version: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, event, expected, got, version } = self;
        writeln!(f, "step {step} differs (recorded by {version}, replayed by {VERSION})")?;
        write!(f, "  event:    {event}\n  expected: {expected}\n  got:      {got}")
    }
}

/// Replays the file and prints how it went.
///
/// # Errors
/// See [`ReplayError`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open the journal {name}"))?;
    let summary = replay(BufReader::new(file)).with_context(|| format!("replay of {name} failed"))?;
    println!("{summary}");
    Ok(ExitCode::SUCCESS)
}

/// Replays one file of a journal.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(journal: impl BufRead) -> Result<Summary, ReplayError> {
    let mut lines = journal.lines().zip(1..).map(|(text, line)| match text {
        Ok(text) => Ok((line, text)),
        Err(source) => Err(ReplayError::Read { line, source }),
    });
    let first = lines.next().transpose()?.map(|(_, text)| text).unwrap_or_default();
    let Opening { version, snapshot } =
        serde_json::from_str::<Opening<Kernel>>(&first).map_err(ReplayError::NoSnapshot)?;
    let mut kernel = snapshot;
    let mut lines = lines.peekable();
    let mut summary = Summary { steps: 0, effects: 0, cut_off: false };
    while let Some(line) = lines.next() {
        let (line, text) = line?;
        let Step { at, event, effects: expected } = match serde_json::from_str(&text) {
            Ok(step) => step,
            Err(_) if lines.peek().is_none() => {
                summary.cut_off = true;
                break;
            }
            Err(source) => return Err(ReplayError::NoStep { line, source }),
        };
        let learned = event.clone();
        let effects = kernel.step(at, event);
        summary.steps += 1;
        summary.effects += effects.len() as u64;
        let got = serde_json::to_string(&effects).map_err(|source| ReplayError::NoStep { line, source })?;
        if got != expected.get() {
            return Err(ReplayError::Differs(Box::new(Difference {
                step: summary.steps,
                event: serde_json::to_string(&learned).unwrap_or_else(|error| error.to_string()),
                expected: expected.get().to_owned(),
                got,
                version,
            })));
        }
    }
    Ok(summary)
}
