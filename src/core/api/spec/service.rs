//! `spec.service`: what the Service says for others. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::labels;

/// Settings of the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSpec {
    /// Annotations of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = labels::annotation_schema,
        extend("x-kubernetes-validations" = labels::others_annotation_rules())
    )]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The annotations of the Service.
pub(super) fn validate(findings: &mut Findings, raw: Option<&ServiceSpec>) -> BTreeMap<String, String> {
    let annotations = raw.and_then(|ServiceSpec { annotations }| annotations.as_ref());
    labels::validate_service_annotations(findings, "spec.service.annotations", annotations)
}
