//! First stage: the spec that users wrote, as far as a child may be built from it. Pure; called by the pass.

use super::view::View;
use crate::api::spec::{Violation, validate, validate_again};
use crate::api::{MemcachedSpec, Validated};

/// The spec with every default resolved, or what is wrong with it.
pub fn validated(view: &View<'_>) -> Result<Validated, String> {
    let seen = &view.resource.seen;
    let spec: &MemcachedSpec = seen.spec.as_ref().map_err(|error| format!("spec cannot be read: {error}"))?;
    // These hashes are those of a spec that was valid, and the world drops them where another one comes.
    let validate = if view.resource.rendered_hashes.is_some() { validate_again } else { validate };
    validate(&seen.key.name, spec).map_err(|violations: Vec<Violation>| {
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })
}
