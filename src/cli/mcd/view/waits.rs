//! What waits, and why. Takes a status and the generation of its resource; gives [`WaitReason`]s. Pure; called by the views.

use jiff::Timestamp;
use serde::Serialize;

use super::health::condition;
use crate::api::MemcachedStatus;
use crate::api::reason::Type;
use crate::api::status::NEVER_OBSERVED;

/// Something that is not as it is to be, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitReason {
    /// The type of the condition that says so; absent where the status cannot say it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<&'static str>,
    /// The reason of the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// In words.
    pub message: String,
}

/// The conditions that say that something waits, and the status with which each says so.
const OF_STATUS: [(Type, &str); 5] = [
    (Type::Stalled, "True"),
    (Type::Ready, "False"),
    (Type::Reconciling, "True"),
    // After an edit Reconciling names the generation, and only this says how far the rollout is.
    (Type::Progressing, "True"),
    (Type::Paused, "True"),
];

/// All that waits. Two conditions with the same words are one.
#[must_use]
pub fn from_status(status: &MemcachedStatus, generation: i64) -> Vec<WaitReason> {
    let mut waits: Vec<WaitReason> = unseen(status, generation).into_iter().collect();
    for (of, waits_at) in OF_STATUS {
        let Some(found) = condition(status, of).filter(|it| it.status == waits_at) else { continue };
        if waits.iter().any(|wait| wait.message == found.message) {
            continue;
        }
        waits.push(WaitReason {
            condition: Some(of.as_str()),
            reason: Some(found.reason.to_string()),
            since: Some(found.last_transition_time.0),
            message: found.message.clone(),
        });
    }
    waits
}

/// What only an operator that does not run leaves behind.
fn unseen(status: &MemcachedStatus, generation: i64) -> Option<WaitReason> {
    let message = match status.observed_generation {
        NEVER_OBSERVED => {
            "No operator has looked at this resource yet. Is one running, and does it work in this namespace?"
                .to_owned()
        }
        seen if seen < generation => format!(
            "The operator has not seen the last edit: that is generation {generation}, and the status is about {seen}. \
             Is an operator running?"
        ),
        _ => return None,
    };
    Some(WaitReason { condition: None, reason: None, since: None, message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(observed: i64, conditions: &[(&str, &str, &str)]) -> MemcachedStatus {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(of, status, message)| {
                json!({
                    "type": of, "status": status, "reason": "R", "message": message,
                    "lastTransitionTime": "2026-11-21T10:00:00Z",
                })
            })
            .collect();
        serde_json::from_value(json!({"observedGeneration": observed, "conditions": conditions})).unwrap()
    }

    fn messages(status: &MemcachedStatus, generation: i64) -> Vec<String> {
        from_status(status, generation).into_iter().map(|wait| wait.message).collect()
    }

    #[test]
    fn every_condition_that_waits_is_told_once_with_its_reason_and_since_when() {
        let rolling = status(
            2,
            &[("Ready", "True", "well"), ("Reconciling", "True", "1/2"), ("Paused", "True", "1/2")],
        );
        assert_eq!(
            from_status(&rolling, 2),
            [WaitReason {
                condition: Some("Reconciling"),
                reason: Some("R".to_owned()),
                since: Some("2026-11-21T10:00:00Z".parse().unwrap()),
                message: "1/2".to_owned(),
            }]
        );
        assert_eq!(messages(&status(2, &[("Ready", "True", "well")]), 2), Vec::<String>::new());
        assert_eq!(messages(&status(2, &[("Ready", "False", "no Secret")]), 2), ["no Secret"]);
        let edited =
            status(2, &[("Progressing", "True", "1/2"), ("Reconciling", "True", "new generation 2")]);
        assert_eq!(messages(&edited, 2), ["new generation 2", "1/2"]);
    }

    #[test]
    fn an_operator_that_does_not_look_is_told_of() {
        assert!(messages(&MemcachedStatus::default(), 1)[0].starts_with("No operator has looked"));
        assert!(messages(&status(2, &[]), 3)[0].contains("that is generation 3, and the status is about 2"));
    }
}
