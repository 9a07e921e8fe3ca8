//! Rules of `spec.highAvailability`. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::api::rules::{self, GRACE_SECONDS, PRE_STOP_SECONDS, REPLICAS, SCALED_REPLICAS};

/// `podDisruptionBudget`: exactly one limit, and one that lets pods go.
#[must_use]
pub(in crate::api) fn budget() -> Vec<ValidationRule> {
    let of_enabled = |condition: &str, message: &str| ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || {condition}"),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    let (min, max) = ("has(self.minAvailable)", "has(self.maxUnavailable)");
    let some_go = "self.maxUnavailable != 0 && self.maxUnavailable != '0%' && self.maxUnavailable != '00%'";
    vec![
        of_enabled(&format!("!{min} || !{max}"), rules::BUDGET_OF_BOTH),
        ValidationRule {
            reason: Some("FieldValueRequired".to_owned()),
            ..of_enabled(&format!("{min} || {max}"), rules::BUDGET_OF_NEITHER)
        },
        ValidationRule {
            field_path: Some(".minAvailable".to_owned()),
            ..of_enabled(&format!("!{min} || self.minAvailable != '100%'"), rules::ALL_STAY)
        },
        ValidationRule {
            field_path: Some(".maxUnavailable".to_owned()),
            ..of_enabled(&format!("!{max} || {some_go}"), rules::NONE_GOES)
        },
    ]
}

/// `spec`: a disruption budget lets one pod go. The fewest pods there can be count, but not a single one: with that
/// no budget is made, or under autoscaling it counts once there are more.
#[must_use]
pub(in crate::api) fn min_available() -> ValidationRule {
    let budget = "self.?highAvailability.?podDisruptionBudget";
    let min = "self.highAvailability.podDisruptionBudget.minAvailable";
    let scaled = "self.?autoscaling.?enabled.orValue(false)";
    let fewest = format!("self.?autoscaling.?minReplicas.orValue({})", SCALED_REPLICAS.default);
    let most = "self.?autoscaling.?maxReplicas.orValue(1)";
    let replicas = format!("self.?replicas.orValue({})", REPLICAS.default);
    let count = format!("({scaled} ? ({fewest} > 1 ? {fewest} : {most}) : {replicas})");
    let of = format!("({scaled} ? ({fewest} > 1 ? 'minReplicas' : 'maxReplicas') : 'replicas')");
    ValidationRule {
        // A percentage is rounded up, as Kubernetes does.
        rule: format!(
            "!{budget}.?enabled.orValue(false) || !{budget}.?minAvailable.hasValue() || [{count}].all(n, n <= 1 || \
             (type({min}) == int ? int({min}) < n : !string({min}).matches('^[0-9]{{1,2}}%$') || \
             (int(string({min}).replace('%', '')) * n + 99) / 100 < n))"
        ),
        message_expression: Some(format!(
            "'minAvailable (%s) must be less than %s (%d)%s'.format([{min}, {of}, {count}, \
             type({min}) == int ? '' : ' when rounded up'])"
        )),
        field_path: Some(".highAvailability.podDisruptionBudget.minAvailable".to_owned()),
        ..ValidationRule::default()
    }
}

/// `topologySpreadConstraints`: the API server merges them by two keys, and two items of the same keys are none.
#[must_use]
pub(in crate::api) fn spread_differs() -> ValidationRule {
    let same = "a.topologyKey == b.topologyKey && a.whenUnsatisfiable == b.whenUnsatisfiable";
    ValidationRule {
        rule: format!("self.all(a, self.exists_one(b, {same}))"),
        message: Some(rules::SPREAD_DIFFERS.to_owned()),
        ..ValidationRule::default()
    }
}

/// `gracefulShutdown`: a pod is not killed before it was told to end.
#[must_use]
pub(in crate::api) fn grace() -> ValidationRule {
    let grace = format!("self.?terminationGracePeriodSeconds.orValue({})", GRACE_SECONDS.default);
    let delay = format!("self.?preStopDelaySeconds.orValue({})", PRE_STOP_SECONDS.default);
    ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || {grace} > {delay}"),
        message_expression: Some(format!(
            "'terminationGracePeriodSeconds (%d) must exceed preStopDelaySeconds (%d)'.format([{grace}, {delay}])"
        )),
        field_path: Some(".terminationGracePeriodSeconds".to_owned()),
        ..ValidationRule::default()
    }
}
