//! What holds for all inputs, after every status.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::api::secret_rotation::SecretRotation;
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::event::{SeenRollout, WithoutDeadline};
use memcached_operator_core::kernel::object::ChildKind;
use memcached_operator_core::kernel::rollout_budget::{RolloutTurn, TurnState};
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{
    BlockingProblem, Denial, MissingSecret, StatusInputs, next_change, status, template_generation,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::{KEY, at, condition, kstatus};

const OURS: [&str; 7] = ["Available", "Progressing", "Degraded", "Ready", "Reconciling", "Stalled", "Paused"];
const FOREIGN: [&str; 2] = ["Audited", "Signed"];

fn blocking_problems() -> impl Strategy<Value = Option<BlockingProblem>> {
    let denied = |denial| Some(BlockingProblem::Denied { denial, message: "refused".into() });
    select(vec![
        None,
        Some(BlockingProblem::InvalidSpec("invalid".into())),
        Some(BlockingProblem::NameConflict("conflict".into())),
        Some(BlockingProblem::ImmutableField("immutable".into())),
        Some(BlockingProblem::SecretInvalid("refused".into())),
        Some(BlockingProblem::SecretUnreadable("unreadable".into())),
        denied(Denial::Forbidden),
        denied(Denial::QuotaExceeded),
        denied(Denial::AdmissionDenied),
        Some(BlockingProblem::WaitingForGarbageCollection("waiting".into())),
        Some(BlockingProblem::RetryingAfterError("retrying".into())),
    ])
}

prop_compose! {
    fn rollouts()(
        counters in [0..3, 0..3, 0..3, 0..3],
        deadline_exceeded in option::weighted(0.2, Just("timed out".to_owned())),
        replica_failure in option::weighted(0.2, Just("refused".to_owned())),
        without_deadline in option::weighted(0.2, select(vec![WithoutDeadline::Finished, WithoutDeadline::Paused])),
        observed in prop::bool::weighted(0.8),
        carries_template in prop::bool::weighted(0.8),
        asked in 0..3,
        kept in 0..2,
        held_back in prop::bool::weighted(0.2),
    ) -> RolloutProgress {
        let [replicas, ready, updated, available] = counters;
        let seen = SeenRollout {
            observed_generation: 1, replicas, ready, updated, available, deadline_exceeded, replica_failure,
            without_deadline, revisions: None,
        };
        RolloutProgress { seen, observed, asked, kept, carries_template, held_back }
    }
}

prop_compose! {
    fn inputs()(
        generation in 1..4_i64,
        replicas_expected in 0..3,
        rollout in option::weighted(0.9, rollouts()),
        workload in select(ChildKind::WORKLOADS.to_vec()),
        former_ready in prop_oneof![9 => Just(None), 1 => (0..3).prop_map(Some)],
        in_place in prop::bool::weighted(0.8),
        paused in option::weighted(0.2, subsequence(vec!["Service", "Deployment"], 0..=2)),
        missing_secrets in subsequence(vec!["a", "b"], 0..=1),
        blocking_problem in prop_oneof![Just(None), blocking_problems()],
        rotation in option::weighted(0.3, rotations()),
        pod_problem in option::of(Just("OOMKilled".to_owned())),
        unmade_pods in subsequence(vec![0, 1], 0..=2),
        turn_state in select(vec![
            TurnState::NotNeeded,
            TurnState::Waiting(BudgetedRollout::Secret),
            TurnState::Waiting(BudgetedRollout::Definition),
            TurnState::Granted(RolloutTurn { cause: BudgetedRollout::Adoption, stalled: false, idle: false }),
            TurnState::Granted(RolloutTurn { cause: BudgetedRollout::Definition, stalled: false, idle: false }),
        ]),
        millis in 0..1_500_000_i64,
    ) -> StatusInputs<'static> {
        let lacks = |name: &str| MissingSecret { name: name.into(), key: None };
        StatusInputs {
            key: &KEY,
            generation,
            replicas_expected,
            workload,
            counted: workload,
            former_ready,
            rollout,
            servers: Vec::new(),
            pending: if in_place && !matches!(turn_state, TurnState::Waiting(_)) {
                paused.clone().unwrap_or_default()
            } else {
                vec!["Service"]
            },
            paused,
            turn_state,
            awaits_answer: false,
            warmth_wait: None,
            unserved: Vec::new(),
            missing_secrets: missing_secrets.into_iter().map(lacks).collect(),
            blocking_problem,
            pod_problem,
            unmade_pods,
            secrets: Vec::new(),
            rotation,
            warnings: Vec::new(),
            altered: Vec::new(),
            other_managers: Vec::new(),
            weakened: Vec::new(),
            template_revision: None,
            now: at(0) + SignedDuration::from_millis(millis),
        }
    }
}

prop_compose! {
    fn rotations()(
        is_under_way in any::<bool>(),
        counts in option::of((0..3_i32, 0..3_i32)),
    ) -> SecretRotation {
        SecretRotation {
            used_hash: "a".into(),
            wanted_hash: is_under_way.then(|| "b".into()),
            secrets: vec!["tls".into()],
            pods: counts.map(|(pods, _)| pods),
            updated_pods: counts.map(|(_, updated)| updated),
            ..SecretRotation::default()
        }
    }
}

prop_compose! {
    fn conditions()(
        types in subsequence([&OURS[..], &FOREIGN[..]].concat(), 0..=9).prop_shuffle(),
        values in prop::collection::vec((select(vec!["True", "False", "Unknown"]), -500..500_i64), 8),
    ) -> Vec<Condition> {
        types.into_iter().zip(values).map(|(of, (status, seconds))| Condition {
            type_: of.into(),
            status: status.into(),
            reason: "Before".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(seconds)),
        }).collect()
    }
}

prop_compose! {
    fn statuses()(
        observed_generation in -1..4_i64,
        reconciled_generation in option::of(0..5_i64),
        template_generation in option::of(0..5_i64),
        conditions in conditions(),
        failing_since in option::of((-700..700_i64).prop_map(|seconds| Time(at(seconds)))),
    ) -> MemcachedStatus {
        MemcachedStatus {
            observed_generation, reconciled_generation, template_generation, conditions, failing_since, ..MemcachedStatus::default()
        }
    }
}

fn types(status: &MemcachedStatus) -> Vec<&str> {
    status.conditions.iter().map(|it| it.type_.as_str()).collect()
}

fn is(status: &MemcachedStatus, of: &str) -> bool {
    condition(status, of).is_some_and(|it| it.status == "True")
}

/// Whether the pods are as they should be.
fn complete(it: &StatusInputs<'_>) -> bool {
    let counters = |seen: &SeenRollout| [seen.replicas, seen.updated, seen.ready, seen.available];
    it.rollout.as_ref().is_some_and(|live| {
        live.observed && live.carries_template && counters(&live.seen) == [it.replicas_expected; 4]
    })
}

/// Whether this says, without the operator's help, that everything is as it should be.
fn all_is_proven(it: &StatusInputs<'_>) -> bool {
    complete(it) && it.pending.is_empty() && it.blocking_problem.is_none() && it.missing_secrets.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn computing_a_status_from_itself_changes_nothing(it in inputs(), before in statuses()) {
        let once = status(&it, &before);
        prop_assert_eq!(status(&it, &once), once);
    }

    #[test]
    fn a_stored_status_reads_back_as_it_was(it in inputs(), before in statuses()) {
        let written = status(&it, &before);
        let stored: MemcachedStatus = serde_json::from_value(serde_json::to_value(&written).unwrap()).unwrap();
        prop_assert_eq!(stored, written);
    }

    #[test]
    fn ready_is_true_exactly_when_everything_is_proven(it in inputs(), before in statuses()) {
        let shown = status(&it, &before);
        let refused = it.rollout.as_ref().is_some_and(|live| {
            live.seen.deadline_exceeded.is_some() || live.seen.replica_failure.is_some()
        });
        let rotates = it.rotation.as_ref().is_some_and(|record| record.wanted_hash.is_some());
        let proven = !rotates && all_is_proven(&it) && !refused;
        prop_assert_eq!(is(&shown, "Ready"), proven);
        prop_assert_eq!(kstatus(it.generation, &shown) == "Current", proven);
    }

    #[test]
    fn ready_reconciling_and_stalled_exclude_each_other(it in inputs(), before in statuses()) {
        let shown = status(&it, &before);
        let true_ones = ["Ready", "Reconciling", "Stalled"].into_iter().filter(|of| is(&shown, of)).count();
        prop_assert!(true_ones <= 1);
        for of in ["Reconciling", "Stalled"] {
            prop_assert_eq!(condition(&shown, of).is_some(), is(&shown, of), "present only while true");
        }
    }

    #[test]
    fn every_type_stands_once_in_its_place_and_foreign_ones_stay(it in inputs(), before in statuses()) {
        let shown = status(&it, &before);
        let foreign = |status: &MemcachedStatus| -> Vec<Condition> {
            let all = status.conditions.iter();
            all.filter(|it| FOREIGN.contains(&it.type_.as_str())).cloned().collect()
        };
        let mut expected: Vec<&str> = OURS[..4].to_vec();
        prop_assert_eq!(is(&shown, "Paused"), it.paused.is_some());
        expected.extend(OURS[4..].iter().filter(|of| is(&shown, of)));
        expected.extend(types(&before).into_iter().filter(|of| FOREIGN.contains(of)));
        prop_assert_eq!(types(&shown), expected);
        prop_assert_eq!(foreign(&shown), foreign(&before));
    }

    #[test]
    fn a_transition_time_moves_exactly_when_the_status_flips(it in inputs(), before in statuses()) {
        let shown = status(&it, &before);
        let now = Timestamp::from_second(it.now.as_second()).unwrap();
        for after in shown.conditions.iter().filter(|it| OURS.contains(&it.type_.as_str())) {
            let kept = condition(&before, &after.type_).filter(|before| before.status == after.status);
            let expected = kept.map_or(now, |before| before.last_transition_time.0);
            prop_assert_eq!(after.last_transition_time.0, expected);
            prop_assert_eq!(after.observed_generation, Some(it.generation));
        }
    }

    #[test]
    fn the_generation_seen_is_observed_and_the_one_reached_is_remembered(it in inputs(), before in statuses()) {
        let shown = status(&it, &before);
        prop_assert_eq!(shown.observed_generation, it.generation);
        let kept = before.reconciled_generation.filter(|before| *before <= it.generation);
        let ended = (is(&shown, "Ready") && !is(&shown, "Reconciling")) || is(&shown, "Stalled");
        prop_assert_eq!(shown.reconciled_generation, if ended { Some(it.generation) } else { kept });
    }

    #[test]
    fn a_template_was_last_in_place_at_this_generation_exactly_where_the_deployment_carries_it(
        it in inputs(),
        before in statuses(),
    ) {
        let last = |status: &MemcachedStatus| template_generation(status, it.generation).unwrap_or(0);
        let shown = status(&it, &before);
        let carries = it.rollout.as_ref().is_some_and(|live| live.carries_template);
        // While a former workload stands, the edit that asked for another one is still under way.
        let in_place = carries && it.former_ready.is_none();
        prop_assert_eq!(shown.template_generation, Some(if in_place { it.generation } else { last(&before) }));
    }

    #[test]
    fn a_status_changes_by_itself_only_when_it_says_so(it in inputs(), before in statuses(), later in 1..2_000_i64) {
        let shown = status(&it, &before);
        let now = it.now + SignedDuration::from_secs(later);
        let change = next_change(&it, &shown);
        let after = status(&StatusInputs { now, ..it.clone() }, &shown);
        prop_assert_eq!(after != shown, change.is_some_and(|change| now >= change));
        prop_assert!(change.is_none() || is(&shown, "Reconciling"));
        prop_assert!(after == shown || is(&after, "Stalled"));
    }
}
