//! Available, Progressing and Degraded, row by row, and the numbers beside them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::api::secret_rotation::SecretRotation;
use memcached_operator_core::api::spec::Warmth;
use memcached_operator_core::api::status::{
    AlteredField, AlteredFields, OtherFieldManager, SecretVersion, Warning,
};
use memcached_operator_core::api::warming::Warming;
use memcached_operator_core::kernel::desired::Revision;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{BlockingProblem, MissingSecret, StatusInputs, status};
use memcached_operator_core::kernel::warmth::{Wait, WaitState};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{condition, first, line, missing, rollout, steady};

/// One condition of a resource with this Deployment and so many desired replicas.
fn said(of: &str, replicas_expected: i32, deployment: Option<RolloutProgress>) -> String {
    let inputs = StatusInputs { replicas_expected, rollout: deployment, ..steady() };
    condition(&first(&inputs), of).map(line).unwrap_or_default()
}

#[rstest]
#[case::some_are_ready(3, Some(rollout(3, 3, 1)), "True Available: 1/3 replicas are ready")]
#[case::all_are_ready(3, Some(rollout(3, 3, 3)), "True Available: 3/3 replicas are ready")]
#[case::none_is_wanted(0, Some(rollout(0, 0, 0)), "True Available: 0/0 replicas are ready")]
#[case::none_is_ready(3, Some(rollout(3, 3, 0)), "False Unavailable: 0/3 replicas are ready")]
#[case::no_deployment_yet(3, None, "False Unavailable: 0/3 replicas are ready")]
#[case::no_deployment_yet_and_none_is_wanted(0, None, "True Available: 0/0 replicas are ready")]
fn available_means_that_a_pod_serves_or_none_is_wanted(
    #[case] desired: i32,
    #[case] deployment: Option<RolloutProgress>,
    #[case] expected: &str,
) {
    assert_eq!(said("Available", desired, deployment), format!("Available={expected}"));
}

#[rstest]
#[case::no_deployment_yet(3, None, "True Progressing: Waiting for deployment to be created")]
#[case::no_deployment_yet_and_none_is_wanted(
    0,
    None,
    "True Progressing: Waiting for deployment to be created"
)]
#[case::rolling(3, Some(rollout(4, 1, 3)), "True Progressing: Rollout in progress: 1/3 replicas updated")]
#[case::scaling_out(3, Some(rollout(1, 1, 1)), "True Progressing: Rollout in progress: 1/3 replicas updated")]
#[case::scaling_in(1, Some(rollout(3, 3, 3)), "True Progressing: Rollout in progress: 3/1 replicas updated")]
#[case::old_pods_left(
    3,
    Some(rollout(4, 3, 3)),
    "True Progressing: Rollout in progress: 3/3 replicas updated"
)]
#[case::complete(3, Some(rollout(3, 3, 3)), "False ProgressingComplete: All 3 replicas are updated")]
#[case::complete_but_not_ready(
    3,
    Some(rollout(3, 3, 0)),
    "False ProgressingComplete: All 3 replicas are updated"
)]
#[case::scaled_to_zero(0, Some(rollout(0, 0, 0)), "False ProgressingComplete: All 0 replicas are updated")]
#[case::its_own_spec_is_news_to_the_deployment(
    3,
    Some(RolloutProgress { observed: false, ..rollout(3, 3, 3) }),
    "True Progressing: Rollout in progress: 0/3 replicas updated"
)]
#[case::the_deployment_has_another_template(
    3,
    Some(RolloutProgress { carries_template: false, ..rollout(3, 3, 3) }),
    "True Progressing: Rollout in progress: 0/3 replicas updated"
)]
fn progressing_means_that_pods_are_replaced_or_their_number_changes(
    #[case] desired: i32,
    #[case] deployment: Option<RolloutProgress>,
    #[case] expected: &str,
) {
    assert_eq!(said("Progressing", desired, deployment), format!("Progressing={expected}"));
}

#[rstest]
#[case::some_are_not_ready(3, Some(rollout(3, 3, 2)), "True Degraded: Only 2/3 replicas are ready")]
#[case::no_deployment_yet(3, None, "True Degraded: Waiting for deployment to be created")]
#[case::all_are_ready(3, Some(rollout(3, 3, 3)), "False NotDegraded: All 3 desired replicas are ready")]
#[case::more_are_ready(3, Some(rollout(4, 3, 4)), "False NotDegraded: All 3 desired replicas are ready")]
#[case::scaled_to_zero(0, Some(rollout(0, 0, 0)), "False NotDegraded: All 0 desired replicas are ready")]
#[case::no_deployment_yet_and_none_is_wanted(0, None, "False NotDegraded: All 0 desired replicas are ready")]
fn degraded_means_that_fewer_pods_serve_than_are_wanted(
    #[case] desired: i32,
    #[case] deployment: Option<RolloutProgress>,
    #[case] expected: &str,
) {
    assert_eq!(said("Degraded", desired, deployment), format!("Degraded={expected}"));
}

#[rstest]
#[case::one(vec![missing("a", None)], "a")]
#[case::sorted(vec![missing("b", None), missing("a", None)], "a, b")]
#[case::each_once(vec![missing("a", None), missing("a", None)], "a")]
#[case::without_those_that_lack_a_key(vec![missing("a", None), missing("b", Some("tls.key"))], "a")]
fn a_missing_secret_is_degraded_whatever_the_replicas(
    #[case] missing_secrets: Vec<MissingSecret>,
    #[case] names: &str,
    #[values((3, None), (3, Some(rollout(3, 3, 3))), (3, Some(rollout(3, 3, 0))), (0, Some(rollout(0, 0, 0))))]
    replicas: (i32, Option<RolloutProgress>),
) {
    let (replicas_expected, deployment) = replicas;
    let inputs = StatusInputs { replicas_expected, rollout: deployment, missing_secrets, ..steady() };
    assert_eq!(
        condition(&first(&inputs), "Degraded").map(line),
        Some(format!("Degraded=True SecretNotFound: Referenced Secrets not found: {names}"))
    );
}

#[test]
fn a_secret_that_only_lacks_its_key_is_not_said_to_be_missing() {
    let missing_secrets = vec![missing("b", Some("tls.key")), missing("a", Some("password-file"))];
    assert_eq!(
        condition(&first(&StatusInputs { missing_secrets, ..steady() }), "Degraded").map(line).as_deref(),
        Some(
            "Degraded=True SecretNotFound: Keys not found in referenced Secrets: a (key password-file), b (key tls.key)"
        )
    );
}

/// A Deployment whose change waits.
fn held_back(total: i32, updated: i32) -> RolloutProgress {
    RolloutProgress { held_back: true, ..rollout(total, updated, total) }
}

#[rstest]
#[case::another_template(
    RolloutProgress { carries_template: false, ..held_back(3, 3) },
    "False RolloutHeldBack: Rollout held back: 0/3 replicas updated"
)]
#[case::another_scale(held_back(2, 2), "False RolloutHeldBack: Rollout held back: 2/3 replicas updated")]
#[case::its_controller_is_at_work(
    held_back(4, 1),
    "True Progressing: Rollout in progress: 1/3 replicas updated"
)]
#[case::between_two_pods_of_a_stateful_set(
    RolloutProgress { kept: 2, ..held_back(3, 1) },
    "False RolloutHeldBack: Rollout held back: 1/3 replicas updated"
)]
#[case::a_pod_of_a_stateful_set_is_being_replaced(
    RolloutProgress { kept: 1, ..held_back(3, 1) },
    "True Progressing: Rollout in progress: 1/3 replicas updated"
)]
#[case::its_own_spec_is_news_to_it(
    RolloutProgress { observed: false, ..held_back(2, 2) },
    "True Progressing: Rollout in progress: 0/3 replicas updated"
)]
#[case::something_else_waits(held_back(3, 3), "False ProgressingComplete: All 3 replicas are updated")]
fn a_change_that_is_held_back_is_no_rollout(#[case] deployment: RolloutProgress, #[case] expected: &str) {
    let inputs = StatusInputs { rollout: Some(deployment), pending: vec!["Deployment"], ..steady() };
    let shown = |it: &StatusInputs<'_>| condition(&first(it), "Progressing").map(line).unwrap_or_default();
    assert_eq!(shown(&inputs), format!("Progressing={expected}"));
    let paused = StatusInputs { paused: Some(vec!["Deployment"]), ..inputs.clone() };
    let expected = expected.replace("RolloutHeldBack", "Paused").replace("held back", "paused");
    assert_eq!(shown(&paused), format!("Progressing={expected}"));
}

/// The fields of the status that the specification's examples show.
fn as_in_the_example(status: &MemcachedStatus) -> Value {
    json!({
        "observedGeneration": status.observed_generation,
        "readyReplicas": status.ready_replicas,
        "conditions": status.conditions.iter().take(3).collect::<Vec<_>>(),
    })
}

#[test]
fn two_of_three_ready_is_the_first_example() {
    let example = r#"
        observedGeneration: 2
        readyReplicas: 2
        conditions:
        - type: Available
          status: "True"
          reason: Available
          message: "2/3 replicas are ready"
          lastTransitionTime: "2024-01-15T10:30:00Z"
          observedGeneration: 2
        - type: Progressing
          status: "True"
          reason: Progressing
          message: "Rollout in progress: 3/3 replicas updated"
          lastTransitionTime: "2024-01-15T10:29:00Z"
          observedGeneration: 2
        - type: Degraded
          status: "True"
          reason: Degraded
          message: "Only 2/3 replicas are ready"
          lastTransitionTime: "2024-01-15T10:29:00Z"
          observedGeneration: 2
    "#;
    let created = StatusInputs { now: "2024-01-15T10:29:00Z".parse().unwrap(), rollout: None, ..steady() };
    let later = StatusInputs {
        now: "2024-01-15T10:30:00.75Z".parse().unwrap(),
        rollout: Some(rollout(4, 3, 2)),
        ..steady()
    };
    let status = status(&later, &first(&created));
    assert_eq!(as_in_the_example(&status), serde_saphyr::from_str::<Value>(example).unwrap());
}

#[test]
fn all_ready_is_the_second_example() {
    let example = r#"
        observedGeneration: 2
        readyReplicas: 3
        conditions:
        - type: Available
          status: "True"
          reason: Available
          message: "3/3 replicas are ready"
        - type: Progressing
          status: "False"
          reason: ProgressingComplete
          message: "All 3 replicas are updated"
        - type: Degraded
          status: "False"
          reason: NotDegraded
          message: "All 3 desired replicas are ready"
    "#;
    let mut shown = as_in_the_example(&first(&steady()));
    for condition in shown["conditions"].as_array_mut().unwrap() {
        let fields = condition.as_object_mut().unwrap();
        fields.retain(|name, _| !["lastTransitionTime", "observedGeneration"].contains(&name.as_str()));
    }
    assert_eq!(shown, serde_saphyr::from_str::<Value>(example).unwrap());
}

/// The status without its conditions.
fn numbers(inputs: &StatusInputs<'_>) -> MemcachedStatus {
    MemcachedStatus { conditions: Vec::new(), ..first(inputs) }
}

fn warming() -> Warming {
    Warming {
        pod: "cache-2".into(),
        revision: Some("cache-5c1f".into()),
        since: Time(Timestamp::UNIX_EPOCH),
        items_percent: Some(7),
        hit_ratio_percent: None,
        earlier_lack_percent: None,
    }
}

fn altered() -> Vec<AlteredFields> {
    vec![AlteredFields {
        kind: "Deployment".into(),
        applied_hash: "5c1f".into(),
        server_version: "v1.34.4".into(),
        fields: vec![AlteredField { path: "spec.replicas".into(), digest: "0a1b".into() }],
    }]
}

#[test]
fn the_numbers_mirror_the_deployment() {
    let secrets = vec![SecretVersion {
        name: "a".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        ..SecretVersion::default()
    }];
    let warnings = vec![Warning { reason: "MemoryLimitTight".into(), message: "too tight".into() }];
    let altered = altered();
    let others = vec![OtherFieldManager {
        manager: "kubectl-patch".into(),
        time: None,
        fields: vec!["spec.template.spec.containers[name=debug]".into()],
    }];
    let rotation = SecretRotation { used_hash: "5c1f".into(), ..SecretRotation::default() };
    let inputs = StatusInputs {
        rollout: Some(rollout(4, 2, 3)),
        rotation: Some(rotation.clone()),
        template_revision: Some(Revision(1)),
        secrets: secrets.clone(),
        warnings: warnings.clone(),
        altered: altered.clone(),
        other_managers: others.clone(),
        weakened: vec!["container debug".into()],
        warmth_wait: Some(Wait {
            warming: warming(),
            warmth: Warmth { percent: 80, timeout_seconds: 300 },
            state: WaitState::Running,
        }),
        ..steady()
    };
    let expected = MemcachedStatus {
        observed_generation: 2,
        reconciled_generation: None,
        template_generation: Some(2),
        conditions: Vec::new(),
        replicas: 4,
        ready_replicas: 3,
        updated_replicas: 2,
        selector: "app.kubernetes.io/instance=cache,app.kubernetes.io/managed-by=memcached-operator,\
                   app.kubernetes.io/name=memcached"
            .into(),
        template_revision: Some(1),
        server_list: vec!["cache.shop:11211".into()],
        unserved_kinds: Vec::new().into(),
        secrets: secrets.into(),
        secret_rotation: Some(Box::new(rotation)),
        warnings: warnings.into(),
        budgeted_rollout: None,
        budgeted_rollout_cause: None,
        budgeted_rollout_stalled: false,
        altered_fields: altered.into(),
        other_field_managers: others.into(),
        weakened_by_others: vec!["container debug".into()].into(),
        failing_since: None,
        progressing_since: None,
        warming: Some(Box::new(warming())),
    };
    assert_eq!(numbers(&inputs), expected);
}

#[test]
fn without_a_deployment_every_number_is_zero_and_without_a_service_nobody_can_connect() {
    let shown = numbers(&StatusInputs { rollout: None, servers: Vec::new(), ..steady() });
    assert_eq!((shown.replicas, shown.ready_replicas, shown.updated_replicas), (0, 0, 0));
    assert_eq!(shown.server_list, Vec::<String>::new());
}

#[test]
fn a_deployment_that_has_yet_to_see_its_own_spec_proves_no_updated_pod() {
    let stale = RolloutProgress { observed: false, ..rollout(3, 3, 3) };
    let shown = first(&StatusInputs { rollout: Some(stale), ..steady() });
    assert_eq!((shown.replicas, shown.ready_replicas, shown.updated_replicas), (3, 3, 0));
    assert_eq!(condition(&shown, "Ready").map(|it| it.status.as_str()), Some("False"));
}

#[test]
fn an_invalid_spec_does_not_hide_the_pods_that_run() {
    let live = RolloutProgress { carries_template: false, ..rollout(3, 3, 2) };
    let blocking_problem = Some(BlockingProblem::InvalidSpec("spec.replicas: too many".into()));
    let shown =
        first(&StatusInputs { rollout: Some(live), blocking_problem, pending: vec!["Service"], ..steady() });
    assert_eq!((shown.replicas, shown.ready_replicas), (3, 2));
    assert_eq!(shown.server_list, ["cache.shop:11211"]);
    assert_eq!(
        condition(&shown, "Available").map(line).as_deref(),
        Some("Available=True Available: 2/3 replicas are ready")
    );
}

#[rstest]
#[case::once(1)]
#[case::twice_as_only_an_edited_crd_lets_it(2)]
fn a_condition_of_somebody_else_stays_as_it_is_behind_ours(#[case] times: usize) {
    let foreign = Condition {
        type_: "example.com/Audited".into(),
        status: "Unknown".into(),
        reason: "Pending".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(crate::at(-500)),
    };
    let previous = MemcachedStatus { conditions: vec![foreign.clone(); times], ..MemcachedStatus::default() };
    assert_eq!(status(&steady(), &previous).conditions[4..], [foreign]);
}
