//! How the rollout of a StatefulSet goes on: which of its pods may be replaced, as a [`Partition`]. Pure; asked by the pass,
//! and rendered into the StatefulSet.
//!
//! Kubernetes replaces the pods whose number is not below the partition, from the last one on. So the operator decides when each
//! pod goes. At rest the partition is [`KEEPS_ALL`]: a change of the template by somebody else then replaces no pod, and what
//! stays of it reaches the pods with the next rollout. The apply that brings a new template lowers it to the last pod. While
//! another pod is away, it lowers the partition only to one above the last pod, which replaces none yet: otherwise two would be
//! away at once. Each time when all pods are available, and the new one is warm where that is asked for ([`super::warmth`]), the
//! partition goes down by one. Once all pods are new it is [`KEEPS_ALL`] again. That all pods were new once is remembered
//! ([`Live::has_rolled_out`]): the numbers of one moment do not tell a pod that is away from a pod of another template.
//!
//! While pods are being replaced the partition never goes up: a pod below it that dies comes back with the old template.
//! The partition goes down by more than one for pods that were given up ([`Readiness::is_given_up_at`]): a pod that cannot become
//! ready with the old template, or cannot be made, has to get the new one, whatever its number is. The pods above it are then
//! replaced one at a time, but without the wait for warmth. Where no pod may hold keys all are replaced. While no pod may be
//! replaced, because a Secret or the policy that guards the pods is missing, the plan leaves the partition where it is.

use super::desired::partition::{KEEPS_ALL, Partition};
use super::event::{SeenRevisions, SeenRollout};
use super::live::Live;

/// The partition for a live StatefulSet. `expected` is the number of pods that an apply would ask for, `away` the numbers of
/// those that do not serve or are about to go.
#[must_use]
pub fn partition(
    live: &Live,
    expected: i32,
    unready: &[UnreadyPod<'_>],
    away: &[i32],
    next: NextPod,
) -> Partition {
    let at = live.partition.unwrap_or(0);
    let asked = live.asked();
    let begin = begin(asked.min(expected), unready, away);
    let Some(seen) = observed(live) else {
        // The numbers in the status are older than the last write.
        let of_new_template = if live.has_rolled_out { begin } else { at.min(begin) };
        return Partition { of_kept_pods: at, of_new_template };
    };
    let given_up = unready.iter().filter(|pod| pod.is_given_up);
    let any = given_up.clone().map(|pod| pod.number).min().unwrap_or(KEEPS_ALL);
    let of_older = given_up.filter(|pod| pod.is_older(seen)).map(|pod| pod.number).min().unwrap_or(KEEPS_ALL);
    let (first_step, step) = match holds_no_keys(seen, unready, asked) {
        true => (0, 0),
        false => (begin.min(any), next_step(seen, at, asked, next).min(of_older)),
    };
    // At rest (KEEPS_ALL) only our apply starts a rollout. A different template is somebody else's. If somebody else set
    // the partition, the stopped rollout continues.
    let at_rest = at == KEEPS_ALL && !live.partition_is_foreign;
    // After a rollout the partition is not left where the rollout ended: at 0, Kubernetes would replace all pods by itself. A pod
    // that is away since then comes back with the template that all have.
    Partition {
        of_kept_pods: if at_rest || live.has_rolled_out { KEEPS_ALL } else { at.min(step) },
        of_new_template: if live.has_rolled_out { first_step } else { at.min(first_step) },
    }
}

/// Whether the next pod may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPod {
    /// The next pod may go when all are available.
    MayBeReplaced,
    /// The pod that was replaced last is not warm yet, or another pod is away or about to be.
    Waits,
}

/// The pod that was replaced last, where all pods are available and the next one could go.
#[must_use]
pub fn replaced_last(live: &Live) -> Option<i32> {
    let (seen, at, asked) = (observed(live)?, live.partition?, live.asked());
    (is_rolling(seen) && at > 0 && at < asked && is_there(seen, at, asked)).then_some(at)
}

/// The pod that was replaced last, where some pod does not serve or the numbers are older than the last write. `None` if that pod
/// has lost its keys.
#[must_use]
pub fn interrupted_at(live: &Live, unready: &[UnreadyPod<'_>]) -> Option<i32> {
    let at = live.partition.filter(|at| 0 < *at && *at < live.asked())?;
    // Without an updated pod there was another edit since.
    let goes_on = observed(live).is_none_or(|seen| is_rolling(seen) && seen.updated > 0);
    let is_empty = unready.iter().any(|pod| pod.number == at && !pod.may_hold_keys);
    (goes_on && !is_empty).then_some(at)
}

/// Whether a rollout is between two pods: those that may be replaced are new, all are available, and nothing happens before
/// the partition goes down.
#[must_use]
pub fn is_between_two_pods(live: &Live) -> bool {
    let at = live.partition.unwrap_or(0);
    observed(live).is_some_and(|seen| is_rolling(seen) && is_there(seen, at, live.asked()))
}

/// Whether the rollout of a template has yet to begin: the first pod waits for another one that is away, and no pod has the
/// template. `expected`: the number of pods that the spec asks for; a higher one that somebody else set is put back.
#[must_use]
pub fn is_yet_to_begin(live: &Live, expected: i32) -> bool {
    let at = live.partition.filter(|at| (1..KEEPS_ALL).contains(at));
    !live.has_rolled_out && at.is_some_and(|at| at >= live.asked().min(expected))
}

/// The numbers in the status of a StatefulSet; `None` where they are older than its last write.
fn observed(live: &Live) -> Option<&SeenRollout> {
    live.rollout.as_deref().filter(|seen| seen.observed_generation >= live.generation)
}

/// A pod that does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyPod<'a> {
    /// The number in its name.
    pub number: i32,
    /// The name of the revision of the template that it was made from; `None` of one that is missing.
    pub revision: Option<&'a str>,
    /// Whether keys are lost with it.
    pub may_hold_keys: bool,
    /// Whether it was waited for long enough.
    pub is_given_up: bool,
}

impl UnreadyPod<'_> {
    /// Whether it was made from another template than the StatefulSet has. `true` also of a pod that is missing.
    #[must_use]
    pub fn is_older(&self, seen: &SeenRollout) -> bool {
        let update = seen.revisions.as_ref().map(|revisions| revisions.update.as_str());
        update.is_none() || update != self.revision
    }
}

/// Whether no pod has keys to lose. The only pod that serves may miss one probe, and still has its keys.
fn holds_no_keys(seen: &SeenRollout, unready: &[UnreadyPod<'_>], asked: i32) -> bool {
    // Pods that are too many exist for a moment longer than the status counts them, and go anyway.
    let is_there = |pod: &UnreadyPod<'_>| pod.number < asked && pod.revision.is_some();
    let is_empty = |pod: &&UnreadyPod<'_>| is_there(pod) && !pod.may_hold_keys;
    let empty = unready.iter().filter(is_empty).count();
    seen.ready == 0 && i32::try_from(empty).is_ok_and(|empty| empty >= seen.replicas)
}

/// Whether some pods are of another template than the StatefulSet has, or are being deleted.
#[must_use]
pub fn is_rolling(seen: &SeenRollout) -> bool {
    let has_another_template = |it: &SeenRevisions| it.current != it.update;
    seen.revisions.as_deref().is_some_and(has_another_template) || seen.updated < seen.replicas
}

/// The number of the last of so many pods.
fn last_of(pods: i32) -> i32 {
    (pods - 1).max(0)
}

/// Where the partition of a new template begins, for so many pods: at the last one, or above it while another one is away. A
/// last one that goes anyway, or is away and has no keys, gets the new template even if others are away.
fn begin(pods: i32, unready: &[UnreadyPod<'_>], away: &[i32]) -> i32 {
    let last = last_of(pods);
    let holds_keys = unready.iter().any(|pod| pod.number == last && pod.may_hold_keys);
    let is_no_loss = away.contains(&last) && !holds_keys;
    let lacks_another = away.iter().any(|number| *number < last);
    if lacks_another && !is_no_loss { last + 1 } else { last }
}

/// Where the partition goes while pods are replaced.
fn next_step(seen: &SeenRollout, at: i32, asked: i32, next: NextPod) -> i32 {
    match next == NextPod::MayBeReplaced && is_there(seen, at, asked) {
        // There are fewer pods than there were, or somebody else set it higher.
        true => (at - 1).clamp(0, last_of(asked)),
        false => at,
    }
}

/// Whether all pods are available, and those that may be replaced are new.
const fn is_there(seen: &SeenRollout, at: i32, asked: i32) -> bool {
    let all_available = seen.replicas == asked && seen.ready == asked && seen.available == asked;
    all_available && seen.updated >= asked - at
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::kernel::event::SeenChild;
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
        Live::from(seen(partition, rollout))
    }

    fn seen(partition: i32, rollout: SeenRollout) -> SeenChild {
        SeenChild {
            kind: ChildKind::StatefulSet,
            key: Key { namespace: "n".into(), name: "x".into() },
            uid: Uid::from("u"),
            resource_version: ResourceVersion::from("7"),
            created: None,
            generation: 1,
            deleting: false,
            controller: None,
            content: json!({"spec": {
                "replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}},
            }})
            .into(),
            owned: None,
            entry: None,
            go_operator: None,
            managers: Vec::new(),
            rollout: Some(rollout),
            inactive: None,
        }
    }

    const fn starting(number: i32, revision: &str) -> UnreadyPod<'_> {
        UnreadyPod { number, revision: Some(revision), may_hold_keys: false, is_given_up: false }
    }

    const fn misses_probes(number: i32, revision: &str) -> UnreadyPod<'_> {
        UnreadyPod { number, revision: Some(revision), may_hold_keys: true, is_given_up: false }
    }

    const fn given_up(number: i32, revision: &str) -> UnreadyPod<'_> {
        UnreadyPod { number, revision: Some(revision), may_hold_keys: true, is_given_up: true }
    }

    const fn refused(number: i32) -> UnreadyPod<'static> {
        UnreadyPod { number, revision: None, may_hold_keys: false, is_given_up: true }
    }

    fn away(unready: &[UnreadyPod<'_>]) -> Vec<i32> {
        unready.iter().map(|pod| pod.number).collect()
    }

    #[rstest]
    #[case::at_rest(KEEPS_ALL, rollout(3, 3), &[], KEEPS_ALL)]
    #[case::a_pod_goes_at_rest(KEEPS_ALL, SeenRollout { updated: 2, ..rollout(3, 3) }, &[], KEEPS_ALL)]
    #[case::all_pods_go_at_rest(KEEPS_ALL, SeenRollout { updated: 0, ..rollout(3, 0) }, &[], KEEPS_ALL)]
    #[case::somebody_else_changed_the_template(KEEPS_ALL, rollout(0, 3), &[], KEEPS_ALL)]
    #[case::the_last_pod_is_not_replaced_yet(2, rollout(0, 3), &[], 2)]
    #[case::the_last_pod_starts(2, rollout(1, 2), &[], 2)]
    #[case::the_last_pod_serves(2, rollout(1, 3), &[], 1)]
    #[case::the_first_pod_is_left(1, rollout(2, 3), &[], 0)]
    #[case::an_older_pod_is_away(1, rollout(2, 2), &[], 1)]
    #[case::the_new_pod_was_given_up(2, rollout(1, 2), &[given_up(2, "new")], 2)]
    #[case::an_older_pod_was_given_up(2, rollout(1, 2), &[given_up(0, "old")], 0)]
    #[case::an_older_pod_is_refused(2, SeenRollout { replicas: 2, ..rollout(0, 2) }, &[refused(0)], 0)]
    #[case::the_new_pod_is_refused(2, SeenRollout { replicas: 2, ..rollout(0, 2) }, &[refused(2)], 2)]
    #[case::a_pod_is_refused_and_another_has_keys(2, SeenRollout { replicas: 2, ..rollout(0, 0) }, &[refused(1), starting(2, "old"), misses_probes(0, "old")], 1)]
    #[case::an_older_pod_misses_probes(2, rollout(1, 2), &[misses_probes(0, "old")], 2)]
    #[case::an_older_pod_comes_back(2, rollout(1, 2), &[starting(0, "old")], 2)]
    #[case::nobody_has_keys(2, rollout(0, 0), &[starting(0, "old"), starting(1, "old"), starting(2, "old")], 0)]
    #[case::nobody_is_ready_and_one_has_keys(2, rollout(0, 0), &[misses_probes(0, "old"), starting(1, "old"), starting(2, "old")], 2)]
    #[case::pods_that_are_too_many_are_empty(2, rollout(0, 0), &[starting(0, "old"), starting(3, "old"), starting(4, "old")], 2)]
    #[case::nothing_is_known_of_who_is_not_ready(2, rollout(0, 0), &[], 2)]
    #[case::fewer_pods_and_one_is_away(5, rollout(0, 2), &[], 5)]
    #[case::fewer_pods_that_all_serve(5, rollout(0, 3), &[], 2)]
    #[case::another_pod_was_away_and_all_serve(3, rollout(0, 3), &[], 2)]
    #[case::another_pod_is_away_still(3, rollout(0, 2), &[starting(0, "old")], 3)]
    #[case::another_pod_was_away_for_too_long(3, rollout(0, 2), &[given_up(0, "old")], 0)]
    #[case::all_are_new(0, rollout(3, 3), &[], KEEPS_ALL)]
    fn the_partition_follows_the_pods(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] unready: &[UnreadyPod<'static>],
        #[case] expected: i32,
    ) {
        let partition = partition(&live(at, seen), 3, unready, &away(unready), NextPod::MayBeReplaced);
        assert_eq!(partition.of_kept_pods, expected);
    }

    #[rstest]
    #[case::at_rest(KEEPS_ALL, rollout(3, 3), &[], 2)]
    #[case::in_a_rollout(1, rollout(2, 3), &[], 1)]
    #[case::the_last_rollout_left_it_at_the_first_pod(0, rollout(3, 3), &[], 2)]
    #[case::the_first_pod_is_being_replaced(0, rollout(2, 2), &[], 0)]
    #[case::it_is_not_known_what_it_is_replaced_with(0, SeenRollout { revisions: None, ..rollout(2, 2) }, &[], 0)]
    #[case::a_pod_was_given_up(KEEPS_ALL, rollout(3, 2), &[given_up(1, "old")], 1)]
    #[case::a_pod_misses_probes(KEEPS_ALL, rollout(3, 2), &[misses_probes(1, "old")], 3)]
    #[case::a_pod_starts(KEEPS_ALL, rollout(3, 2), &[starting(0, "old")], 3)]
    #[case::the_last_pod_starts(KEEPS_ALL, rollout(3, 2), &[starting(2, "old")], 2)]
    #[case::the_last_pod_misses_probes(KEEPS_ALL, rollout(3, 2), &[misses_probes(2, "old")], 2)]
    #[case::the_last_pod_starts_and_another_too(KEEPS_ALL, rollout(3, 1), &[starting(0, "old"), starting(2, "old")], 2)]
    #[case::the_last_pod_misses_probes_and_another_starts(KEEPS_ALL, rollout(3, 1), &[starting(0, "old"), misses_probes(2, "old")], 3)]
    #[case::nobody_has_keys(KEEPS_ALL, rollout(3, 0), &[starting(0, "old"), starting(1, "old"), starting(2, "old")], 0)]
    #[case::nobody_is_ready_and_all_have_keys(KEEPS_ALL, rollout(3, 0), &[misses_probes(0, "old"), misses_probes(1, "old"), misses_probes(2, "old")], 3)]
    fn a_new_template_begins_with_the_last_pod_and_never_takes_a_step_back(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] unready: &[UnreadyPod<'static>],
        #[case] expected: i32,
    ) {
        let partition = partition(&live(at, seen), 3, unready, &away(unready), NextPod::MayBeReplaced);
        assert_eq!(partition.of_new_template, expected);
    }

    /// A template that came back before its rollout away from it was over. The revisions are the same.
    #[rstest]
    #[case::no_pod_has_it_yet(SeenRollout { updated: 0, ..rollout(3, 3) }, false)]
    #[case::a_pod_is_left(SeenRollout { updated: 2, ..rollout(3, 3) }, false)]
    #[case::a_pod_was_just_made_and_is_not_counted(SeenRollout { replicas: 2, updated: 2, ..rollout(3, 2) }, false)]
    #[case::the_numbers_are_of_before(SeenRollout { observed_generation: 0, ..rollout(3, 3) }, false)]
    #[case::nothing_is_known_of_revisions(SeenRollout { revisions: None, ..rollout(3, 3) }, false)]
    #[case::all_have_it(rollout(3, 3), true)]
    #[case::all_have_it_and_one_is_not_ready(rollout(3, 2), true)]
    fn a_rollout_is_over_once_all_pods_that_are_asked_for_have_the_template(
        #[case] seen: SeenRollout,
        #[case] is_over: bool,
    ) {
        assert_eq!(live(0, seen.clone()).has_rolled_out, is_over);
        let expected = if is_over { KEEPS_ALL } else { 0 };
        assert_eq!(partition(&live(0, seen), 3, &[], &[], NextPod::MayBeReplaced).of_kept_pods, expected);
    }

    #[rstest]
    #[case::at_rest(KEEPS_ALL, rollout(3, 3), 3, false)]
    #[case::another_pod_is_away(3, rollout(0, 2), 3, true)]
    #[case::the_last_pod_may_go(2, rollout(0, 3), 3, false)]
    #[case::the_template_came_back(3, rollout(3, 3), 3, false)]
    #[case::a_pod_more_is_to_be_asked_for(3, rollout(0, 2), 4, true)]
    #[case::one_pod_fewer_is_asked_for(2, rollout(0, 2), 2, true)]
    fn a_rollout_begins_when_its_first_pod_may_go(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] expected: i32,
        #[case] is_yet: bool,
    ) {
        assert_eq!(is_yet_to_begin(&live(at, seen), expected), is_yet);
    }

    #[test]
    fn nothing_moves_before_the_last_write_was_observed() {
        let behind = SeenRollout { observed_generation: 0, ..rollout(1, 3) };
        let at_two = partition(&live(2, behind.clone()), 3, &[], &[], NextPod::MayBeReplaced);
        assert_eq!(at_two, Partition { of_kept_pods: 2, of_new_template: 2 });
        let after_a_rollout = Live { has_rolled_out: true, ..live(0, behind) };
        let at_zero = partition(&after_a_rollout, 3, &[], &[], NextPod::MayBeReplaced);
        assert_eq!(at_zero, Partition { of_kept_pods: 0, of_new_template: 2 });
    }

    #[rstest]
    #[case::ours(&["partition"], KEEPS_ALL)]
    #[case::of_somebody_else(&[], 2)]
    fn a_rollout_that_somebody_else_stopped_goes_on(#[case] owned: &[&str], #[case] expected: i32) {
        let fields: Value = owned.iter().map(|it| (format!("f:{it}"), json!({}))).collect();
        let owned = json!({"f:spec": {"f:updateStrategy": {"f:rollingUpdate": fields}}});
        let live = Live::from(SeenChild { owned: Some(owned.into()), ..seen(KEEPS_ALL, rollout(1, 3)) });
        assert_eq!(partition(&live, 3, &[], &[], NextPod::MayBeReplaced).of_kept_pods, expected);
    }

    #[test]
    fn a_template_that_came_back_replaces_the_pods_that_had_left_it() {
        let back = SeenRollout { updated: 2, ..rollout(3, 3) };
        let partition = partition(&live(2, back), 3, &[], &[], NextPod::MayBeReplaced);
        assert_eq!(partition.of_kept_pods, 1, "the others have it already");
    }

    #[test]
    fn fewer_pods_are_counted_as_the_fewer() {
        let partition = partition(&live(KEEPS_ALL, rollout(3, 3)), 2, &[], &[], NextPod::MayBeReplaced);
        assert_eq!(partition.of_new_template, 1);
    }

    #[rstest]
    #[case::at_rest(KEEPS_ALL, rollout(3, 3), None)]
    #[case::nothing_was_replaced_yet(2, rollout(0, 3), None)]
    #[case::the_new_pod_starts(2, rollout(1, 2), None)]
    #[case::the_new_pod_serves(2, rollout(1, 3), Some(2))]
    #[case::the_second_serves(1, rollout(2, 3), Some(1))]
    #[case::all_may_be_replaced(0, rollout(2, 3), None)]
    fn the_pod_that_was_replaced_last_is_waited_for_while_others_are_old(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] expected: Option<i32>,
    ) {
        let live = live(at, seen);
        assert_eq!(replaced_last(&live), expected);
        if expected.is_some() {
            let moved = |next| partition(&live, 3, &[], &[], next).of_kept_pods;
            assert_eq!(moved(NextPod::Waits), at);
            assert_eq!(moved(NextPod::MayBeReplaced), at - 1);
        }
    }

    #[rstest]
    #[case::at_rest(KEEPS_ALL, rollout(3, 3), &[], None)]
    #[case::all_may_be_replaced(0, rollout(2, 2), &[], None)]
    #[case::no_pod_is_new(2, rollout(0, 3), &[], None)]
    #[case::an_older_pod_misses_a_probe(2, rollout(1, 2), &[misses_probes(0, "old")], Some(2))]
    #[case::it_misses_a_probe_itself(2, rollout(1, 2), &[misses_probes(2, "new")], Some(2))]
    #[case::it_lost_its_keys(2, rollout(1, 2), &[starting(2, "new")], None)]
    #[case::the_numbers_are_of_before(2, SeenRollout { observed_generation: 0, ..rollout(1, 3) }, &[], Some(2))]
    fn a_wait_is_interrupted_while_the_new_pod_has_its_keys(
        #[case] at: i32,
        #[case] seen: SeenRollout,
        #[case] pods: &[UnreadyPod<'_>],
        #[case] expected: Option<i32>,
    ) {
        assert_eq!(interrupted_at(&live(at, seen), pods), expected);
    }
}
