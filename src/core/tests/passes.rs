//! What a pass sends in a given world: a resource and live children in, requests out.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its fixture is not as it should be"
)]

mod fixture;

use fixture::Fixture;
use jiff::Timestamp;
use json_patch::{AddOperation, PatchOperation};
use kube_core::DynamicObject;
use memcached_operator_core::kernel::backoff::{Attempt, Backoff};
use memcached_operator_core::kernel::desired::Revision;
use memcached_operator_core::kernel::event::{SecretContent, SeenChild, SeenRollout, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Uid};
use memcached_operator_core::kernel::pass::{self, Pass, View};
use memcached_operator_core::kernel::pending_request::{ChildWrite, PlannedRequest, Write};
use memcached_operator_core::kernel::rollout_budget::PermitState;
use memcached_operator_core::kernel::seen;
use memcached_operator_core::kernel::world::World;
use memcached_operator_core::kernel::world::secret::Presence;
use rstest::rstest;
use serde_json::{Value, json};

const NAME: &str = "cache";

/// A child as it is after an apply of what this spec wants.
fn live(kind: ChildKind, spec: &Value) -> SeenChild {
    with_others_field(kind, spec, "")
}

/// The same, but that this field of it is somebody else's.
fn with_others_field(kind: ChildKind, spec: &Value, field: &str) -> SeenChild {
    let mut object = Fixture::new(NAME, spec).child(kind);
    let mut fields = owned(&object);
    if let Some((map, name)) = field.rsplit_once('/') {
        fields.pointer_mut(map).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    }
    object["metadata"]["uid"] = json!(format!("uid-{}", kind.name()));
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["managedFields"] = json!([
        {"manager": "memcached-operator", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields},
    ]);
    seen::child(kind, &serde_json::from_value::<DynamicObject>(object).unwrap()).unwrap()
}

/// A record of ownership of all of this; a list counts as a whole.
fn owned(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (format!("f:{name}"), owned(value))).collect()
}

/// The Deployment of this spec, whose number of pods somebody else decides.
fn scaled_by_others(spec: &Value) -> SeenChild {
    with_others_field(ChildKind::Deployment, spec, "/f:spec/f:replicas")
}

/// A world with a resource of this spec and these children.
fn world(spec: &Value, children: Vec<SeenChild>) -> World {
    let Fixture { key, uid, .. } = Fixture::new(NAME, spec);
    let resource = json!({
        "metadata": {
            "namespace": key.namespace, "name": key.name, "uid": uid.0, "resourceVersion": "9", "generation": 2,
            "creationTimestamp": "2026-01-02T00:00:00Z",
        },
        "spec": spec,
    });
    let mut world = World::default();
    world.see_resource(seen::resource(&serde_json::from_value(resource).unwrap()).unwrap());
    for child in children {
        world.see_child(child).unwrap();
    }
    world
}

fn run(world: &World) -> Pass {
    let key = Key { namespace: "default".to_owned(), name: NAME.to_owned() };
    pass::run(&View { world, resource: &world.resources[&key], now: Timestamp::UNIX_EPOCH })
}

/// What is sent about the children: `apply Deployment`.
fn sent(world: &World) -> Vec<String> {
    let about = |request: &PlannedRequest| match request {
        PlannedRequest::WriteChild(ChildWrite { kind, write, .. }) => {
            let verb = match write {
                Write::Create { .. } => "create",
                Write::Apply { .. } => "apply",
                Write::Patch { .. } => "patch",
                Write::Delete { .. } => "delete",
            };
            Some(format!("{verb} {}", kind.name()))
        }
        _ => None,
    };
    run(world).requests.iter().filter_map(about).collect()
}

fn service(spec: &Value) -> SeenChild {
    live(ChildKind::Service, spec)
}

fn deployment(spec: &Value) -> SeenChild {
    live(ChildKind::Deployment, spec)
}

#[test]
fn a_number_of_pods_that_is_right_by_chance_becomes_ours() {
    let spec = json!({"replicas": 2});
    let settled = world(&spec, vec![service(&spec), deployment(&spec)]);
    assert_eq!(sent(&settled), Vec::<String>::new());
    let left_by_an_autoscaler = world(&spec, vec![service(&spec), scaled_by_others(&spec)]);
    assert_eq!(sent(&left_by_an_autoscaler), ["apply Deployment"]);
}

#[test]
fn pods_do_not_wait_for_a_policy_that_is_to_go() {
    let before = json!({"security": {"networkPolicy": {"enabled": true}}});
    let after = json!({"memcached": {"threads": 2}});
    let policy = live(ChildKind::NetworkPolicy, &before);
    let world = world(&after, vec![policy, service(&before), deployment(&before)]);
    assert_eq!(sent(&world), ["delete NetworkPolicy", "apply Deployment"]);
}

#[test]
fn an_autoscaler_that_cannot_be_taken_away_keeps_the_number_of_pods_and_the_status_says_so() {
    let scaled = json!({
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4},
        "resources": {"requests": {"cpu": "1"}},
    });
    let off = json!({"replicas": 1, "resources": {"requests": {"cpu": "1"}}});
    let autoscaler = live(ChildKind::HorizontalPodAutoscaler, &scaled);
    let mut world = world(&off, vec![service(&off), scaled_by_others(&scaled), autoscaler]);
    let message = "no HorizontalPodAutoscalers for the operator".to_owned();
    let why = Unavailable::Refused(Failure { category: Category::Forbidden, message });
    world.lose_kind(ChildKind::HorizontalPodAutoscaler, Scope::All, why);
    assert_eq!(sent(&world), Vec::<String>::new());
    let statuses = run(&world).requests;
    let reasons = statuses.iter().flat_map(|request| match request {
        PlannedRequest::WriteStatus { status, .. } => status.conditions.as_slice(),
        _ => &[],
    });
    let ready: Vec<_> = reasons.filter(|it| it.type_ == "Ready").map(|it| it.reason.as_str()).collect();
    assert_eq!(ready, ["Forbidden"]);
}

fn autoscaled() -> Value {
    json!({
        "replicas": 3,
        "autoscaling": {"enabled": true, "minReplicas": 5, "maxReplicas": 8},
        "resources": {"requests": {"cpu": "1"}},
    })
}

/// A Deployment all of whose pods serve.
fn complete(child: SeenChild, pods: i32) -> SeenChild {
    let rollout = SeenRollout {
        observed_generation: i64::MAX,
        replicas: pods,
        ready: pods,
        updated: pods,
        available: pods,
        ..SeenRollout::default()
    };
    SeenChild { rollout: Some(rollout), ..child }
}

/// Status and reason of Ready in the status that a pass writes.
fn ready(world: &World) -> Option<String> {
    run(world).requests.iter().find_map(|request| {
        match request {
            PlannedRequest::WriteStatus { status, .. } => {
                status.conditions.iter().find(|it| it.type_ == "Ready")
            }
            _ => None,
        }
        .map(|it| format!("{} {}", it.status, it.reason))
    })
}

#[test]
fn a_resource_is_not_ready_before_its_autoscaler_has_made_the_fewest_pods() {
    let spec = autoscaled();
    let children = |pods| {
        let deployment = complete(scaled_by_others(&with_replicas(&spec, pods)), pods);
        vec![service(&spec), deployment, live(ChildKind::HorizontalPodAutoscaler, &spec)]
    };
    assert_eq!(ready(&world(&spec, children(3))).as_deref(), Some("False MemcachedNotReady"));
    assert_eq!(ready(&world(&spec, children(5))).as_deref(), Some("True MemcachedReady"));
}

fn with_replicas(spec: &Value, replicas: i32) -> Value {
    let mut spec = spec.clone();
    spec["replicas"] = json!(replicas);
    spec
}

#[test]
fn an_autoscaler_that_cannot_be_seen_may_be_there_and_keeps_the_number_that_it_set() {
    let off = json!({"replicas": 1, "resources": {"requests": {"cpu": "1"}}});
    let scaled = with_replicas(&off, 20);
    let children = vec![service(&off), scaled_by_others(&scaled)];
    let mut unseen = world(&off, children.clone());
    let message = "may not list horizontalpodautoscalers".to_owned();
    let why = Unavailable::Refused(Failure { category: Category::Forbidden, message });
    unseen.lose_kind(ChildKind::HorizontalPodAutoscaler, Scope::All, why);
    assert_eq!(sent(&unseen), Vec::<String>::new());
    assert_eq!(sent(&world(&off, children)), ["apply Deployment"], "nobody else decides");
}

#[test]
fn a_look_that_failed_waits_though_something_else_is_wanted_now() {
    let spec = json!({});
    let mut world = world(&spec, vec![service(&spec), deployment(&spec)]);
    let failure = Failure { category: Category::Transient, message: "connection refused".to_owned() };
    let slot = world.resources.values_mut().next().unwrap().slot_mut(ChildKind::Service);
    slot.look = true;
    assert_eq!(looks(&world), 1);
    let sent = Attempt { body: "what was wanted before".to_owned(), ..Attempt::default() };
    let at = (&Uid("uid".to_owned()), Timestamp::UNIX_EPOCH);
    let slot = world.resources.values_mut().next().unwrap().slot_mut(ChildKind::Service);
    slot.backoff = Some(Backoff::from_failure(None, failure, sent, at));
    assert_eq!(looks(&world), 0);
}

fn looks(world: &World) -> usize {
    let is_read =
        |it: &&PlannedRequest| matches!(it, PlannedRequest::ReadSecret(_) | PlannedRequest::ReadChild { .. });
    run(world).requests.iter().filter(is_read).count()
}

#[test]
fn what_two_resources_read_of_one_secret_is_kept_together() {
    let read = |key: &str| SecretContent {
        uid: Uid("uid".to_owned()),
        resource_version: ResourceVersion("7".to_owned()),
        requested: vec![key.to_owned()],
        digests: [(key.to_owned(), format!("digest of {key}"))].into(),
        without_newline: [key.to_owned()].into(),
    };
    let mut both = read("password-file");
    both.unite(read("tls.crt"));
    let keys = ["password-file", "tls.crt"];
    assert_eq!(both.requested, keys);
    assert_eq!(both.digests.keys().collect::<Vec<_>>(), keys);
    assert_eq!(both.without_newline.iter().collect::<Vec<_>>(), keys);
}

/// Reasons of the Events that go with what a pass writes.
fn said(world: &World) -> Vec<String> {
    let kube_events = |request: PlannedRequest| match request {
        PlannedRequest::WriteChild(write) => write.kube_events,
        _ => Vec::new(),
    };
    run(world).requests.into_iter().flat_map(kube_events).map(|kube_event| kube_event.reason).collect()
}

#[test]
fn who_makes_pods_is_warned_of_a_password_file_without_an_end_and_of_a_tight_limit() {
    let spec = json!({
        "resources": {"limits": {"memory": "100Mi"}},
        "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}}},
    });
    let mut world = world(&spec, Vec::new());
    let (uid, resource_version) = (Uid("s".to_owned()), ResourceVersion("7".to_owned()));
    let secret = world.secrets.values_mut().next().unwrap();
    secret.presence = Presence::Present(uid.clone(), resource_version.clone());
    secret.content = Some(SecretContent {
        uid,
        resource_version,
        requested: vec!["password-file".to_owned()],
        digests: [("password-file".to_owned(), "digest".to_owned())].into(),
        without_newline: ["password-file".to_owned()].into(),
    });
    assert_eq!(said(&world), ["PasswordFileNotEnded", "MemoryLimitTight"]);
    assert_eq!(sent(&world), ["create Service", "create Deployment"]);
}

/// What becomes of a Deployment whose pods serve `before`, at this generation of a resource that asks for `after` and has
/// this status: the cause of the rollout that begins, or of the turn that is taken first.
fn fate([before, after]: [&Value; 2], generation: i64, status: &Value) -> String {
    fate_of(complete(deployment(before), 1), after, generation, status)
}

fn fate_of(deployment: SeenChild, after: &Value, generation: i64, status: &Value) -> String {
    let mut world = world(after, vec![service(after), deployment]);
    let seen = &mut world.resources.values_mut().next().unwrap().seen;
    (seen.generation, seen.status) = (generation, serde_json::from_value(status.clone()).unwrap());
    let pass = run(&world);
    let cause = pass.requests.iter().find_map(|request| match request {
        PlannedRequest::WriteChild(it) => it.write.replaces().and_then(|it| it.cause),
        _ => None,
    });
    match (cause, pass.permit_state) {
        (Some(cause), _) => cause.label().to_owned(),
        (None, Some(PermitState::Granted(turn))) => format!("a turn for {:?}", turn.cause),
        (None, permit_state) => {
            format!(
                "none, {}",
                if permit_state == Some(PermitState::NotNeeded) { "outside" } else { "in turn" }
            )
        }
    }
}

const TURN: &str = "a turn for Definition";
const NOTHING: &str = "none, outside";

/// Two specs that ask for other pods.
fn small_and_large() -> [Value; 2] {
    [json!({}), json!({"memcached": {"maxMemoryMB": 128}})]
}

#[rstest]
#[case::an_edit(4, json!({"observedGeneration": 3, "reconciledGeneration": 3}), "spec")]
#[case::several_while_nobody_looked(9, json!({"observedGeneration": 3, "reconciledGeneration": 3}), "spec")]
#[case::of_one_that_is_new(2, json!({"observedGeneration": 1, "templateGeneration": 1}), "spec")]
#[case::of_one_that_nobody_observed(1, json!({}), "spec")]
#[case::of_the_go_operators(2, json!({"observedGeneration": 2}), "spec")]
#[case::of_one_that_stalled_before_it_was_in_place(
    4, json!({"observedGeneration": 4, "reconciledGeneration": 4, "templateGeneration": 3}), "spec"
)]
#[case::of_one_that_never_was_in_place(
    1, json!({"observedGeneration": 1, "reconciledGeneration": 1, "templateGeneration": 0}), "spec"
)]
#[case::of_one_restored_from_a_backup(
    2, json!({"observedGeneration": 9, "reconciledGeneration": 9, "templateGeneration": 8}), "spec"
)]
#[case::no_edit(4, json!({"observedGeneration": 4, "reconciledGeneration": 4}), TURN)]
#[case::no_edit_while_the_last_one_rolls(
    4, json!({"observedGeneration": 4, "reconciledGeneration": 3, "templateGeneration": 4}), TURN
)]
#[case::no_edit_and_a_turn_on_record(
    4,
    json!({"observedGeneration": 4, "reconciledGeneration": 4, "budgetedRollout": "Secret"}),
    "definition"
)]
fn only_a_new_generation_announces_another_template(
    #[case] generation: i64,
    #[case] status: Value,
    #[case] expected: &str,
) {
    let [small, large] = small_and_large();
    // A definition drops the field, or begins to set it.
    for specs in [[&large, &small], [&small, &large]] {
        assert_eq!(fate(specs, generation, &status), expected);
    }
    assert_eq!(fate([&small, &small], generation, &status), NOTHING, "what was edited back");
}

#[test]
fn what_somebody_else_or_an_annotation_asks_for_is_called_by_its_own_name() {
    let [small, large] = small_and_large();
    let reached = json!({"observedGeneration": 4, "reconciledGeneration": 4});
    let mut unsigned = complete(deployment(&large), 1);
    unsigned.content["metadata"]["annotations"] = json!(null);
    assert_eq!(fate_of(unsigned, &small, 4, &reached), "drift");
    let mut triggered = complete(deployment(&large), 1);
    triggered.content["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/restart-trigger"] =
        json!("1");
    assert_eq!(fate_of(triggered, &small, 4, &reached), "restart_trigger");
    let nothing_serves = complete(deployment(&large), 0);
    assert_eq!(fate_of(nothing_serves, &small, 4, &reached), "definition", "nobody waits for a turn there");
}

/// This release is older than the one that rendered the pods: it does not know a field of the spec.
#[test]
fn a_downgrade_takes_turns_for_caches_that_use_a_field_which_only_the_later_release_knows() {
    let spec = json!({"memcached": {"threads": 2}});
    let reached = json!({"observedGeneration": 4, "reconciledGeneration": 4});
    for revision in [Revision::NEWEST.0, Revision::NEWEST.0 + 1] {
        let mut rendered_later = complete(deployment(&spec), 1);
        let annotations = &mut rendered_later.content["metadata"]["annotations"];
        annotations["memcached.c5c3.io/template-revision"] = json!(revision.to_string());
        annotations["memcached.c5c3.io/template-hash"] = json!("of an intent with that field");
        rendered_later.content["spec"]["template"]["spec"]["containers"][0]["args"][7] = json!("--later");
        let later = |generation| fate_of(rendered_later.clone(), &spec, generation, &reached);
        assert_eq!((later(4).as_str(), later(5).as_str()), (TURN, "spec"));
    }
}

/// The same, without its owner: `kubectl delete --cascade=orphan` takes the reference and who wrote it.
fn orphaned(child: SeenChild, other_owners: &Value) -> SeenChild {
    let created = "2026-01-01T00:00:00Z".parse().ok();
    let mut child = SeenChild { controller: None, created, ..child };
    child.content["metadata"]["ownerReferences"] = other_owners.clone();
    let fields = child.owned.as_mut().unwrap()["f:metadata"].as_object_mut().unwrap();
    fields.remove("f:ownerReferences").unwrap();
    child
}

/// A Service by another hand, with our labels.
fn copied(spec: &Value) -> SeenChild {
    SeenChild { entry: None, owned: None, ..orphaned(service(spec), &Value::Null) }
}

#[test]
fn orphans_get_their_owner_back_and_their_pods_stay() {
    let spec = json!({"replicas": 2});
    let left = [service(&spec), deployment(&spec)].map(|child| orphaned(child, &Value::Null));
    let world = world(&spec, left.to_vec());
    assert_eq!(sent(&world), ["apply Service", "apply Deployment"]);
    for request in run(&world).requests {
        let PlannedRequest::WriteChild(ChildWrite {
            kind,
            write: Write::Apply { uid, resource_version, body, replaces },
            ..
        }) = request
        else {
            panic!("{request:?}");
        };
        assert_eq!((uid.0, resource_version.0.as_str()), (format!("uid-{}", kind.name()), "7"));
        let cause = replaces.and_then(|it| it.cause);
        assert_eq!((cause, body["metadata"]["ownerReferences"].as_array().unwrap().len()), (None, 1));
    }
}

#[test]
fn an_orphan_that_is_not_asked_for_is_taken_back_before_it_is_deleted() {
    let spec = json!({"replicas": 1});
    let guarded = json!({"replicas": 1, "security": {"networkPolicy": {"enabled": true}}});
    let other = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u"}]);
    for (owners, path) in [(Value::Null, "/metadata/ownerReferences"), (other, "/metadata/ownerReferences/-")]
    {
        let policy = orphaned(live(ChildKind::NetworkPolicy, &guarded), &owners);
        let mut world = world(&spec, vec![service(&spec), deployment(&spec), policy.clone()]);
        assert_eq!(sent(&world), ["patch NetworkPolicy"]);
        let requests = run(&world).requests;
        let [
            PlannedRequest::WriteChild(ChildWrite {
                write: Write::Patch { resource_version, edits, .. },
                ..
            }),
        ] = &requests[..]
        else {
            panic!("{requests:?}");
        };
        assert_eq!(resource_version.0, "7");
        let [PatchOperation::Add(AddOperation { path: at, value })] = &edits[..] else { panic!("{edits:?}") };
        assert_eq!(at.as_str(), path);
        assert_eq!(
            value.pointer("/0/uid").or(value.get("uid")),
            Some(&json!(Fixture::new(NAME, &spec).uid.0))
        );
        let controlled = SeenChild {
            resource_version: ResourceVersion("8".to_owned()),
            ..live(ChildKind::NetworkPolicy, &guarded)
        };
        world.see_child(controlled);
        assert_eq!(sent(&world), ["delete NetworkPolicy"]);
    }
}

#[test]
fn what_only_looks_like_an_orphan_stays_somebody_elses() {
    let spec = json!({"replicas": 1});
    let mut of_another = orphaned(service(&spec), &Value::Null);
    of_another.content["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("another");
    // The resource itself made it: it may be on its way out, and take it along.
    let created = "2026-01-02T00:00:00Z".parse().ok();
    let its_own = SeenChild { created, ..orphaned(service(&spec), &Value::Null) };
    for foreign in [copied(&spec), of_another, its_own] {
        let world = world(&spec, vec![foreign, deployment(&spec)]);
        assert_eq!(sent(&world), Vec::<String>::new());
        assert_eq!(ready(&world).as_deref(), Some("False NameConflict"));
    }
}

#[test]
fn a_paused_resource_leaves_its_orphans_until_it_goes_on() {
    let spec = json!({"replicas": 1, "paused": true});
    let left = [service(&spec), deployment(&spec)].map(|child| orphaned(child, &Value::Null));
    assert_eq!(sent(&world(&spec, left.to_vec())), Vec::<String>::new());
}
