//! Rules of maps of labels and annotations, wherever they are. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::api::rules;

/// Labels that Kubernetes takes: else the child that carries them is refused for ever.
#[must_use]
pub(in crate::api) fn valid_labels() -> ValidationRule {
    keys(rules::LABEL_KEY_PATTERN, rules::LABEL_KEY)
}

/// Annotations that Kubernetes takes.
#[must_use]
pub(in crate::api) fn valid_annotations() -> ValidationRule {
    keys(rules::ANNOTATION_KEY_PATTERN, rules::ANNOTATION_KEY)
}

/// No label that only the operator may set.
#[must_use]
pub(in crate::api) fn labels_not_ours() -> ValidationRule {
    let ours = rules::OUR_LABELS.map(|key| format!("'{key}'")).join(", ");
    ValidationRule {
        rule: format!("self.all(k, !k.startsWith('{}') && !(k in [{ours}]))", rules::OUR_PREFIX),
        message: Some(rules::LABELS_NOT_OURS.to_owned()),
        ..ValidationRule::default()
    }
}

/// No annotation that only the operator may set.
#[must_use]
pub(in crate::api) fn annotations_not_ours() -> ValidationRule {
    ValidationRule {
        rule: format!("self.all(k, !k.startsWith('{}'))", rules::OUR_PREFIX),
        message: Some(rules::ANNOTATIONS_NOT_OURS.to_owned()),
        ..ValidationRule::default()
    }
}

fn keys(pattern: &str, message: &str) -> ValidationRule {
    let longest = rules::KEY_PREFIX_LENGTH;
    ValidationRule {
        rule: format!("self.all(k, k.indexOf('/') <= {longest} && k.matches('{pattern}'))"),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    }
}
