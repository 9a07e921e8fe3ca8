//! One condition of the status. Pure data; part of [`super::status`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::{Deserialize, Serialize};

use super::word::Word;

/// One condition. Of the API server's own type it differs in that its words take nothing of the heap; it reads and writes as
/// that does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "meta::Condition")]
pub struct Condition {
    /// When the status of the condition changed last.
    pub last_transition_time: meta::Time,
    /// For people.
    pub message: String,
    /// The generation of the resource that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One word about why.
    pub reason: Word,
    /// One of [`super::reason::STATUSES`].
    pub status: Word,
    /// What it is about: a [`super::reason::Type`], or somebody else's.
    #[serde(rename = "type")]
    pub type_: Word,
}

impl From<meta::Condition> for Condition {
    fn from(condition: meta::Condition) -> Self {
        let meta::Condition { last_transition_time, message, observed_generation, reason, status, type_ } =
            condition;
        Self {
            last_transition_time,
            message,
            observed_generation,
            reason: reason.into(),
            status: status.into(),
            type_: type_.into(),
        }
    }
}
