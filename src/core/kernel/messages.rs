//! What people are told: Kubernetes Events and lines of the log. Pure data; the words are made by [`super::kube_events`] and
//! [`super::log_lines`].

use serde::{Deserialize, Serialize};

/// A Kubernetes Event about a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeEvent {
    /// Whether something needs attention.
    pub severity: Severity,
    /// CamelCase, from a fixed set.
    pub reason: String,
    /// What was being done, CamelCase.
    pub action: String,
    /// One or two sentences, at most 1,024 bytes.
    pub message: String,
}

/// `type` of a Kubernetes Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// An Event of type Warning: somebody should look.
    Warning,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// How important it is.
    pub level: LogLevel,
    /// What it says.
    pub words: String,
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogLevel {
    /// Of interest to those who look for a defect.
    Debug,
    /// A decision.
    Info,
    /// Somebody should look.
    Warn,
}
