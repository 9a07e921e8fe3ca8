//! Statuses that follow each other: the scenarios of the specification, and what has to survive a restart.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{BlockingProblem, Denial, StatusInputs, next_change, status};
use rstest::rstest;

use crate::{at, condition, first, kstatus, missing, readiness_lines, rollout, steady};

/// Generation `generation` with a Secret that is not there.
fn without_secret(generation: i64) -> StatusInputs<'static> {
    StatusInputs { generation, missing_secrets: vec![missing("my-secret", None)], now: at(10), ..steady() }
}

fn refused(now: i64) -> StatusInputs<'static> {
    let blocking_problem = Some(BlockingProblem::Denied { denial: Denial::Forbidden, message: "no".into() });
    StatusInputs { blocking_problem, pending: vec!["Service"], now: at(now), ..steady() }
}

/// `reconciledGeneration`, then the lines of Degraded, Ready, and Reconciling or Stalled.
fn told(status: &MemcachedStatus) -> (Option<i64>, Vec<String>) {
    let lines = condition(status, "Degraded").map(crate::line).into_iter().chain(readiness_lines(status));
    assert!(
        status.conditions.iter().all(|it| it.observed_generation == Some(status.observed_generation)),
        "every condition is about the generation that was seen"
    );
    (status.reconciled_generation, lines.collect())
}

const NOT_FOUND: &str = "SecretNotFound: Referenced Secrets not found: my-secret";

#[test]
fn scenario_1_failure_on_first_reconciliation_then_success() {
    let failed = first(&without_secret(1));
    let expected = [
        format!("Degraded=True {NOT_FOUND}"),
        format!("Ready=False {NOT_FOUND}"),
        "Reconciling=True NewGeneration: Reconciling new generation 1".into(),
    ];
    assert_eq!(told(&failed), (None, expected.into()));

    let repaired = status(&StatusInputs { generation: 2, now: at(20), ..steady() }, &failed);
    let expected = [
        "Degraded=False NotDegraded: All 3 desired replicas are ready".into(),
        "Ready=True MemcachedReady: All 3 replicas are ready".into(),
    ];
    assert_eq!(told(&repaired), (Some(2), expected.into()));
}

#[test]
fn scenario_2_failure_introduced_by_an_update() {
    let well = first(&steady());
    let failed = status(&without_secret(3), &well);
    let expected = [
        format!("Degraded=True {NOT_FOUND}"),
        format!("Ready=False {NOT_FOUND}"),
        "Reconciling=True NewGeneration: Reconciling new generation 3".into(),
    ];
    assert_eq!(told(&failed), (Some(2), expected.into()));
}

#[test]
fn scenario_3_failure_without_an_update() {
    let well = first(&StatusInputs { generation: 1, ..steady() });
    let failed = status(&without_secret(1), &well);
    let expected = [format!("Degraded=True {NOT_FOUND}"), format!("Ready=False {NOT_FOUND}")];
    assert_eq!(told(&failed), (Some(1), expected.into()));
}

#[test]
fn scenario_4_an_invalid_value() {
    let blocking_problem = Some(BlockingProblem::InvalidSpec("spec.memcached.threads: at most 128".into()));
    let stalled = first(&StatusInputs {
        generation: 1,
        rollout: None,
        pending: vec!["Service"],
        blocking_problem,
        ..steady()
    });
    let expected = [
        "Degraded=True Degraded: Waiting for deployment to be created",
        "Ready=False InvalidSpec: spec.memcached.threads: at most 128",
        "Stalled=True InvalidSpec: spec.memcached.threads: at most 128",
    ];
    assert_eq!(told(&stalled), (Some(1), expected.map(Into::into).into()));
}

#[test]
fn a_generation_is_never_current_before_its_pods_run_it() {
    let mut shown = MemcachedStatus::default();
    let mut seen = vec![kstatus(1, &shown)];
    let lives = [
        StatusInputs { rollout: None, pending: vec!["Service"], ..steady() },
        StatusInputs { rollout: Some(RolloutProgress { observed: false, ..rollout(0, 0, 0) }), ..steady() },
        StatusInputs { rollout: Some(rollout(3, 3, 2)), ..steady() },
        StatusInputs { rollout: Some(rollout(3, 3, 3)), ..steady() },
    ];
    for inputs in lives {
        shown = status(&StatusInputs { generation: 1, ..inputs }, &shown);
        seen.push(kstatus(1, &shown));
    }
    seen.push(kstatus(2, &shown));
    assert_eq!(seen, ["InProgress", "InProgress", "InProgress", "InProgress", "Current", "InProgress"]);
}

#[test]
fn the_start_of_a_refusal_survives_restarts_and_other_errors() {
    let refused_first = first(&refused(0));
    let blocking_problem = Some(BlockingProblem::RetryingAfterError("timeout".into()));
    let interrupted = status(
        &StatusInputs { blocking_problem, pending: vec!["Service"], now: at(300), ..steady() },
        &refused_first,
    );
    let unobserved = Some(RolloutProgress { observed: false, ..rollout(3, 3, 3) });
    let annotated = status(&StatusInputs { rollout: unobserved, now: at(400), ..steady() }, &interrupted);
    let again = status(&refused(500), &annotated);
    assert_eq!(again.failing_since, Some(Time(at(0))));
    assert_eq!(next_change(&refused(500), &again), Some(at(600)));
}

#[test]
fn another_error_is_not_the_start_of_a_refusal() {
    let blocking_problem = Some(BlockingProblem::RetryingAfterError("timeout".into()));
    let interrupted = first(&StatusInputs { blocking_problem, pending: vec!["Service"], ..steady() });
    assert_eq!(interrupted.failing_since, None);
}

#[test]
fn a_start_in_the_future_is_taken_for_now() {
    let future = MemcachedStatus { failing_since: Some(Time(at(9_000))), ..MemcachedStatus::default() };
    assert_eq!(status(&refused(0), &future).failing_since, Some(Time(at(0))));
}

#[rstest]
#[case::of_an_earlier_generation(Some(1), Some(1))]
#[case::of_this_one(Some(2), Some(2))]
#[case::restored_from_a_backup(Some(7), None)]
fn what_was_reached_before_is_remembered(#[case] before: Option<i64>, #[case] after: Option<i64>) {
    let previous = MemcachedStatus { reconciled_generation: before, ..MemcachedStatus::default() };
    let rolling = StatusInputs { rollout: Some(rollout(4, 1, 3)), ..steady() };
    assert_eq!(status(&rolling, &previous).reconciled_generation, after);
}

#[test]
fn a_transition_time_is_the_second_in_which_the_status_flipped() {
    let fraction = jiff::SignedDuration::from_millis(700);
    let times = |status: &MemcachedStatus| -> Vec<i64> {
        status.conditions.iter().map(|it| it.last_transition_time.0.duration_since(at(0)).as_secs()).collect()
    };
    let well = first(&StatusInputs { now: at(0) + fraction, ..steady() });
    assert_eq!(times(&well), [0, 0, 0, 0]);
    let lost = StatusInputs { rollout: Some(rollout(3, 3, 2)), now: at(5) + fraction, ..steady() };
    let lost = status(&lost, &well);
    assert_eq!(times(&lost), [0, 0, 5, 5], "Degraded and Ready flipped");
    assert_eq!(lost.conditions[0].last_transition_time, Time(at(0)));
    let more = StatusInputs { rollout: Some(rollout(3, 3, 1)), now: at(9), ..steady() };
    assert_eq!(times(&status(&more, &lost)), [0, 0, 5, 5], "only messages changed");
}

#[test]
fn a_message_keeps_the_limit_of_the_api() {
    let blocking_problem = Some(BlockingProblem::InvalidSpec("é".repeat(40_000)));
    let shown = first(&StatusInputs { blocking_problem, ..steady() });
    let message = condition(&shown, "Stalled").map_or("", |it| it.message.as_str());
    assert!((32_760..=32_768).contains(&message.len()), "{} bytes", message.len());
    assert!(message.ends_with("é…"));
}
