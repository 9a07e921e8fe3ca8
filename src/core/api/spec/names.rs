//! The name of the resource, and fields that name another object: their limits, words, CEL and check. Pure; called by
//! the sections and by [`super::super::crd`].

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;

use super::findings::{self, Findings};

/// Characters of a resource's name at most: it becomes a Service's name and a label value.
const NAME_LENGTH: usize = 63;
/// A DNS-1035 label, length aside.
const NAME_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// The message where no Service can have a name.
pub const NAME: &str = "name must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', \
                        starting with a letter and not ending with '-'";

/// Name of a Secret, a ServiceAccount or a PriorityClass, or empty for none. It becomes part of a request's path.
pub(super) const OBJECT_NAME_PATTERN: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// Characters of such a name at most.
pub(super) const OBJECT_NAME_LENGTH: usize = 253;

static RESOURCE: LazyLock<Regex> = LazyLock::new(|| findings::pattern(NAME_PATTERN));
static OBJECT: LazyLock<Regex> = LazyLock::new(|| findings::pattern(OBJECT_NAME_PATTERN));

/// CEL for the resource's name. Only on create: an old resource with a bad name must still take a status that says so.
#[must_use]
pub(in crate::api) fn resource_rule() -> ValidationRule {
    ValidationRule {
        rule: format!(
            "oldSelf.hasValue() || (size(self.metadata.name) <= {NAME_LENGTH} && \
             self.metadata.name.matches('{NAME_PATTERN}'))"
        ),
        optional_old_self: Some(true),
        field_path: Some(".metadata.name".to_owned()),
        message: Some(NAME.to_owned()),
        ..ValidationRule::default()
    }
}

/// Checks the resource's name.
pub(super) fn validate_resource(findings: &mut Findings, name: &str) {
    let valid = name.len() <= NAME_LENGTH && findings.has(&RESOURCE, name);
    findings.check(valid, "metadata.name", || NAME.to_owned());
}

/// The name of another object, where one is written. An empty one is none, to the API server too.
pub(super) fn validate_object(findings: &mut Findings, path: &str, raw: Option<&str>) -> Option<String> {
    let name = raw.filter(|name| !name.is_empty())?;
    if findings.length(path, name, OBJECT_NAME_LENGTH) {
        findings.pattern(path, name, &OBJECT);
    }
    Some(name.to_owned())
}
