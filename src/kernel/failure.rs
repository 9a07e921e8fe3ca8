//! One bounded set of categories for everything that can go wrong with a request. Pure.
//!
//! The category drives retry, condition, Event reason, metric label and log field; the message is for people.

use serde::{Deserialize, Serialize};

/// Why a request failed, and so what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Category {
    /// The API server refused the object for what it says (400, 422, 413): wait for a change.
    Invalid,
    /// A field that cannot change would have to (422, "field is immutable"): wait for a change.
    ImmutableField,
    /// The object is not the one we saw (409; 422 on `metadata.uid`): look again.
    Conflict,
    /// RBAC says no (403).
    Forbidden,
    /// A quota says no (403).
    QuotaExceeded,
    /// An admission policy or webhook says no (403, 422 or 400 with its name).
    AdmissionDenied,
    /// The namespace is being deleted (403): nothing can be created, and that is fine.
    NamespaceTerminating,
    /// Network, timeout, 401, 429, 5xx: try again.
    Transient,
    /// A defect of the operator: a pass panicked.
    Internal,
}

impl Category {
    /// Value of the metric label and log field `category`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::ImmutableField => "immutable_field",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::QuotaExceeded => "quota_exceeded",
            Self::AdmissionDenied => "admission_denied",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Transient => "transient",
            Self::Internal => "internal",
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub category: Category,
    /// What happened, to which object, and for a 403 which verb on which resource.
    pub message: String,
}
