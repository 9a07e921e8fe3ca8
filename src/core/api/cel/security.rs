//! Rules of `spec.security`. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::api::rules;

/// `sasl`: no authentication without a Secret.
#[must_use]
pub(in crate::api) fn sasl_secret() -> ValidationRule {
    secret("credentialsSecretRef", rules::SASL_SECRET)
}

/// `tls`: no encryption without a Secret.
#[must_use]
pub(in crate::api) fn tls_secret() -> ValidationRule {
    secret("certificateSecretRef", rules::TLS_SECRET)
}

fn secret(reference: &str, message: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || self.?{reference}.?name.orValue('') != ''"),
        reason: Some("FieldValueRequired".to_owned()),
        field_path: Some(format!(".{reference}.name")),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    }
}
