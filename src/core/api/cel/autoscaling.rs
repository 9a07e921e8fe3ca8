//! Rules of `spec.autoscaling`. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::api::rules::{self, SCALED_REPLICAS};

/// `autoscaling`: bounds that leave a number of pods.
#[must_use]
pub(in crate::api) fn bounds() -> Vec<ValidationRule> {
    let min = format!("self.?minReplicas.orValue({})", SCALED_REPLICAS.default);
    let off = "!self.?enabled.orValue(false)";
    vec![
        ValidationRule {
            rule: format!("{off} || has(self.maxReplicas)"),
            reason: Some("FieldValueRequired".to_owned()),
            field_path: Some(".maxReplicas".to_owned()),
            message: Some(rules::MAX_REPLICAS.to_owned()),
            ..ValidationRule::default()
        },
        ValidationRule {
            rule: format!("{off} || !has(self.maxReplicas) || {min} <= self.maxReplicas"),
            field_path: Some(".minReplicas".to_owned()),
            message_expression: Some(format!(
                "'minReplicas (%d) must not exceed maxReplicas (%d)'.format([{min}, self.maxReplicas])"
            )),
            ..ValidationRule::default()
        },
    ]
}

/// `spec`: a share of memcached's CPU request needs that request. No metric at all means such a share.
#[must_use]
pub(in crate::api) fn cpu_request() -> ValidationRule {
    // Taken from `orValue`, a list has no bounds, which breaks the cost budget.
    let metrics = "self.autoscaling.metrics";
    let share = |source: &str| {
        format!(
            "m.?{source}.?name.orValue('') == 'cpu' && m.?{source}.?target.?type.orValue('') == 'Utilization'"
        )
    };
    let uses = format!(
        "m.type == 'Resource' && {} || m.type == 'ContainerResource' && {} && \
         m.?containerResource.?container.orValue('') == '{}'",
        share("resource"),
        share("containerResource"),
        rules::CONTAINER
    );
    let requested = |amounts: &str| format!("self.?resources.?{amounts}[?'cpu'].hasValue()");
    ValidationRule {
        rule: format!(
            "!self.?autoscaling.?enabled.orValue(false) || has({metrics}) && size({metrics}) > 0 && \
             !{metrics}.exists(m, {uses}) || {} || {}",
            requested("requests"),
            requested("limits")
        ),
        reason: Some("FieldValueRequired".to_owned()),
        field_path: Some(".resources.requests.cpu".to_owned()),
        message: Some(rules::CPU_REQUEST.to_owned()),
        ..ValidationRule::default()
    }
}
