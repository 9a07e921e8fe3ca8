//! The findings of a preflight as text for people, or as JSON or YAML. Pure; called by the command.

use anyhow::Result;
use serde_json::json;

use super::judge::{Finding, Level};
use crate::api::KIND;
use crate::cli::output::Output;

/// The findings as they are printed, and whether the change is safe.
pub(super) fn text(findings: &[Finding], resources: usize, output: Output) -> Result<String> {
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (blocks, steps) = (count(Level::Block), count(Level::Do));
    if let Some(format) = output.for_programs() {
        let summary = json!({"resources": resources, "safe": blocks == 0, "block": blocks, "do": steps});
        return format.text(&json!({"findings": findings, "summary": summary}));
    }
    let lines: String = findings.iter().map(line).collect();
    let conclusion = match (blocks, steps) {
        (0, 0) => "The change is safe: no pod would be replaced.",
        (0, _) => "The change is safe once the lines with \"do\" are done: no pod would be replaced.",
        _ => "The change is not safe: correct the lines with \"!\" first.",
    };
    Ok(format!("{lines}{KIND}s looked at: {resources}. {conclusion}\n"))
}

fn line(Finding { level, object, message }: &Finding) -> String {
    let mark = match level {
        Level::Block => "!",
        Level::Do => "do",
        Level::Note => "note",
    };
    format!("{mark:<4} {object}: {message}\n")
}
