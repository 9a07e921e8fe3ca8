//! Ready, Reconciling and Stalled, row by row, and what kstatus makes of each row.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::event::SeenRollout;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{BlockingProblem, Denial, StatusInputs, next_change, status};
use rstest::rstest;

use crate::{at, first, kstatus, missing, reached, readiness_lines, rollout, steady};

/// Inputs in which not all children are as desired, because of this.
fn blocked(blocking_problem: BlockingProblem) -> StatusInputs<'static> {
    StatusInputs { blocking_problem: Some(blocking_problem), pending: vec!["Service"], ..steady() }
}

fn denied(denial: Denial) -> StatusInputs<'static> {
    blocked(BlockingProblem::Denied { denial, message: "no".into() })
}

fn lacking(key: Option<&str>) -> StatusInputs<'static> {
    StatusInputs { missing_secrets: vec![missing("b", None), missing("a", key)], ..steady() }
}

fn with(deployment: RolloutProgress) -> StatusInputs<'static> {
    StatusInputs { rollout: Some(deployment), ..steady() }
}

pub(crate) fn pods_refused() -> RolloutProgress {
    let live = rollout(1, 1, 1);
    RolloutProgress { seen: SeenRollout { replica_failure: Some("no".into()), ..live.seen }, ..live }
}

pub(crate) fn past_the_deadline() -> RolloutProgress {
    let live = rollout(4, 1, 3);
    RolloutProgress {
        seen: SeenRollout { deadline_exceeded: Some("timed out.".into()), ..live.seen },
        ..live
    }
}

#[rstest]
#[case::invalid_spec(blocked(BlockingProblem::InvalidSpec("no".into())), "InvalidSpec")]
#[case::name_conflict(blocked(BlockingProblem::NameConflict("no".into())), "NameConflict")]
#[case::secret_invalid(blocked(BlockingProblem::SecretInvalid("no".into())), "SecretInvalid")]
#[case::immutable_field(blocked(BlockingProblem::ImmutableField("no".into())), "ImmutableField")]
fn what_a_person_has_to_change_is_stalled(#[case] inputs: StatusInputs<'static>, #[case] reason: &str) {
    for shown in [first(&inputs), reached(&inputs)] {
        assert_eq!(
            readiness_lines(&shown),
            [format!("Ready=False {reason}: no"), format!("Stalled=True {reason}: no")]
        );
        assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("Failed", Some(2)));
    }
}

#[rstest]
#[case::serving(
    rollout(3, 3, 3),
    "Ready=False MemcachedNotReady: 3/3 replicas are ready; not as desired yet: Service, Deployment"
)]
#[case::of_another_template(
    RolloutProgress { carries_template: false, ..rollout(3, 3, 3) },
    "Ready=False MemcachedNotReady: 3/3 replicas are ready; the Deployment does not have the newest pod template yet; \
     not as desired yet: Service"
)]
#[case::with_too_few_pods(rollout(3, 3, 2), "Ready=False MemcachedNotReady: 2/3 replicas are ready")]
fn a_paused_resource_whose_changes_wait_is_not_ready_and_says_what_is_missing(
    #[case] live: RolloutProgress,
    #[case] ready: &str,
) {
    let inputs = StatusInputs {
        rollout: Some(live),
        pending: vec!["Service", "Deployment"],
        paused: Some(vec!["Service", "Deployment"]),
        missing_secrets: vec![missing("a", None)],
        ..steady()
    };
    let words = "Changes to Service, Deployment wait until spec.paused is false";
    for (shown, reconciled) in [(first(&inputs), None), (reached(&inputs), Some(2))] {
        let lines = [
            ready.to_owned(),
            format!("Reconciling=True Paused: {words}"),
            format!("Paused=True Paused: {words}"),
        ];
        assert_eq!(readiness_lines(&shown), lines);
        assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("InProgress", reconciled));
    }
}

#[test]
fn a_paused_resource_with_nothing_to_change_is_as_any_other_and_says_that_it_is_paused() {
    let shown = first(&StatusInputs { paused: Some(Vec::new()), ..steady() });
    let words = "Paused=True Paused: Changes wait until spec.paused is false";
    assert_eq!(readiness_lines(&shown), ["Ready=True MemcachedReady: All 3 replicas are ready", words]);
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("Current", Some(2)));
}

#[test]
fn a_secret_missing_from_a_generation_that_was_never_reached_is_waited_for() {
    let shown = first(&lacking(None));
    assert_eq!(
        readiness_lines(&shown),
        [
            "Ready=False SecretNotFound: Referenced Secrets not found: a, b",
            "Reconciling=True NewGeneration: Reconciling new generation 2"
        ]
    );
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("InProgress", None));
}

#[test]
fn a_secret_that_goes_missing_after_all_was_well_is_not_the_operators_work() {
    let shown = reached(&lacking(None));
    assert_eq!(readiness_lines(&shown), ["Ready=False SecretNotFound: Referenced Secrets not found: a, b"]);
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("InProgress", Some(2)));
}

#[test]
fn a_secret_without_its_key_is_missing_and_ready_names_the_key() {
    assert_eq!(
        readiness_lines(&reached(&lacking(Some("password-file")))),
        [
            "Ready=False SecretNotFound: Referenced Secrets not found: b; keys not found in Secrets: a (key password-file)"
        ]
    );
}

#[test]
fn a_secret_that_cannot_be_read_is_tried_again_and_degraded_stays_about_replicas() {
    let shown = reached(&blocked(BlockingProblem::SecretUnreadable("no".into())));
    assert_eq!(
        readiness_lines(&shown),
        ["Ready=False SecretUnreadable: no", "Reconciling=True SecretUnreadable: no"]
    );
    assert_eq!(crate::condition(&shown, "Degraded").map(|it| it.reason.as_str()), Some("NotDegraded"));
    assert_eq!(kstatus(2, &shown), "InProgress");
}

#[rstest]
#[case::forbidden(denied(Denial::Forbidden), "Forbidden")]
#[case::quota_exceeded(denied(Denial::QuotaExceeded), "QuotaExceeded")]
#[case::admission_denied(denied(Denial::AdmissionDenied), "AdmissionDenied")]
#[case::pods_refused(with(pods_refused()), "ReplicaFailure")]
fn a_refusal_is_stalled_after_ten_minutes(#[case] inputs: StatusInputs<'static>, #[case] reason: &str) {
    let reconciling = [format!("Ready=False {reason}: no"), format!("Reconciling=True {reason}: no")];
    let stalled = [format!("Ready=False {reason}: no"), format!("Stalled=True {reason}: no")];

    let mut shown = reached(&inputs);
    assert_eq!(readiness_lines(&shown), reconciling);
    assert_eq!(shown.failing_since, Some(Time(at(0))));
    assert_eq!(next_change(&inputs, &shown), Some(at(600)));
    assert_eq!(next_change(&inputs, &MemcachedStatus::default()), Some(at(600)), "also before it is written");

    shown = status(&StatusInputs { now: at(599), ..inputs.clone() }, &shown);
    assert_eq!((readiness_lines(&shown), kstatus(2, &shown)), (reconciling.to_vec(), "InProgress"));

    let later = StatusInputs { now: at(600), ..inputs };
    shown = status(&later, &shown);
    assert_eq!((readiness_lines(&shown), kstatus(2, &shown)), (stalled.to_vec(), "Failed"));
    assert_eq!(shown.failing_since, Some(Time(at(0))));
    assert_eq!(next_change(&later, &shown), None);

    shown = status(&StatusInputs { now: at(601), ..steady() }, &shown);
    assert_eq!(readiness_lines(&shown), ["Ready=True MemcachedReady: All 3 replicas are ready"]);
    assert_eq!(shown.failing_since, None);
}

#[test]
fn a_rollout_past_its_deadline_is_stalled_and_says_why() {
    let inputs = StatusInputs { pod_problem: Some("ImagePullBackOff".into()), ..with(past_the_deadline()) };
    for shown in [first(&inputs), reached(&inputs)] {
        assert_eq!(
            readiness_lines(&shown),
            [
                "Ready=False ProgressDeadlineExceeded: timed out: ImagePullBackOff",
                "Stalled=True ProgressDeadlineExceeded: timed out: ImagePullBackOff"
            ]
        );
        assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("Failed", Some(2)));
    }
}

#[rstest]
#[case::unobserved(RolloutProgress { observed: false, ..past_the_deadline() })]
#[case::of_another_template(RolloutProgress { carries_template: false, ..past_the_deadline() })]
#[case::pods_refused_of_another_template(RolloutProgress { carries_template: false, ..pods_refused() })]
fn the_failure_of_an_older_rollout_says_nothing_about_this_one(#[case] deployment: RolloutProgress) {
    let shown = reached(&with(deployment));
    assert_eq!(crate::condition(&shown, "Ready").map(|it| it.reason.as_str()), Some("MemcachedNotReady"));
    assert_eq!(kstatus(2, &shown), "InProgress");
}

#[rstest]
#[case::nothing_there_yet(
    StatusInputs { rollout: None, pending: vec!["Service"], ..steady() },
    "0/3 replicas are ready"
)]
#[case::nothing_there_yet_and_nothing_wanted(
    StatusInputs { rollout: None, replicas_expected: 0, ..steady() },
    "0/0 replicas are ready; the Deployment does not exist yet"
)]
#[case::too_few(with(rollout(4, 1, 2)), "2/3 replicas are ready")]
#[case::rolling(
    with(rollout(4, 1, 4)),
    "4/3 replicas are ready; 3 pods of an older template are left; 1 pod more than wanted"
)]
#[case::the_last_one_is_left(
    with(rollout(3, 2, 3)),
    "3/3 replicas are ready; 1 pod of an older template is left"
)]
#[case::scaling_in(with(rollout(5, 5, 5)), "5/3 replicas are ready; 2 pods more than wanted")]
#[case::not_for_long_enough(
    with(RolloutProgress { seen: SeenRollout { available: 1, ..rollout(3, 3, 3).seen }, ..rollout(3, 3, 3) }),
    "3/3 replicas are ready; only 1/3 replicas are available"
)]
#[case::another_template(
    StatusInputs {
        pending: vec!["Deployment"],
        ..with(RolloutProgress { carries_template: false, ..rollout(3, 3, 3) })
    },
    "3/3 replicas are ready; the Deployment does not have the newest pod template yet"
)]
#[case::unobserved(
    with(RolloutProgress { observed: false, ..rollout(3, 3, 3) }),
    "3/3 replicas are ready; the Deployment has not observed its newest spec yet"
)]
#[case::all_but_a_service(
    StatusInputs { pending: vec!["NetworkPolicy", "Service"], ..steady() },
    "3/3 replicas are ready; not as desired yet: NetworkPolicy, Service"
)]
#[case::at_its_full_number_but_not_ready(with(rollout(3, 3, 1)), "1/3 replicas are ready")]
fn a_generation_on_its_way_is_reconciling(#[case] inputs: StatusInputs<'static>, #[case] ready: &str) {
    let shown = first(&inputs);
    assert_eq!(
        readiness_lines(&shown),
        [
            format!("Ready=False MemcachedNotReady: {ready}"),
            "Reconciling=True NewGeneration: Reconciling new generation 2".into()
        ]
    );
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("InProgress", None));
}

#[rstest]
#[case::pods_roll(
    with(rollout(4, 1, 2)),
    "2/3 replicas are ready",
    "Rollout in progress: 1/3 replicas updated"
)]
#[case::a_template_to_be_put_back(
    StatusInputs { pending: vec!["Service"], ..with(RolloutProgress { carries_template: false, ..rollout(3, 3, 3) }) },
    "3/3 replicas are ready; the Deployment does not have the newest pod template yet; not as desired yet: Service",
    "Rollout in progress: 0/3 replicas updated"
)]
#[case::the_deployment_was_deleted(
    StatusInputs { rollout: None, pending: vec!["Service"], ..steady() },
    "0/3 replicas are ready",
    "Waiting for deployment to be created"
)]
#[case::a_service_to_be_put_back(
    StatusInputs { pending: vec!["Service"], ..steady() },
    "3/3 replicas are ready; not as desired yet: Service",
    "Waiting for changes to Service to be confirmed"
)]
#[case::none_wanted_and_nothing_observed(
    StatusInputs { replicas_expected: 0, ..with(RolloutProgress { observed: false, ..rollout(0, 0, 0) }) },
    "0/0 replicas are ready; the Deployment has not observed its newest spec yet",
    "Waiting for the Deployment to observe its newest spec"
)]
fn a_generation_that_was_reached_before_is_brought_back(
    #[case] inputs: StatusInputs<'static>,
    #[case] ready: &str,
    #[case] message: &str,
) {
    let shown = reached(&inputs);
    assert_eq!(
        readiness_lines(&shown),
        [
            format!("Ready=False MemcachedNotReady: {ready}"),
            format!("Reconciling=True Progressing: {message}")
        ]
    );
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("InProgress", Some(2)));
}

#[rstest]
#[case::transient(BlockingProblem::RetryingAfterError("no".into()), "RetryingAfterError")]
#[case::collected(BlockingProblem::WaitingForGarbageCollection("no".into()), "WaitingForGarbageCollection")]
fn what_passes_by_itself_is_reconciling(#[case] blocking_problem: BlockingProblem, #[case] reason: &str) {
    let shown = first(&blocked(blocking_problem));
    assert_eq!(
        readiness_lines(&shown),
        ["Ready=False MemcachedNotReady: no".to_owned(), format!("Reconciling=True {reason}: no")]
    );
    assert_eq!(kstatus(2, &shown), "InProgress");
}

#[rstest]
#[case::one_lost(rollout(3, 3, 2), None, "2/3 replicas are ready")]
#[case::all_lost(rollout(3, 3, 0), Some("OOMKilled"), "0/3 replicas are ready: OOMKilled")]
fn pods_lost_after_all_was_well_are_not_the_operators_work(
    #[case] deployment: RolloutProgress,
    #[case] problem: Option<&str>,
    #[case] message: &str,
) {
    let shown = reached(&StatusInputs { pod_problem: problem.map(Into::into), ..with(deployment) });
    assert_eq!(readiness_lines(&shown), [format!("Ready=False MemcachedNotReady: {message}")]);
    assert_eq!(kstatus(2, &shown), "InProgress");
}

#[rstest]
#[case::three(3)]
#[case::none(0)]
fn a_steady_resource_is_ready(#[case] replicas: i32) {
    let deployment = Some(rollout(replicas, replicas, replicas));
    let shown = first(&StatusInputs { replicas_expected: replicas, rollout: deployment, ..steady() });
    assert_eq!(
        readiness_lines(&shown),
        [format!("Ready=True MemcachedReady: All {replicas} replicas are ready")]
    );
    assert_eq!((kstatus(2, &shown), shown.reconciled_generation), ("Current", Some(2)));
}

#[rstest]
#[case::no_deployment(StatusInputs { rollout: None, ..steady() })]
#[case::not_in_place(StatusInputs { pending: vec!["Service"], ..steady() })]
#[case::unobserved(with(RolloutProgress { observed: false, ..rollout(3, 3, 3) }))]
#[case::another_template(with(RolloutProgress { carries_template: false, ..rollout(3, 3, 3) }))]
#[case::not_updated(with(rollout(3, 2, 3)))]
#[case::a_pod_too_many(with(rollout(4, 3, 3)))]
#[case::a_pod_too_few(with(rollout(2, 3, 3)))]
#[case::not_ready(with(rollout(3, 3, 2)))]
#[case::not_available({
    let live = rollout(3, 3, 3);
    with(RolloutProgress { seen: SeenRollout { available: 2, ..live.seen }, ..live })
})]
#[case::zero_wanted_but_unobserved(StatusInputs {
    replicas_expected: 0,
    ..with(RolloutProgress { observed: false, ..rollout(0, 0, 0) })
})]
#[case::zero_wanted_but_a_pod_left(StatusInputs { replicas_expected: 0, ..with(rollout(1, 0, 0)) })]
fn whatever_is_not_proven_is_not_ready(#[case] inputs: StatusInputs<'static>) {
    for shown in [first(&inputs), reached(&inputs)] {
        assert_eq!(kstatus(2, &shown), "InProgress");
    }
}

/// One row of the table: a change that makes it fit, and the reason that Ready then has.
struct Row(&'static str, fn(&mut StatusInputs<'static>));

/// The first one first.
const ROWS: [Row; 8] = [
    Row("InvalidSpec", |it| it.blocking_problem = Some(BlockingProblem::InvalidSpec("no".into()))),
    Row("SecretNotFound", |it| it.missing_secrets = vec![missing("a", None)]),
    Row("SecretUnreadable", |it| it.blocking_problem = Some(BlockingProblem::SecretUnreadable("no".into()))),
    Row("QuotaExceeded", |it| it.blocking_problem = denied(Denial::QuotaExceeded).blocking_problem),
    Row("ReplicaFailure", |it| seen(it).replica_failure = Some("no".into())),
    Row("ProgressDeadlineExceeded", |it| seen(it).deadline_exceeded = Some("no".into())),
    Row("MemcachedNotReady", |it| {
        it.blocking_problem = Some(BlockingProblem::RetryingAfterError("no".into()));
    }),
    Row("MemcachedReady", |_| {}),
];

fn seen<'a>(inputs: &'a mut StatusInputs<'static>) -> &'a mut SeenRollout {
    &mut inputs.rollout.get_or_insert_with(|| rollout(3, 3, 3)).seen
}

#[test]
fn the_first_row_that_fits_is_taken() {
    for (index, Row(reason, worse)) in ROWS.iter().enumerate() {
        for Row(_, better) in &ROWS[index..] {
            let mut inputs = steady();
            better(&mut inputs);
            worse(&mut inputs);
            let shown = reached(&inputs);
            assert_eq!(crate::condition(&shown, "Ready").map(|it| it.reason.as_str()), Some(*reason));
        }
    }
}
