//! What others do to a child: who replaced pods, who changed what is put back, and who decides about the number of pods.

use jiff::Timestamp;
use kube_core::DynamicObject;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::child_state::ChildState;
use memcached_operator_core::kernel::event::SeenChild;
use memcached_operator_core::kernel::field_managers::OtherManager;
use memcached_operator_core::kernel::object::{ChildKind, ResourceVersion};
use memcached_operator_core::kernel::request::{Changes, ChildWrite, Request, StatusWrite};
use memcached_operator_core::kernel::seen;
use memcached_operator_core::kernel::world::World;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{complete, deployment, live, object, run, scaled_by_others, service, world};

/// The Deployment after somebody set a field of it, as `manager`.
fn changed(spec: &Value, pointer: &str, value: Value, manager: &str) -> SeenChild {
    let (mut raw, path) = (object(ChildKind::Deployment, spec), pointer.trim_start_matches('/'));
    let mut fields = json!({});
    for name in path.rsplit('/') {
        fields = json!({ format!("f:{}", name.replace("~1", "/")): fields });
    }
    let ours = format!("/f:{}", path.replace('/', "/f:"));
    let (map, name) = ours.rsplit_once('/').unwrap();
    let owned = raw.pointer_mut("/metadata/managedFields/0/fieldsV1").unwrap();
    owned.pointer_mut(map).and_then(|map| map.as_object_mut()?.remove(&name.replace("~1", "/")));
    raw["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({
        "manager": manager, "operation": "Update", "time": "2026-11-22T10:00:00Z", "fieldsV1": fields,
    }));
    let names = path.split('/').map(|name| name.replace("~1", "/"));
    *names.fold(&mut raw, |map, name| &mut map[name]) = value;
    raw["metadata"]["resourceVersion"] = json!("8");
    let object: DynamicObject = serde_json::from_value(raw).unwrap();
    complete(seen::child(ChildKind::Deployment, &object).unwrap(), 1)
}

/// A settled cache.
fn settled(spec: &Value) -> World {
    let mut world = world(spec, vec![service(spec), complete(deployment(spec), 1)]);
    store_status(&mut world);
    world
}

/// Stores the status that a pass writes.
fn store_status(world: &mut World) {
    let status = run(world).requests.into_iter().find_map(|request| match request {
        Request::WriteStatus(StatusWrite { status, .. }) => Some(status),
        _ => None,
    });
    world.resources.values_mut().next().unwrap().seen.status = *status.unwrap();
}

/// What the write of the Deployment changes.
fn changes(world: &World) -> Changes {
    let changes = run(world).requests.into_iter().find_map(|request| match request {
        Request::WriteChild(ChildWrite { kind: ChildKind::Deployment, changes, .. }) => Some(changes),
        _ => None,
    });
    changes.unwrap()
}

/// The reason and the message of each Event that a pass sends, and whether it tells of a rollout by others.
fn said(world: &World) -> (Vec<String>, bool) {
    let mut words = Vec::new();
    let mut by_others = false;
    for request in run(world).requests {
        let Request::WriteStatus(StatusWrite { kube_events, rollout_by_others, .. }) = request else {
            continue;
        };
        by_others |= rollout_by_others;
        words.extend(kube_events.into_iter().map(|it| format!("{}: {}", it.reason, it.message)));
    }
    (words, by_others)
}

const ANNOTATION: &str = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";

#[test]
fn pods_that_somebody_else_replaced_are_told_of_once_with_field_and_manager() {
    let spec = json!({});
    let mut world = settled(&spec);
    assert_eq!(said(&world), (vec![], false));
    world
        .see_child(changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout"), Timestamp::UNIX_EPOCH)
        .unwrap();
    let field = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]";
    let words = format!(
        "PodsReplacedByOthers: Somebody else changed the pod template, so pods are replaced \
         (kubectl-rollout at 2026-11-22T10:00:00Z: {field})"
    );
    assert_eq!(said(&world), (vec![words], true));
    store_status(&mut world);
    assert_eq!(said(&world), (vec![], false));
}

/// The fields of its entry, and when it wrote last.
fn written_by(child: &mut SeenChild, manager: &str, time: &str, fields: &[&str]) {
    child.managers.retain(|it| it.name != manager);
    child.managers.push(OtherManager {
        name: manager.to_owned(),
        time: Some(time.parse().unwrap()),
        fields: fields.iter().map(ToString::to_string).collect(),
    });
    child.resource_version = ResourceVersion::from(format!("{}0", child.resource_version));
}

#[test]
fn of_an_entry_that_was_told_of_only_what_came_and_what_went_is_told() {
    let (spec, env) =
        (json!({}), |name: &str| format!("spec.template.spec.containers[name=memcached].env[name={name}]"));
    let mut world = settled(&spec);
    let mut child = changed(&spec, ANNOTATION, json!("now"), "kubectl-set");
    written_by(&mut child, "kubectl-set", "2026-11-22T10:00:00Z", &[&env("A"), &env("B")]);
    world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    store_status(&mut world);
    let told = |world: &mut World, child: &mut SeenChild, value: &str, time: &str, fields: &[&str]| {
        child
            .content
            .edit(|it| it["spec"]["template"]["metadata"]["annotations"]["of-another"] = json!(value));
        written_by(child, "kubectl-set", time, fields);
        world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
        let (words, _) = said(world);
        store_status(world);
        let (_, what) = words[0].split_once("so pods are replaced (").unwrap();
        what.trim_end_matches(')').to_owned()
    };
    let ours_alone =
        told(&mut world, &mut child, "1", "2026-11-22T11:00:00Z", &[&env("A"), &env("B"), &env("C")]);
    assert_eq!(ours_alone, format!("kubectl-set at 2026-11-22T11:00:00Z: {}", env("C")));
    let a_value =
        told(&mut world, &mut child, "2", "2026-11-22T12:00:00Z", &[&env("A"), &env("B"), &env("C")]);
    let all = [env("A"), env("B"), env("C")].join(", ");
    assert_eq!(a_value, format!("kubectl-set at 2026-11-22T12:00:00Z: {all}"));
    let less = told(&mut world, &mut child, "3", "2026-11-22T13:00:00Z", &[&env("B"), &env("C")]);
    assert_eq!(less, format!("no longer there of kubectl-set: {}", env("A")));
}

#[test]
fn a_manager_that_writes_again_and_again_without_new_pods_writes_no_status() {
    let spec = json!({});
    let mut world = settled(&spec);
    let mut child = changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout");
    world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    store_status(&mut world);
    settle(&mut world);
    let field = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]";
    written_by(&mut child, "kubectl-rollout", "2026-11-22T11:00:00Z", &[field, "metadata.labels[a]"]);
    child.content.edit(|it| it["metadata"]["labels"]["a"] = json!("b"));
    world.see_child(child, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(run(&world).requests, []);
}

fn known_deployment(world: &mut World) -> &mut ChildState {
    world.resources.values_mut().next().unwrap().child_mut(ChildKind::Deployment)
}

/// As the pass does that finds nothing to do.
fn settle(world: &mut World) {
    known_deployment(world).forget_template_change();
}

/// We write the Deployment, and this is what comes of it. The watch may tell of that before the answer.
fn written(world: &mut World, mut child: SeenChild, is_heard_before: bool) {
    child.resource_version = ResourceVersion::from(format!("{}0", child.resource_version));
    known_deployment(world).on_request();
    if is_heard_before {
        world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    }
    known_deployment(world).store_from_write(child);
}

fn edited(world: &mut World, spec: &Value) {
    let resource = world.resources.values_mut().next().unwrap();
    resource.seen.generation += 1;
    resource.rendered_hashes = None;
    resource.seen.spec = Ok(serde_json::from_value(spec.clone()).unwrap());
}

#[rstest]
#[case::of_which_the_answer_tells_first(false)]
#[case::of_which_the_watch_tells_first(true)]
fn a_field_that_a_write_of_ours_takes_from_somebody_else_is_no_rollout_by_others(#[case] is_heard: bool) {
    let spec = json!({});
    let mut world = settled(&spec);
    let theirs = changed(&spec, "/spec/template/spec/priorityClassName", json!("theirs"), "kubectl-patch");
    let resource_version = theirs.resource_version.clone();
    world.see_child(theirs, Timestamp::UNIX_EPOCH).unwrap();
    assert!(said(&world).1, "{:?}", said(&world));
    store_status(&mut world);
    settle(&mut world);
    written(&mut world, SeenChild { resource_version, ..complete(deployment(&spec), 1) }, is_heard);
    assert_eq!(said(&world), (vec![], false));
}

#[test]
fn an_edit_of_the_pods_is_no_news_of_who_set_other_fields_of_them_and_wrote_since() {
    let (before, after) = (json!({}), json!({"memcached": {"threads": 2}}));
    let mut world = settled(&before);
    let mut child = changed(&before, ANNOTATION, json!("now"), "kubectl-rollout");
    world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    store_status(&mut world);
    settle(&mut world);
    let field = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]";
    let wrote_again = |child: &mut SeenChild| {
        written_by(child, "kubectl-rollout", "2026-11-22T11:00:00Z", &[field, "metadata.labels[a]"]);
    };
    wrote_again(&mut child);
    world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    edited(&mut world, &after);
    let mut ours = changed(&after, ANNOTATION, json!("now"), "kubectl-rollout");
    ours.resource_version = child.resource_version;
    wrote_again(&mut ours);
    written(&mut world, ours, false);
    assert!(!said(&world).1, "{:?}", said(&world));
}

/// Somebody else replaces pods right before a write of ours. It is told of after that.
#[test]
fn what_somebody_else_changed_before_a_write_of_ours_is_told_of_after_it() {
    let spec = json!({});
    let mut world = settled(&spec);
    let child = changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout");
    world.see_child(child.clone(), Timestamp::UNIX_EPOCH).unwrap();
    written(&mut world, child, false);
    assert!(said(&world).1, "{:?}", said(&world));
}

/// The watch tells of that before the answer comes.
#[test]
fn what_somebody_else_changed_right_after_a_write_of_ours_is_told_of() {
    let spec = json!({});
    let mut world = settled(&spec);
    let version = |it: SeenChild, version: &str| SeenChild { resource_version: version.into(), ..it };
    known_deployment(&mut world).on_request();
    let theirs = changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout");
    world.see_child(version(theirs, "71"), Timestamp::UNIX_EPOCH).unwrap();
    known_deployment(&mut world).store_from_write(version(complete(deployment(&spec), 1), "70"));
    assert!(said(&world).1, "{:?}", said(&world));
}

#[test]
fn what_weakens_the_pods_is_a_warning_that_names_it() {
    let spec = json!({});
    let mut world = settled(&spec);
    world
        .see_child(
            changed(&spec, "/spec/template/spec/hostNetwork", json!(true), "kubectl-patch"),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
    let (words, by_others) = said(&world);
    assert!(
        by_others
            && words[0].ends_with("spec.template.spec.hostNetwork). This weakens the pods: hostNetwork"),
        "{words:?}"
    );
}

#[test]
fn what_weakens_the_pods_is_found_behind_any_number_of_other_fields() {
    let spec = json!({});
    let mut world = settled(&spec);
    let mut child = changed(&spec, "/spec/template/spec/hostNetwork", json!(true), "kubectl-patch");
    let others = (0..100).map(|n| format!("spec.template.metadata.annotations[{n}]"));
    child.managers[0].fields = others.chain(child.managers[0].fields.clone()).collect();
    world.see_child(child, Timestamp::UNIX_EPOCH).unwrap();
    store_status(&mut world);
    let status = &world.resources.values().next().unwrap().seen.status;
    assert_eq!(
        (status.weakened_by_others.as_slice(), status.other_field_managers[0].fields.len()),
        (&["hostNetwork".to_owned()][..], 32)
    );
}

#[test]
fn what_was_there_when_the_operator_started_is_in_the_status_and_is_no_rollout() {
    let spec = json!({});
    let restarted = changed(&spec, ANNOTATION, json!("before"), "kubectl-rollout");
    let mut world = world(&spec, vec![service(&spec), restarted]);
    let (words, by_others) = said(&world);
    assert!(!by_others && words.iter().all(|it| !it.starts_with("PodsReplacedByOthers")), "{words:?}");
    store_status(&mut world);
    let status = &world.resources.values().next().unwrap().seen.status;
    assert_eq!(
        status.other_field_managers.iter().map(|it| it.manager.as_str()).collect::<Vec<_>>(),
        ["kubectl-rollout"]
    );
}

/// Its entry says 10:00.
#[rstest]
#[case::before_the_resource_was_made("2026-11-22T10:00:01Z", false)]
#[case::in_the_second_in_which_it_was_made("2026-11-22T10:00:00Z", true)]
#[case::afterwards("2026-11-22T09:00:00Z", true)]
fn a_first_status_tells_of_who_changed_the_template_since_the_resource_was_made(
    #[case] created: &str,
    #[case] told: bool,
) {
    let spec = json!({});
    let mut world = settled(&spec);
    let seen = &mut world.resources.values_mut().next().unwrap().seen;
    seen.created = Some(created.parse().unwrap());
    seen.status = MemcachedStatus::default();
    world
        .see_child(changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout"), Timestamp::UNIX_EPOCH)
        .unwrap();
    let (words, by_others) = said(&world);
    assert_eq!(
        (by_others, words.iter().any(|it| it.starts_with("PodsReplacedByOthers"))),
        (told, told),
        "{words:?}"
    );
}

/// The resource was made on 2 January, and one entry is from the day before.
#[test]
fn a_first_status_names_only_those_who_changed_the_template_since_the_resource_was_made() {
    let spec = json!({});
    let mut world = world(&spec, vec![service(&spec), complete(deployment(&spec), 1)]);
    let mut child = changed(&spec, ANNOTATION, json!("now"), "kubectl-rollout");
    let env = "spec.template.spec.containers[name=memcached].env[name=A]";
    written_by(&mut child, "kubectl-set", "2026-01-01T00:00:00Z", &[env]);
    world.see_child(child, Timestamp::UNIX_EPOCH).unwrap();
    let (words, by_others) = said(&world);
    let told: Vec<_> = words.into_iter().filter(|it| it.starts_with("PodsReplacedByOthers")).collect();
    let field = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]";
    let expected = format!(
        "PodsReplacedByOthers: Somebody else changed the pod template, so pods are replaced \
         (kubectl-rollout at 2026-11-22T10:00:00Z: {field})"
    );
    assert_eq!((told, by_others), (vec![expected], true));
    store_status(&mut world);
    let status = &world.resources.values().next().unwrap().seen.status;
    assert_eq!(
        status.other_field_managers.iter().map(|it| it.manager.as_str()).collect::<Vec<_>>(),
        ["kubectl-rollout", "kubectl-set"]
    );
}

#[test]
fn what_is_put_back_names_the_field_and_who_changed_it() {
    let spec = json!({});
    let mut world = settled(&spec);
    world
        .see_child(changed(&spec, "/spec/replicas", json!(5), "kubectl-scale"), Timestamp::UNIX_EPOCH)
        .unwrap();
    let changes = changes(&world);
    let managers: Vec<_> = changes.managers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        (changes.fields.as_deref(), managers),
        (Some(&["spec.replicas".to_owned()][..]), vec!["kubectl-scale"])
    );
    assert!(changes.is_repair);
}

#[test]
fn an_edit_of_the_users_is_no_repair_and_is_told_with_its_values() {
    let spec = json!({"replicas": 1, "memcached": {"maxMemoryMB": 64}});
    let mut world = settled(&spec);
    let resource = world.resources.values_mut().next().unwrap();
    let before = resource.seen.spec.clone().unwrap();
    resource.seen.generation = 2;
    resource.seen.resource_version = ResourceVersion::from("10");
    resource.spec_before_edit = Some(Box::new(before));
    resource.rendered_hashes = None;
    resource.seen.spec =
        Ok(serde_json::from_value(json!({"replicas": 2, "memcached": {"maxMemoryMB": 96}})).unwrap());
    let changes = changes(&world);
    assert_eq!(changes.edits, ["memcached.maxMemoryMB 64 -> 96", "replicas 1 -> 2"]);
    assert!(!changes.is_repair && changes.managers.is_empty(), "{changes:?}");
}

#[test]
fn the_number_of_pods_in_the_spec_of_an_autoscaled_cache_is_not_used_and_an_event_says_who_decides() {
    let spec = json!({
        "replicas": 1,
        "autoscaling": {"enabled": true, "minReplicas": 1, "maxReplicas": 3},
        "resources": {"requests": {"cpu": "100m"}},
    });
    let mut world = settled_autoscaled(&spec);
    let resource = world.resources.values_mut().next().unwrap();
    let before = resource.seen.spec.clone().unwrap();
    resource.spec_before_edit = Some(Box::new(before.clone()));
    resource.seen.generation = 2;
    let mut after = before;
    after.replicas = Some(5);
    resource.seen.spec = Ok(after);
    let (words, _) = said(&world);
    let expected = "ReplicasNotUsed: spec.replicas is 5 now, and changes nothing: the HorizontalPodAutoscaler decides about the \
                    number of pods; edit spec.autoscaling.minReplicas (1) or maxReplicas (3)";
    assert_eq!(words, [expected]);
    store_status(&mut world);
    assert_eq!(said(&world), (vec![], false));
}

fn settled_autoscaled(spec: &Value) -> World {
    let autoscaler = live(ChildKind::HorizontalPodAutoscaler, spec);
    let mut world = world(spec, vec![service(spec), complete(scaled_by_others(spec), 1), autoscaler]);
    store_status(&mut world);
    world
}
