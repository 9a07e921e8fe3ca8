//! The resources in files that a plan is asked for, and what the API server would refuse in them. IO; called by
//! [`super::run`] and by [`super::survey`].

use anyhow::{Result, ensure};
use serde_json::Value;

use super::stored;
use crate::api::{GROUP, KIND};
use crate::cli::check::{Finding, Report};
use crate::cli::files::{Files, Text};
use crate::cli::visible::visible;

/// What files hold.
#[derive(Default)]
pub(super) struct FileResources {
    /// The resources.
    pub(super) resources: Vec<Value>,
    /// What the API server would refuse in them, where it is not stored so.
    pub(super) findings: Vec<Finding>,
}

impl FileResources {
    /// Says on standard error what is wrong.
    pub(super) fn complain(&self) {
        self.findings.iter().for_each(|finding| eprintln!("{}", visible(&finding.to_string())));
    }
}

/// Reads the files.
///
/// # Errors
/// When one cannot be read, or the API server would refuse a resource whatever is stored: nothing would come of it.
pub(super) fn wanted(files: &Files) -> Result<FileResources> {
    let mut report = Report::default();
    for Text { file, text } in files.read()? {
        report.check(&file, &text);
    }
    let Report { findings, warnings: _, resources, refused: _, skipped: _ } = &report;
    let may_be_stored = |finding: &Finding| finding.path.as_deref().is_some_and(stored::may_be_stored);
    if !findings.iter().all(may_be_stored) {
        refuse(&findings.iter().collect::<Vec<_>>())?;
    }
    ensure!(
        files.is_empty() || !resources.is_empty(),
        "there is no {KIND} of {GROUP} in the files: {report}"
    );
    Ok(FileResources { resources: report.resources, findings: report.findings })
}

/// Prints what is wrong with files.
///
/// # Errors
/// When anything is.
pub(super) fn refuse(findings: &[&Finding]) -> Result<()> {
    for finding in findings {
        eprintln!("{}", visible(&finding.to_string()));
    }
    ensure!(
        findings.is_empty(),
        "the API server would refuse what the files hold, so there is nothing to plan"
    );
    Ok(())
}
