//! One condition of the status. Pure data; part of [`super::status`].

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::{Deserialize, Serialize, Serializer};

use super::word::Word;

/// One condition. Of the API server's own type it differs in that its words take nothing of the heap; it reads and writes as
/// that does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "meta::Condition")]
pub struct Condition {
    /// When the status of the condition changed last.
    #[serde(serialize_with = "whole_seconds")]
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

/// What Kubernetes' own type writes. That type reads a pattern anew for each time, and every write of a status has four of them
/// or more.
fn whole_seconds<S: Serializer>(meta::Time(time): &meta::Time, to: S) -> Result<S::Ok, S::Error> {
    // Before 1970 a fraction counts back from the next second.
    let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    to.collect_str(&Timestamp::from_second(second).unwrap_or(*time))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_a_whole_second("2026-11-22T10:00:00Z")]
    #[case::with_a_fraction("2026-11-22T10:00:00.75Z")]
    #[case::long_ago("1970-01-01T00:00:00Z")]
    #[case::before_all_clocks("1969-12-31T23:59:59.5Z")]
    fn a_condition_is_written_as_kubernetes_writes_it(#[case] time: &str) {
        let written = meta::Condition {
            last_transition_time: meta::Time(time.parse().unwrap()),
            message: "All 3 replicas are ready".to_owned(),
            observed_generation: Some(2),
            reason: "MemcachedReady".to_owned(),
            status: "True".to_owned(),
            type_: "Ready".to_owned(),
        };
        let ours = Condition::from(written.clone());
        assert_eq!(serde_json::to_value(ours).unwrap(), serde_json::to_value(written).unwrap());
    }
}
