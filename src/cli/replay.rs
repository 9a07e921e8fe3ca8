//! `memcached-operator replay`: feeds a journal's events to a kernel and compares its effects with the recorded ones. Takes one
//! file of a journal, or what `/debug/journal` gave; gives a summary or the first difference. IO only in that it reads the file.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::Output;
use super::stdout;
use crate::kernel::reconciler::Reconciler;
use crate::shell::journal::{FORMAT, Header, Opening, Step, VERSION};

/// Options of `replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One file of a journal, each of which replays alone, or what /debug/journal gave; - for standard input
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub file: PathBuf,
    /// How to print what came of it.
    #[arg(short, long, env = "MEMCACHED_OPERATOR_OUTPUT", value_enum, default_value_t)]
    output: Output,
}

/// What was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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
        let Self { steps, effects, cut_off } = self;
        let s = |count: &u64| if *count == 1 { "" } else { "s" };
        write!(f, "{steps} step{}, {effects} effect{}, identical", s(steps), s(effects))?;
        if *cut_off {
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
    #[error(
        "line 1 is not the snapshot that a journal begins with: give a whole file of it, or all that /debug/journal gave"
    )]
    NoSnapshot(#[source] serde_json::Error),
    /// The journal in memory of an operator with many resources, or large ones.
    #[error(
        "the operator has too many caches, or too large ones, to keep their state in memory twice, so what /debug/journal gives does not replay: \
         run it with --journal, and replay one of its files"
    )]
    TooLarge,
    /// A build with another format wrote the journal.
    #[error(
        "the journal has format {format}, written by version {version}, and this build reads format {FORMAT}: replay it \
         with the build that wrote it"
    )]
    OtherFormat {
        /// The build that wrote it.
        version: String,
        /// The format of the journal.
        format: u32,
    },
    /// A line, not the last, is no step.
    #[error("line {line} is not a step of a journal")]
    NoStep {
        /// Counted from 1.
        line: u64,
        /// The place where the line stops to make sense.
        source: serde_json::Error,
    },
    /// The kernel did something else.
    #[error("{0}")]
    Differs(Box<Difference>),
}

/// The first effect that is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The number of the step, counted from 1.
    pub step: u64,
    /// What was learned in it, as JSON.
    pub event: String,
    /// The number of the effect in its step, counted from 1.
    pub effect: usize,
    /// The effect recorded, as JSON; `None` where there were fewer.
    pub expected: Option<String>,
    /// The effect now, as JSON; `None` where there are fewer.
    pub got: Option<String>,
    /// The build that recorded it.
    pub version: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, event, effect, expected, got, version } = self;
        let shown = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
        writeln!(f, "step {step}, effect {effect} differs (recorded by {version}, replayed by {VERSION})")?;
        write!(f, "  event:    {event}\n  expected: {}\n  got:      {}", shown(expected), shown(got))
    }
}

/// Replays the file and prints how it went.
///
/// # Errors
/// See [`ReplayError`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let ended = if args.file == Path::new("-") {
        replay(std::io::stdin().lock())
    } else {
        let file = File::open(&args.file).with_context(|| format!("cannot open the journal {name}"))?;
        replay(BufReader::new(file))
    };
    if let Some(format) = args.output.for_programs() {
        let told = match &ended {
            Ok(summary) => json!({"identical": true, "summary": summary}),
            Err(ReplayError::Differs(difference)) => json!({"identical": false, "difference": difference}),
            Err(_) => Value::Null,
        };
        if !told.is_null() {
            stdout::print(&format.text(&told)?)?;
        }
    }
    let summary = ended.with_context(|| format!("replay of {name} failed"))?;
    if args.output == Output::Text {
        stdout::print(&format!("{summary}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn opening(line: &[u8]) -> Result<(String, Reconciler), ReplayError> {
    let Header { version, format } = serde_json::from_slice(line).map_err(ReplayError::NoSnapshot)?;
    if format != FORMAT {
        return Err(ReplayError::OtherFormat { version, format });
    }
    let opening: Opening<Option<Reconciler>> =
        serde_json::from_slice(line).map_err(ReplayError::NoSnapshot)?;
    Ok((opening.version, opening.snapshot.ok_or(ReplayError::TooLarge)?))
}

/// Replays one file of a journal.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(journal: impl BufRead) -> Result<Summary, ReplayError> {
    // Bytes, not text: a kill may cut the last line within a character.
    let mut lines = journal.split(b'\n').zip(1..).map(|(text, line)| match text {
        Ok(text) => Ok((line, text)),
        Err(source) => Err(ReplayError::Read { line, source }),
    });
    let first = lines.next().transpose()?.map(|(_, text)| text).unwrap_or_default();
    let (version, mut reconciler) = opening(&first)?;
    let mut lines = lines.peekable();
    let mut summary = Summary { steps: 0, effects: 0, cut_off: false };
    while let Some(line) = lines.next() {
        let (line, text) = line?;
        let Step { at, event, effects: recorded } = match serde_json::from_slice(&text) {
            Ok(step) => step,
            Err(_) if lines.peek().is_none() => {
                summary.cut_off = true;
                break;
            }
            Err(source) => return Err(ReplayError::NoStep { line, source }),
        };
        let no_step = |source| ReplayError::NoStep { line, source };
        let learned = serde_json::to_string(&event).map_err(no_step)?;
        let effects = reconciler.step(at, event);
        summary.steps += 1;
        summary.effects += effects.len() as u64;
        let got =
            effects.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>().map_err(no_step)?;
        if let Some((effect, expected, got)) = first_difference(&recorded, &got) {
            let (step, event) = (summary.steps, learned);
            let difference = Difference { step, event, effect, expected, got, version };
            return Err(ReplayError::Differs(Box::new(difference)));
        }
    }
    Ok(summary)
}

/// The first effect, counted from 1, that is not the same to the letter, as recorded and as now.
fn first_difference(
    recorded: &[Box<RawValue>],
    got: &[String],
) -> Option<(usize, Option<String>, Option<String>)> {
    let recorded = |index: usize| recorded.get(index).map(|effect| effect.get());
    let got = |index: usize| got.get(index).map(String::as_str);
    let index = (0..).take_while(|&index| recorded(index).is_some() || got(index).is_some());
    let index = index.into_iter().find(|&index| recorded(index) != got(index))?;
    Some((index + 1, recorded(index).map(str::to_owned), got(index).map(str::to_owned)))
}
