//! `memcached-operator validate`: checks resources in files by the rules of the API server, without one. IO: reads the
//! files and prints what [`super::check`] finds.
//!
//! Unknown fields count as wrong, as they do for `kubectl apply`: the API server drops them, which is how a misspelt setting
//! gets lost.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;

use super::check::Report;
use super::files::{Files, Text};
use super::output::Output;
use super::stdout;
use crate::api::{GROUP, KIND};

/// What to check, and how to say what is wrong.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("files").args(["filename", "paths"]).required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// How to print what is wrong.
    #[arg(short, long, env = "MEMCACHED_OPERATOR_OUTPUT", value_enum, default_value_t)]
    output: Output,
}

/// Checks every file and prints on standard output what is wrong: exit code 0 when nothing is, 1 otherwise.
///
/// # Errors
/// A file that cannot be read, and files without a resource of ours: nobody should take that for valid.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut report = Report::default();
    for Text { file, text } in args.files.read()? {
        report.check(&file, &text);
    }
    stdout::print(&text(&report, args.output)?)?;
    let Report { findings, warnings: _, resources, refused: _, skipped: _ } = &report;
    ensure!(
        !resources.is_empty() || !findings.is_empty(),
        "there is no {KIND} of {GROUP} to check: {report}"
    );
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(report: &Report, output: Output) -> Result<String> {
    let Report { findings, warnings, resources, refused, skipped } = report;
    if let Some(format) = output.for_programs() {
        let summary = json!({"checked": resources.len(), "refused": refused, "skipped": skipped});
        return format.text(&json!({"findings": findings, "warnings": warnings, "summary": summary}));
    }
    let refused = findings.iter().map(|finding| format!("{finding}\n"));
    let warned = warnings.iter().map(|warning| format!("Warning: {warning}\n"));
    let lines: String = refused.chain(warned).collect();
    Ok(format!("{lines}{report}\n"))
}
