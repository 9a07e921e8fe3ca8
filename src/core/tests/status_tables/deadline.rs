//! A workload whose pods make no progress, and which does not tell by itself: when it counts as stalled, what puts that off, and what is said of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::event::{SeenRollout, WithoutDeadline};
use memcached_operator_core::kernel::object::ChildKind;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{StatusInputs, next_change, status};
use rstest::rstest;

use crate::{at, first, kstatus, line, missing, reached, readiness_lines, rollout, steady};

/// The StatefulSet of `shop/cache` with so many of three pods made, new and ready.
fn pods(exist: i32, updated: i32, ready: i32, now: i64) -> StatusInputs<'static> {
    let live = rollout(exist, updated, ready);
    StatusInputs {
        workload: ChildKind::StatefulSet,
        rollout: Some(RolloutProgress { asked: 3, ..live }),
        now: at(now),
        ..steady()
    }
}

/// The time since when there is no progress, in seconds.
fn since(status: &MemcachedStatus) -> Option<Time> {
    status.progressing_since.clone()
}

#[test]
fn a_statefulset_is_stalled_after_600_seconds_without_progress_also_by_another_operator() {
    let begun = first(&pods(3, 1, 2, 0));
    assert_eq!(since(&begun), Some(Time(at(0))));
    assert_eq!(next_change(&pods(3, 1, 2, 0), &MemcachedStatus::default()), Some(at(600)));
    let almost = status(&pods(3, 1, 2, 599), &begun);
    assert_eq!((kstatus(2, &almost), since(&almost)), ("InProgress", Some(Time(at(0)))));
    // What another operator knows is the status, and no more.
    let over = status(&pods(3, 1, 2, 600), &almost);
    let words = "StatefulSet cache has made no progress for 10 minutes";
    let expected = [
        format!("Ready=False ProgressDeadlineExceeded: {words}"),
        format!("Stalled=True ProgressDeadlineExceeded: {words}"),
    ];
    assert_eq!((kstatus(2, &over), readiness_lines(&over)), ("Failed", expected.into()));
    assert_eq!(next_change(&pods(3, 1, 2, 600), &almost), None);
}

/// A quota or a policy refuses its pods. Unlike a Deployment it has no condition that says so.
#[test]
fn a_statefulset_whose_pods_are_refused_says_how_many_serve_and_after_600_seconds_where_to_look() {
    let refused = pods(1, 1, 1, 0);
    let in_progress = "Rollout in progress: 1/3 replicas updated";
    for (begun, reconciling) in [
        (first(&refused), "NewGeneration: Reconciling new generation 2".to_owned()),
        (reached(&refused), format!("Progressing: {in_progress}")),
    ] {
        let of_pods = [
            "Available=True Available: 1/3 replicas are ready".to_owned(),
            format!("Progressing=True Progressing: {in_progress}"),
            "Degraded=True Degraded: Only 1/3 replicas are ready".to_owned(),
        ];
        let waits = [
            "Ready=False MemcachedNotReady: 1/3 replicas are ready".to_owned(),
            format!("Reconciling=True {reconciling}"),
        ];
        let almost = status(&pods(1, 1, 1, 599), &begun);
        for shown in [&begun, &almost] {
            assert_eq!((lines(shown), kstatus(2, shown)), ([&of_pods[..], &waits].concat(), "InProgress"));
            assert_eq!(since(shown), Some(Time(at(0))));
        }
        let over = status(&pods(1, 1, 1, 600), &almost);
        let why = "ProgressDeadlineExceeded: StatefulSet cache has made no progress for 10 minutes; 1/3 pods exist, and the \
            Events of the StatefulSet say why no more";
        let stalled = [format!("Ready=False {why}"), format!("Stalled=True {why}")];
        assert_eq!((lines(&over), kstatus(2, &over)), ([&of_pods[..], &stalled].concat(), "Failed"));
        let taken = status(&pods(3, 3, 3, 700), &over);
        assert_eq!((kstatus(2, &taken), since(&taken)), ("Current", None));
    }
}

#[rstest]
#[case::one(&[2], None, "the StatefulSet has not made pod cache-2 for 2 minutes: see its Events")]
#[case::several(&[1, 2], None, "the StatefulSet has not made pod cache-1 and 1 more for 2 minutes: see its Events")]
#[case::beside_one_that_does_not_run(
    &[2],
    Some("OOMKilled"),
    "a pod does not run: OOMKilled; the StatefulSet has not made pod cache-2 for 2 minutes: see its Events"
)]
fn a_statefulset_whose_pods_are_refused_for_two_minutes_says_which_and_is_not_stalled_yet(
    #[case] unmade: &[i32],
    #[case] pod_problem: Option<&str>,
    #[case] words: &str,
) {
    let refused = StatusInputs {
        unmade_pods: unmade.to_vec(),
        pod_problem: pod_problem.map(Into::into),
        ..pods(1, 1, 1, 120)
    };
    let paused = StatusInputs { paused: Some(vec!["Service"]), ..refused.clone() };
    for shown in [first(&refused), reached(&refused), first(&paused)] {
        let ready = format!("Ready=False MemcachedNotReady: 1/3 replicas are ready; {words}");
        assert_eq!((&readiness_lines(&shown)[0], kstatus(2, &shown)), (&ready, "InProgress"));
    }
}

/// All conditions, as lines.
fn lines(status: &MemcachedStatus) -> Vec<String> {
    status.conditions.iter().map(line).collect()
}

#[rstest]
#[case::another_pod_is_new(pods(3, 2, 2, 500))]
#[case::another_pod_is_ready(pods(3, 1, 3, 500))]
#[case::another_generation(StatusInputs { generation: 3, ..pods(3, 1, 2, 500) })]
fn progress_begins_the_600_seconds_anew(#[case] inputs: StatusInputs<'static>) {
    let begun = first(&pods(3, 1, 2, 0));
    assert_eq!(since(&status(&inputs, &begun)), Some(Time(at(500))));
}

#[rstest]
#[case::for_a_secret(StatusInputs { missing_secrets: vec![missing("users", None)], ..pods(3, 1, 2, 500) })]
#[case::until_its_pods_were_ready_for_long_enough({
    let of_three = SeenRollout { available: 2, ..rollout(3, 2, 3).seen };
    StatusInputs { rollout: Some(RolloutProgress { seen: of_three, ..rollout(3, 2, 3) }), ..pods(3, 2, 3, 500) }
})]
fn a_rollout_that_waits_for_something_else_is_not_stuck(#[case] waits: StatusInputs<'static>) {
    let begun = first(&pods(3, 1, 2, 0));
    let waiting = status(&waits, &begun);
    assert_eq!(since(&waiting), None);
    let goes_on = status(&pods(3, 2, 2, 900), &waiting);
    assert_eq!(since(&goes_on), Some(Time(at(900))), "its 600 seconds begin when the wait is over");
}

/// Pods of a Deployment that says that its rollout is finished.
fn without_deadline(exist: i32, updated: i32, ready: i32, now: i64) -> StatusInputs<'static> {
    of_deployment(WithoutDeadline::Finished, pods(exist, updated, ready, now))
}

fn of_deployment(why: WithoutDeadline, inputs: StatusInputs<'static>) -> StatusInputs<'static> {
    let rollout = inputs.rollout.map(|it| {
        let seen = SeenRollout { without_deadline: Some(why), ..it.seen };
        RolloutProgress { seen, ..it }
    });
    StatusInputs { workload: ChildKind::Deployment, rollout, ..inputs }
}

/// `kubectl rollout pause` before an edit: no pod is replaced, and Kubernetes counts no deadline.
#[test]
fn a_deployment_that_somebody_paused_is_stalled_by_ours_and_the_words_say_why() {
    let paused = |updated, now| of_deployment(WithoutDeadline::Paused, pods(3, updated, 3, now));
    let begun = first(&paused(0, 0));
    assert_eq!((kstatus(2, &begun), since(&begun)), ("InProgress", Some(Time(at(0)))));
    let over = status(&paused(0, 600), &begun);
    assert_eq!(
        readiness_lines(&over)[1],
        "Stalled=True ProgressDeadlineExceeded: Deployment cache has made no progress for 10 minutes; somebody paused \
         the Deployment (its own spec.paused): kubectl rollout resume ends that"
    );
    assert_eq!(since(&first(&paused(3, 0))), None, "all is as asked for");
    let resumed = StatusInputs { workload: ChildKind::Deployment, ..pods(3, 0, 3, 700) };
    assert_eq!(kstatus(2, &status(&resumed, &over)), "InProgress");
}

#[test]
fn a_deployment_for_whose_rollout_kubernetes_counts_no_deadline_is_stalled_by_ours() {
    let begun = first(&without_deadline(4, 1, 3, 0));
    assert_eq!(since(&begun), Some(Time(at(0))));
    assert_eq!(next_change(&without_deadline(4, 1, 3, 0), &MemcachedStatus::default()), Some(at(600)));
    let over = status(&without_deadline(4, 1, 3, 600), &begun);
    let words = "Deployment cache has made no progress for 10 minutes";
    assert_eq!(readiness_lines(&over)[1], format!("Stalled=True ProgressDeadlineExceeded: {words}"));
    let scaled = first(&without_deadline(2, 2, 2, 0));
    let why = format!("{words}; 2/3 pods exist, and the Events of its ReplicaSets say why no more");
    let stuck = status(&without_deadline(2, 2, 2, 600), &scaled);
    assert_eq!(readiness_lines(&stuck)[1], format!("Stalled=True ProgressDeadlineExceeded: {why}"));
    let ends = status(&without_deadline(3, 3, 3, 700), &over);
    assert_eq!((kstatus(2, &ends), since(&ends)), ("Current", None));
}

#[test]
fn a_deployment_that_counts_has_no_deadline_of_ours_nor_has_a_workload_that_lost_a_pod() {
    let of_deployment = StatusInputs { workload: ChildKind::Deployment, ..pods(3, 1, 2, 0) };
    assert_eq!(since(&first(&of_deployment)), None);
    let before = MemcachedStatus { reconciled_generation: Some(2), ..MemcachedStatus::default() };
    for lost_a_pod in [pods(3, 3, 2, 0), without_deadline(3, 3, 2, 0)] {
        assert_eq!(since(&status(&lost_a_pod, &before)), None);
    }
}
