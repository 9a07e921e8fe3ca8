//! The partition of a StatefulSet: which of its pods may be replaced. Pure; asked by the pass, rendered into the
//! StatefulSet.
//!
//! Kubernetes replaces the pods whose number is not below the partition, from the last one on. So the operator decides when
//! each pod goes. At rest the partition is [`HELD`]: whoever else changes the template replaces no pod, and what of it stays
//! comes with the next rollout. The apply that brings a new template lowers the partition to the last pod, and each time
//! when all pods are available it goes down by one. Once all pods are new it is [`HELD`] again.
//!
//! While pods are being replaced it never goes up: a pod below the partition that dies comes back with the old template.
//! It goes down by more than one for pods that do not run: a pod that cannot become ready under the old template has to
//! get the new one, wherever it stands.

pub use super::desired::partition::{HELD, Partition};

use super::event::SeenRollout;
use super::live::Live;

/// The partition for a live StatefulSet. `expected` is the number of pods that the spec asks for; `failing` are the numbers of pods
/// that do not run, with the revision of each as [`super::event::SeenPod`] has it.
#[must_use]
pub fn of_live(live: &Live, expected: i32, failing: &[FailingPod]) -> Partition {
    let at = live.partition.unwrap_or(0);
    let asked = live.asked();
    let Some(seen) = live.rollout.as_ref().filter(|seen| seen.observed_generation >= live.generation) else {
        // What the numbers say is of before the last write.
        let last = last_of(asked.min(expected));
        return Partition { of_kept_pods: at, of_new_template: at.min(last) };
    };
    let lowest = |of: &dyn Fn(&&FailingPod) -> bool| failing.iter().filter(of).map(|pod| pod.number).min();
    let any = lowest(&|_| true).unwrap_or(HELD);
    let of_older = lowest(&|pod| is_older(seen, pod)).unwrap_or(HELD);
    let (first_step, step) = match seen.ready {
        // There is no cached data to lose.
        0 => (0, 0),
        _ => (last_of(asked.min(expected)).min(any), next_step(seen, at, asked).min(of_older)),
    };
    let of_others = at == HELD && has_another_template(seen);
    Partition {
        of_kept_pods: if of_others || !is_rolling(seen) { HELD } else { at.min(step) },
        of_new_template: at.min(first_step),
    }
}

/// A pod that does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingPod {
    /// The number in its name.
    pub number: i32,
    /// The name of the revision of the template that it was made from.
    pub revision: Option<String>,
}

/// Whether some pods are of another template than the StatefulSet has.
#[must_use]
pub fn is_rolling(seen: &SeenRollout) -> bool {
    has_another_template(seen) || seen.updated < seen.replicas
}

/// Whether the StatefulSet has another template than the one that all its pods had last.
fn has_another_template(seen: &SeenRollout) -> bool {
    seen.revisions.as_ref().is_some_and(|revisions| revisions.current != revisions.update)
}

/// Whether a pod was made from another template than the StatefulSet has.
#[must_use]
pub fn is_older(seen: &SeenRollout, pod: &FailingPod) -> bool {
    let update = seen.revisions.as_ref().map(|revisions| revisions.update.as_str());
    pod.revision.as_deref() != update
}

/// The number of the last of so many pods.
fn last_of(pods: i32) -> i32 {
    (pods - 1).max(0)
}

/// Where the partition goes while pods are replaced.
fn next_step(seen: &SeenRollout, at: i32, asked: i32) -> i32 {
    let last = last_of(asked);
    if at > last {
        return last;
    }
    let all_there = seen.replicas == asked && seen.ready == asked && seen.available == asked;
    if all_there && seen.updated >= asked - at { (at - 1).max(0) } else { at }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kernel::event::{SeenChild, SeenRevisions};
    use crate::kernel::object::{ChildKind, Key, ResourceVersion, Uid};

    /// Three pods, of which the last `updated` have the newest template.
    fn rollout(updated: i32, ready: i32) -> SeenRollout {
        SeenRollout {
            observed_generation: 1,
            replicas: 3,
            ready,
            updated,
            available: ready,
            revisions: Some(Box::new(SeenRevisions {
                current: "old".to_owned(),
                update: if updated == 3 { "old" } else { "new" }.to_owned(),
                current_replicas: 3 - updated,
            })),
            ..SeenRollout::default()
        }
    }

    fn live(partition: i32, rollout: SeenRollout) -> Live {
        Live::from(SeenChild {
            kind: ChildKind::StatefulSet,
            key: Key { namespace: "n".into(), name: "x".into() },
            uid: Uid("u".into()),
            resource_version: ResourceVersion("7".into()),
            created: None,
            generation: 1,
            deleting: false,
            controller: None,
            content: json!({"spec": {
                "replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}},
            }}),
            owned: None,
            entry: None,
            go_operator: None,
            managers: Vec::new(),
            rollout: Some(rollout),
            inactive: None,
        })
    }

    fn failing(number: i32, revision: &str) -> FailingPod {
        FailingPod { number, revision: Some(revision.to_owned()) }
    }

    #[rstest]
    #[case::at_rest(HELD, rollout(3, 3), &[], HELD)]
    #[case::somebody_else_changed_the_template(HELD, rollout(0, 3), &[], HELD)]
    #[case::the_last_pod_is_not_replaced_yet(2, rollout(0, 3), &[], 2)]
    #[case::the_last_pod_starts(2, rollout(1, 2), &[], 2)]
    #[case::the_last_pod_serves(2, rollout(1, 3), &[], 1)]
    #[case::the_first_pod_is_left(1, rollout(2, 3), &[], 0)]
    #[case::an_older_pod_is_away(1, rollout(2, 2), &[], 1)]
    #[case::the_new_pod_fails(2, rollout(1, 2), &[failing(2, "new")], 2)]
    #[case::an_older_pod_fails(2, rollout(1, 2), &[failing(0, "old")], 0)]
    #[case::nobody_serves(2, rollout(0, 0), &[failing(2, "old")], 0)]
    #[case::all_are_new(0, rollout(3, 3), &[], HELD)]
    fn the_partition_follows_the_pods(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] pods: &[FailingPod],
        #[case] expected: i32,
    ) {
        assert_eq!(of_live(&live(at, seen), 3, pods).of_kept_pods, expected);
    }

    #[rstest]
    #[case::at_rest(HELD, rollout(3, 3), &[], 2)]
    #[case::in_a_rollout(1, rollout(2, 3), &[], 1)]
    #[case::a_pod_fails(HELD, rollout(3, 2), &[failing(1, "old")], 1)]
    #[case::nobody_serves(HELD, rollout(3, 0), &[], 0)]
    fn a_new_template_begins_with_the_last_pod_and_never_takes_a_step_back(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] pods: &[FailingPod],
        #[case] expected: i32,
    ) {
        assert_eq!(of_live(&live(at, seen), 3, pods).of_new_template, expected);
    }

    #[test]
    fn nothing_moves_before_the_last_write_was_observed() {
        let behind = SeenRollout { observed_generation: 0, ..rollout(1, 3) };
        let partition = of_live(&live(2, behind), 3, &[]);
        assert_eq!(partition, Partition { of_kept_pods: 2, of_new_template: 2 });
    }

    #[test]
    fn a_template_that_came_back_replaces_the_pods_that_had_left_it() {
        let back = SeenRollout { updated: 2, ..rollout(3, 3) };
        assert_eq!(of_live(&live(HELD, back.clone()), 3, &[]).of_kept_pods, 2);
        assert_eq!(of_live(&live(2, back), 3, &[]).of_kept_pods, 1, "the others have it already");
    }

    #[test]
    fn fewer_pods_are_counted_as_the_fewer() {
        assert_eq!(of_live(&live(HELD, rollout(3, 3)), 2, &[]).of_new_template, 1);
    }
}
