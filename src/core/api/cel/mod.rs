//! The rules that the API server runs in CEL, one function each. Pure; called by the schema's attributes in
//! [`super::spec`] and by [`super::crd`].
//!
//! Here are those of the whole and of memcached itself, in the submodules those of the section of that name.
//!
//! Each sits as deep in the schema as it can: a stored object that breaks a new rule stays editable elsewhere.
//! A failed pattern or range does not keep the API server from running the rules, so each guards against what
//! the patterns exclude; nor are defaults filled in when a `default: {}` is checked, so each guards with `?`.

pub(super) mod autoscaling;
pub(super) mod availability;
pub(super) mod labels;
pub(super) mod monitoring;
pub(super) mod security;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::rules;

/// The resource's name. Only on create: an old resource with a bad name must still take a status that says so.
#[must_use]
pub(super) fn name() -> ValidationRule {
    ValidationRule {
        rule: format!(
            "oldSelf.hasValue() || (size(self.metadata.name) <= {} && self.metadata.name.matches('{}'))",
            rules::NAME_LENGTH,
            rules::NAME_PATTERN
        ),
        optional_old_self: Some(true),
        field_path: Some(".metadata.name".to_owned()),
        message: Some(rules::NAME.to_owned()),
        ..ValidationRule::default()
    }
}

/// What needs fields of several sections, and so can sit nowhere deeper than at `spec`.
#[must_use]
pub(super) fn whole_spec() -> Vec<ValidationRule> {
    vec![memory_limit(), availability::min_available(), autoscaling::cpu_request()]
}

/// An image, in the field of that name.
#[must_use]
pub(super) fn image(field: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("self.matches(r'{}')", rules::IMAGE_PATTERN),
        message: Some(rules::image(field)),
        ..ValidationRule::default()
    }
}

/// `spec`: the memory limit leaves room beside the items.
fn memory_limit() -> ValidationRule {
    let limit = "string(self.resources.limits['memory'])";
    let max = format!("self.?memcached.?maxMemoryMB.orValue({})", rules::MAX_MEMORY_MB.default);
    let overhead = rules::MEMORY_OVERHEAD_MB;
    ValidationRule {
        rule: format!(
            "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || \
             !{limit}.matches('{}') || \
             quantity({limit}).compareTo(quantity('{overhead}Mi').add({max} * 1048576)) >= 0",
            rules::QUANTITY_PATTERN
        ),
        message_expression: Some(format!(
            "'memory limit must be at least %d%s (maxMemoryMB=%dMi + {overhead}Mi overhead)'.format([\
             ({max} + {overhead}) % 1024 == 0 ? ({max} + {overhead}) / 1024 : {max} + {overhead}, \
             ({max} + {overhead}) % 1024 == 0 ? 'Gi' : 'Mi', {max}])"
        )),
        field_path: Some(".resources.limits.memory".to_owned()),
        ..ValidationRule::default()
    }
}

/// A CEL condition on the KiB of `size`, true for what is no size at all: the pattern reports that.
fn of_kibibytes(size: &str, condition: &str) -> String {
    format!(
        "!{size}.matches('{}') || [int({size}.substring(0, size({size}) - 1)) * ({size}.endsWith('m') ? 1024 : 1)]\
         .all(k, {condition})",
        rules::ITEM_SIZE_PATTERN
    )
}

/// `spec.memcached.maxItemSize`: a size that memcached accepts.
#[must_use]
pub(super) fn item_size() -> ValidationRule {
    let (step, max) = (rules::ITEM_SIZE_STEP, rules::ITEM_SIZE_MAX);
    ValidationRule {
        rule: of_kibibytes("self", &format!("k > 0 && k % {step} == 0 && k <= {max}")),
        message: Some(rules::ITEM_SIZE.to_owned()),
        ..ValidationRule::default()
    }
}

/// `spec.memcached`: the largest item fits into half of the memory.
#[must_use]
pub(super) fn item_size_of_memory() -> ValidationRule {
    let max = format!("self.?maxMemoryMB.orValue({})", rules::MAX_MEMORY_MB.default);
    ValidationRule {
        rule: format!(
            "!has(self.maxItemSize) || {}",
            of_kibibytes("self.maxItemSize", &format!("k <= {max} * 512"))
        ),
        message_expression: Some(format!(
            "'maxItemSize must be at most half of maxMemoryMB (%dMi)'.format([{max}])"
        )),
        field_path: Some(".maxItemSize".to_owned()),
        ..ValidationRule::default()
    }
}

/// `spec.pod.imagePullSecrets`: the API server merges them by name, and two items of one name are none.
#[must_use]
pub(super) fn pull_secrets_differ() -> ValidationRule {
    ValidationRule {
        rule: "self.all(a, self.exists_one(b, a.name == b.name))".to_owned(),
        message: Some(rules::PULL_SECRETS_DIFFER.to_owned()),
        ..ValidationRule::default()
    }
}

/// An item of `spec.memcached.extraArgs`.
#[must_use]
pub(super) fn argument() -> ValidationRule {
    ValidationRule {
        rule: r"!self.matches(r'[\x00\n]')".to_owned(),
        message: Some(rules::ARGUMENT.to_owned()),
        ..ValidationRule::default()
    }
}
