//! The labels of the operator's metrics, and what each can say. Pure data; `names` uses it.

use strum::VariantArray;

use crate::api::reason::{Meaning, Reason, Type};
use crate::kernel::failure::Category;
use crate::kernel::instance_metrics;
use crate::kernel::object::{ChildKind, Watched};
use crate::kernel::observation::{ChildResult, RotationResult};
use crate::kernel::rollout_cause::RolloutCause;
use crate::shell::api_request::{Code, Verb};

/// A label of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The name of the label.
    pub name: &'static str,
    /// The values that the label can have.
    pub values: Values,
}

/// The values of a label.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these.
    OneOf(fn() -> Vec<&'static str>),
    /// What others chose: a short description.
    Any(&'static str),
}

impl Values {
    /// All values, where they are known beforehand.
    #[must_use]
    pub fn known(self) -> Option<Vec<&'static str>> {
        match self {
            Self::OneOf(values) => Some(values()),
            Self::Any(_) => None,
        }
    }
}

const fn one_of(name: &'static str, values: fn() -> Vec<&'static str>) -> Label {
    Label { name, values: Values::OneOf(values) }
}

const fn any(name: &'static str, what: &'static str) -> Label {
    Label { name, values: Values::Any(what) }
}

/// What each variant of an enum is called.
fn all<T: VariantArray + Copy>(label: fn(T) -> &'static str) -> Vec<&'static str> {
    T::VARIANTS.iter().copied().map(label).collect()
}

/// Why a request failed.
pub const CATEGORY: Label = one_of("category", || all(Category::label));
/// Why pods roll.
pub const CAUSE: Label = one_of("cause", || all(RolloutCause::label));
/// What became of a child.
pub const CHILD_RESULT: Label = one_of("result", || all(child_result));
/// What the API server answered.
pub const CODE: Label = one_of("code", || all(Code::label));
/// A condition of a resource.
pub const CONDITION: Label = one_of("type", || instance_metrics::TYPES.map(Type::as_str).into());
/// The image of memcached.
pub const IMAGE: Label = any("image", "what the user chose");
/// A watched kind.
pub const KIND: Label = one_of("kind", || Watched::ALL.map(Watched::name).into());
/// The name of a resource.
pub const NAME: Label = any("name", "of the resource");
/// The namespace of a resource.
pub const NAMESPACE: Label = any("namespace", "of the resource");
/// What became of a Kubernetes Event.
pub const KUBE_EVENT_RESULT: Label = one_of("result", || all(KubeEventResult::label));
/// Why a condition is as it is.
pub const REASON: Label = one_of("reason", reasons);
/// The reason of a warning in a status.
pub const WARNING: Label = any("reason", "of the warning, as in `status.warnings`");
/// A kind of child.
pub const RESOURCE_KIND: Label = one_of("resource_kind", || ChildKind::ALL.map(ChildKind::name).into());
/// What came of Secrets that pods take in place.
pub const ROTATION_RESULT: Label = one_of("result", || all(RotationResult::label));
/// How a resource came to rest.
pub const RESULT: Label = one_of("result", || [SUCCESS, ERROR].into());
/// What a request asks of the API server.
pub const VERB: Label = one_of("verb", || all(Verb::label));
/// The version of the operator.
pub const VERSION: Label = any("version", "of the operator");

pub(super) const SUCCESS: &str = "success";
pub(super) const ERROR: &str = "error";

pub(super) const fn child_result(result: ChildResult) -> &'static str {
    match result {
        ChildResult::Created => "created",
        ChildResult::Updated => "updated",
        ChildResult::Unchanged => "unchanged",
        ChildResult::Deleted => "deleted",
    }
}

/// The reasons that a condition of [`instance_metrics::TYPES`] can have.
fn reasons() -> Vec<&'static str> {
    Reason::ALL.iter().filter(|it| it.meaning() != Meaning::OfNoMetric).map(|it| it.as_str()).collect()
}

/// What became of a Kubernetes Event that the kernel asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum KubeEventResult {
    /// The API server has it.
    Sent,
    /// The API server did not take it.
    Failed,
    /// Too many were waiting.
    Dropped,
}

impl KubeEventResult {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// Every combination of the labels' values; none where one of them is not known beforehand.
pub(super) fn combinations(labels: &[Label]) -> Vec<Vec<&'static str>> {
    labels.iter().fold(vec![Vec::new()], |before, label| {
        let values = label.values.known().unwrap_or_default();
        let longer = |start: &Vec<&'static str>| {
            let start = start.clone();
            values.iter().map(move |value| [start.as_slice(), &[*value]].concat()).collect::<Vec<_>>()
        };
        before.iter().flat_map(longer).collect()
    })
}
