//! Whether a pod serves, whether it may hold keys, and whether it will come back by itself. Pure; [`super::seen`] asks it for
//! each pod, the rollout of a StatefulSet decides by it.
//!
//! A pod that missed one probe, or one container of which ended once, is ready again in a moment and has its keys still. So
//! only time tells who does not come back: a rollout that took each of these for lost would give up its order for nothing.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};

use super::object::MEMCACHED;

/// How long a pod is waited for. The kubelet takes up to two minutes until it looks again for a Secret that was missing.
const GIVEN_UP_AFTER: SignedDuration = SignedDuration::from_secs(120);

/// Whether a pod serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// The pod serves.
    Ready,
    /// The pod does not serve, but memcached runs: there may be keys in it.
    NotReady {
        /// Since when.
        since: Timestamp,
    },
    /// Its memcached does not run, or not yet: there are no keys in it.
    Empty {
        /// Since when it is not ready.
        since: Timestamp,
    },
    /// Its containers were ready when its node was heard of last.
    NodeAway,
}

impl Readiness {
    /// What the kubelet says of a pod.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.find(|it| it.type_ == "Ready");
        if ready.is_some_and(|it| it.status == "True") {
            return Self::Ready;
        }
        // A kubelet that never saw the pod said nothing.
        let said = ready.and_then(|it| it.last_transition_time.as_ref());
        let since =
            said.or(pod.metadata.creation_timestamp.as_ref()).map_or(Timestamp::UNIX_EPOCH, |it| it.0);
        let containers = || status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        match containers().any(runs_memcached) {
            true if containers().all(|it| it.ready) => Self::NodeAway,
            true => Self::NotReady { since },
            false => Self::Empty { since },
        }
    }

    /// Whether keys are lost with the pod, as far as is known.
    #[must_use]
    pub const fn may_hold_keys(self) -> bool {
        !matches!(self, Self::Empty { .. })
    }

    /// From when on the pod is taken for one that does not come back as it is. `None` of one that serves, and of one whose
    /// node is away: that waits for a person, see docs/named-pods.md. `noted`: when the operator first heard that it does not
    /// serve. The clock of its node may be minutes behind the operator's.
    #[must_use]
    pub fn is_given_up_at(self, noted: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Ready | Self::NodeAway => None,
            Self::NotReady { since } | Self::Empty { since } => is_given_up_after(since.max(noted)),
        }
    }
}

/// From when on a pod is given up that does not serve, or is not there, since then.
#[must_use]
pub fn is_given_up_after(since: Timestamp) -> Option<Timestamp> {
    since.checked_add(GIVEN_UP_AFTER).ok()
}

fn runs_memcached(container: &ContainerStatus) -> bool {
    container.name == MEMCACHED && container.state.as_ref().is_some_and(|state| state.running.is_some())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const MADE: &str = "2026-01-01T00:00:00Z";
    const SAID: &str = "2026-01-01T01:00:00Z";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn readiness(ready: Option<&str>, memcached: &Value, exporter_is_ready: bool) -> Readiness {
        let condition = |status| json!({"type": "Ready", "status": status, "lastTransitionTime": SAID});
        let container = |name: &str, ready: bool, state: &Value| json!({"name": name, "image": "i", "imageID": "", "restartCount": 0, "ready": ready, "state": state});
        let runs = json!({"running": {}});
        let memcached_is_ready = *memcached == runs;
        let pod = json!({
            "metadata": {"name": "x-0", "creationTimestamp": MADE},
            "status": {
                "conditions": ready.map(condition).into_iter().collect::<Vec<_>>(),
                "containerStatuses": [
                    container("exporter", exporter_is_ready, &runs), container("memcached", memcached_is_ready, memcached),
                ],
            },
        });
        Readiness::from_pod(&serde_json::from_value(pod).unwrap())
    }

    #[rstest]
    #[case::it_serves(Some("True"), json!({"running": {}}), true, Readiness::Ready)]
    #[case::an_exporter_is_not_ready(Some("False"), json!({"running": {}}), false, Readiness::NotReady { since: at(SAID) })]
    #[case::its_node_is_away(Some("False"), json!({"running": {}}), true, Readiness::NodeAway)]
    #[case::memcached_ended(Some("False"), json!({"terminated": {"exitCode": 1}}), true, Readiness::Empty { since: at(SAID) })]
    #[case::memcached_waits(Some("False"), json!({"waiting": {}}), true, Readiness::Empty { since: at(SAID) })]
    #[case::the_kubelet_said_nothing(None, json!({"waiting": {}}), false, Readiness::Empty { since: at(MADE) })]
    fn a_pod_may_hold_keys_as_long_as_its_memcached_runs(
        #[case] ready: Option<&str>,
        #[case] memcached: Value,
        #[case] exporter_is_ready: bool,
        #[case] expected: Readiness,
    ) {
        assert_eq!(readiness(ready, &memcached, exporter_is_ready), expected);
    }

    #[test]
    fn a_pod_of_which_nothing_was_said_holds_no_keys() {
        let pod =
            serde_json::from_value(json!({"metadata": {"name": "x-0", "creationTimestamp": MADE}})).unwrap();
        assert_eq!(Readiness::from_pod(&pod), Readiness::Empty { since: at(MADE) });
    }

    #[test]
    fn a_pod_is_given_up_after_two_minutes_unless_its_node_is_away() {
        let end = Some(at("2026-01-01T00:02:00Z"));
        let since = at(MADE);
        assert_eq!(Readiness::NotReady { since }.is_given_up_at(since), end);
        assert_eq!(Readiness::Empty { since }.is_given_up_at(since), end);
        assert_eq!(Readiness::Ready.is_given_up_at(since), None);
        assert_eq!(Readiness::NodeAway.is_given_up_at(since), None);
        let by_another_clock = Readiness::NotReady { since: Timestamp::UNIX_EPOCH };
        assert_eq!(by_another_clock.is_given_up_at(since), end, "two minutes of our own");
    }
}
