//! The headless Service. Pure.

use serde_json::Value;

use super::Intent;

/// Renders the Service.
#[must_use]
pub fn service(intent: &Intent<'_>) -> Value {
    let _ = intent;
    Value::Null
}
