//! What deployment tools think of an object: takes JSON, asks the Go library that Flux, Helm and kpt ask. Called by
//! tests. The program around the library is `e2e/tools/kstatus`; it is started once and answers line by line.

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::line_program::LineProgram;
use crate::programs::Family;

/// The statuses that kstatus knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[expect(missing_docs, reason = "the words are the library's")]
pub enum Status {
    InProgress,
    Failed,
    Current,
    Terminating,
    NotFound,
    Unknown,
}

/// A status with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusResult {
    /// The status.
    pub status: Status,
    /// Why, in the library's words.
    pub message: String,
}

#[derive(Deserialize)]
struct Answer {
    status: Option<Status>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    error: String,
}

/// The running program.
#[derive(Debug)]
pub struct Kstatus(LineProgram);

impl Kstatus {
    /// Starts it, after building it where that was not done yet.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> Result<Self> {
        LineProgram::start(&Family::Kstatus.build()?.join("kstatus")).map(Self)
    }

    /// The status of an object with `apiVersion` and `kind`.
    ///
    /// # Errors
    /// When the library cannot judge it.
    pub fn status(&mut self, object: &Value) -> Result<StatusResult> {
        let answer: Answer = self.0.ask(object)?;
        match answer.status {
            Some(status) => Ok(StatusResult { status, message: answer.message }),
            None => bail!("kstatus cannot judge the object: {}", answer.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_real_library_answers_for_object_after_object() {
        let mut kstatus = Kstatus::start().expect("it starts");
        let object = |status: Value| {
            json!({"apiVersion": "example.io/v1", "kind": "Thing",
                   "metadata": {"name": "a", "generation": 2}, "status": status})
        };
        let stalled = json!({"conditions": [{"type": "Stalled", "status": "True", "message": "no"}]});
        for (status, wanted) in [
            (json!({"observedGeneration": 1}), Status::InProgress),
            (json!({"observedGeneration": 2}), Status::Current),
            (stalled, Status::Failed),
        ] {
            assert_eq!(kstatus.status(&object(status)).expect("a status").status, wanted);
        }
        assert!(kstatus.status(&json!({"no": "kind"})).is_err());
    }
}
