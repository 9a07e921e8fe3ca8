//! Rules of `spec.monitoring`. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::api::rules;

/// A duration, in the field of `serviceMonitor` of that name.
#[must_use]
pub(in crate::api) fn duration(field: &str) -> ValidationRule {
    ValidationRule {
        rule: format!(
            "self.matches('{}') && [{}].all(n, n > 0 && n <= {})",
            rules::DURATION_PATTERN,
            milliseconds("self"),
            rules::DURATION_MAX
        ),
        message: Some(rules::duration(field)),
        ..ValidationRule::default()
    }
}

/// `serviceMonitor`: a scrape ends before the next begins. Unset, the timeout adapts itself.
#[must_use]
pub(in crate::api) fn timeout_within_interval() -> ValidationRule {
    let pattern = rules::DURATION_PATTERN;
    ValidationRule {
        // The interval has a default. Taken from `orValue`, a text has no bounds, which breaks the cost budget.
        rule: format!(
            "!has(self.scrapeTimeout) || !has(self.interval) || !self.scrapeTimeout.matches('{pattern}') || \
             !self.interval.matches('{pattern}') || {} <= {}",
            milliseconds("self.scrapeTimeout"),
            milliseconds("self.interval")
        ),
        message_expression: Some(
            "'scrapeTimeout (%s) must not exceed interval (%s)'.format([self.scrapeTimeout, self.interval])"
                .to_owned(),
        ),
        field_path: Some(".scrapeTimeout".to_owned()),
        ..ValidationRule::default()
    }
}

/// The milliseconds of a text that has the form of a duration. The pattern keeps the sum far from 64 bits.
fn milliseconds(text: &str) -> String {
    let units = rules::DURATION_UNITS.map(|(unit, milliseconds)| format!("'{unit}': {milliseconds}"));
    format!(
        "{text}.findAll('[0-9]+(ms|[ywdhms])').map(p, int(p.find('[0-9]+')) * {{{}}}[p.find('[a-z]+')]).sum()",
        units.join(", ")
    )
}
