//! What Argo CD makes of an object: takes a health script and JSON, runs the script by the Lua interpreter that Argo CD
//! uses. Called by tests. The program around the interpreter is `e2e/tools/argo-cd`.

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::line_program::LineProgram;
use crate::programs::Family;

/// The health of an object, in Argo CD's words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// `Healthy`, `Progressing`, `Degraded`, `Suspended`, `Missing` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// What Argo CD shows beside it.
    #[serde(default)]
    pub message: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(flatten)]
    health: Health,
    #[serde(default)]
    error: String,
}

/// The running program.
#[derive(Debug)]
pub struct ArgoCd(LineProgram);

impl ArgoCd {
    /// Starts it, after building it where that was not done yet.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> Result<Self> {
        LineProgram::start(&Family::ArgoCd.build()?.join("argo-cd")).map(Self)
    }

    /// The health of an object by this script.
    ///
    /// # Errors
    /// When the script fails, or returns what is no health: with the interpreter's words.
    pub fn health(&mut self, script: &str, object: &Value) -> Result<Health> {
        let Answer { health, error } = self.0.ask(&json!({"script": script, "object": object}))?;
        ensure!(error.is_empty(), "the script fails: {error}");
        Ok(health)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_interpreter_runs_a_script_and_takes_no_other_word_for_a_health() {
        let mut argo_cd = ArgoCd::start().expect("it starts");
        let mut health = |script: &str| argo_cd.health(script, &json!({"spec": {"replicas": 2}}));
        let healthy =
            health("if obj.spec.replicas == 2 then return {status = 'Healthy', message = 'two'} end");
        assert_eq!(healthy.expect("a health"), Health { status: "Healthy".into(), message: "two".into() });
        for broken in ["return {status = 'Fine'}", "return 'Healthy'", "nothing", "obj.no.such = 1"] {
            assert!(health(broken).is_err(), "{broken}");
        }
    }
}
