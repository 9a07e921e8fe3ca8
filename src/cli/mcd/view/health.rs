//! How a cache does, in one word. Takes its status; gives [`Health`] and the condition Ready. Pure; called by the views.

use crate::api::condition::Condition;
use serde::Serialize;

use crate::api::MemcachedStatus;
use crate::api::reason::Type;
use crate::api::status::NEVER_OBSERVED;

/// How a cache does, the worst first: tables are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
pub enum Health {
    /// Nothing goes on until somebody changes something.
    Stalled,
    /// No pod serves, and some should.
    Unavailable,
    /// No operator has looked at the resource, or at its last edit.
    Unseen,
    /// Pods serve; not all that should, or not as the spec asks, and nobody is at work.
    NotReady,
    /// Pods serve, and the operator or the cluster is at work.
    Working,
    /// `spec.paused` holds changes back.
    Paused,
    /// All is well.
    Ready,
}

impl Health {
    /// The health that the status of a resource of this generation tells of.
    #[must_use]
    pub fn from_status(status: &MemcachedStatus, generation: i64) -> Self {
        let is = |of: Type, value: &str| condition(status, of).is_some_and(|it| it.status == value);
        if status.observed_generation == NEVER_OBSERVED {
            Self::Unseen
        } else if is(Type::Stalled, "True") {
            Self::Stalled
        } else if is(Type::Available, "False") {
            Self::Unavailable
        } else if status.observed_generation < generation {
            Self::Unseen
        } else if is(Type::Paused, "True") {
            Self::Paused
        } else if is(Type::Ready, "True") {
            Self::Ready
        } else if is(Type::Reconciling, "True") {
            Self::Working
        } else {
            Self::NotReady
        }
    }

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The condition of a type, if the status has it.
#[must_use]
pub fn condition(status: &MemcachedStatus, of: Type) -> Option<&Condition> {
    status.conditions.iter().find(|it| it.type_ == of.as_str())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::ready(&["Available=True", "Ready=True"], Health::Ready)]
    #[case::rolling(&["Available=True", "Ready=False", "Reconciling=True"], Health::Working)]
    #[case::degraded(&["Available=True", "Degraded=True", "Ready=False"], Health::NotReady)]
    #[case::paused(&["Available=True", "Ready=False", "Reconciling=True", "Paused=True"], Health::Paused)]
    #[case::nothing_serves(&["Available=False", "Ready=False", "Reconciling=True"], Health::Unavailable)]
    #[case::stalled(&["Available=True", "Ready=False", "Stalled=True"], Health::Stalled)]
    #[case::stalled_and_down(&["Available=False", "Ready=False", "Stalled=True"], Health::Stalled)]
    fn the_worst_condition_decides(#[case] conditions: &[&str], #[case] expected: Health) {
        let conditions: Vec<_> = conditions
            .iter()
            .filter_map(|it| it.split_once('='))
            .map(|(of, status)| {
                json!({
                    "type": of, "status": status, "reason": "R", "message": "m",
                    "lastTransitionTime": "2026-11-21T10:00:00Z",
                })
            })
            .collect();
        let status =
            serde_json::from_value(json!({"observedGeneration": 1, "conditions": conditions})).unwrap();
        assert_eq!(Health::from_status(&status, 1), expected);
    }

    #[test]
    fn a_resource_or_an_edit_that_no_operator_has_seen_is_not_called_anything_else() {
        assert_eq!(Health::from_status(&MemcachedStatus::default(), 1), Health::Unseen);
        let ready = json!({"type": "Ready", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-11-21T10:00:00Z"});
        let status = serde_json::from_value(json!({"observedGeneration": 1, "conditions": [ready]})).unwrap();
        assert_eq!(Health::from_status(&status, 2), Health::Unseen);
    }
}
