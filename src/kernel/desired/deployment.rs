//! The Deployment. Pure.

use serde_json::Value;

use super::{Intent, LiveTemplate, Revision};

/// A Deployment and how its template was rendered.
pub struct Rendered {
    /// The whole object.
    pub body: Value,
    /// The rules used.
    pub revision: Revision,
    /// Hash of the rendered template.
    pub template_hash: String,
}

/// Renders the Deployment; see [`super::children`] for the choice of the revision.
#[must_use]
pub fn deployment(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Rendered {
    let _ = (intent, live);
    Rendered { body: Value::Null, revision: Revision::NEWEST, template_hash: String::new() }
}
