//! `spec.workload`: which kind of object runs the pods. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::findings::Findings;

/// Values of `workload`.
pub(super) const WORKLOADS: &[&str] = Workload::VARIANTS;
/// The value of `workload` that stands for [`Workload::StatefulSet`].
pub const STATEFUL_SET: &str = WORKLOADS[Workload::StatefulSet as usize];

/// Characters of a resource's name at most that has a StatefulSet: each pod carries a label of that name, a hyphen and a
/// hash of ten characters, and a label has at most 63.
const NAME_LENGTH: usize = 52;
/// The message where a StatefulSet could not label its pods.
pub const STATEFUL_SET_NAME: &str =
    "name must have at most 52 characters when workload is StatefulSet, whose pods carry it in a label";

/// Pods of a StatefulSet at most. The operator lists each by its name, for clients and for itself, and a number that somebody
/// writes must not decide how much memory that takes.
pub const MAX_NAMED_PODS: i32 = 1_000;

/// Which kind of object runs the pods. A variant's name is the value of `workload` that asks for it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr, VariantNames,
)]
pub enum Workload {
    /// Pods have no name of their own, and are found under the Service's name.
    #[default]
    Deployment,
    /// Each pod has a name that outlives it.
    StatefulSet,
}

impl Workload {
    /// The value of `workload` that asks for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What a spec asks for. The default where it names none, or a word that is not known.
    #[must_use]
    pub fn from_raw(raw: Option<&str>) -> Self {
        raw.and_then(|raw| raw.parse().ok()).unwrap_or_default()
    }
}

/// CEL for the resource's name, of the whole object. What is stored already must still take a status that says so.
#[must_use]
pub(in crate::api) fn name_rule() -> ValidationRule {
    let asks = |whose: &str| format!("{whose}.?spec.?workload.orValue('') == '{STATEFUL_SET}'");
    ValidationRule {
        rule: format!(
            "!({}) || size(self.metadata.name) <= {NAME_LENGTH} || (oldSelf.hasValue() && {})",
            asks("self"),
            asks("oldSelf.value()"),
        ),
        optional_old_self: Some(true),
        field_path: Some(".spec.workload".to_owned()),
        message: Some(STATEFUL_SET_NAME.to_owned()),
        ..ValidationRule::default()
    }
}

/// Checks the kind, and the name of the resource that asks for it.
pub(super) fn validate(findings: &mut Findings, name: &str, raw: Option<&str>) -> Workload {
    let workload = Workload::from_raw(findings.word("spec.workload", raw, WORKLOADS));
    let fits = workload == Workload::Deployment || name.len() <= NAME_LENGTH;
    findings.check(fits, "spec.workload", || STATEFUL_SET_NAME.to_owned());
    workload
}
