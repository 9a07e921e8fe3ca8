//! Properties of the children: what is true of each, what never changes, what does change.

use std::collections::BTreeMap;

use memcached_operator_core::api::spec::{Monitoring, Rotation, Validated, Workload};
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::desired::network_policy::network_policy;
use memcached_operator_core::kernel::desired::secrets::{MountedKey, mounted, secret_hash};
use memcached_operator_core::kernel::desired::service::service;
use memcached_operator_core::kernel::desired::workload::{Rendered, workload};
use memcached_operator_core::kernel::desired::{
    DefaultImages, Intent, LiveTemplate, Revision, child, children, pod,
};
use memcached_operator_core::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::object::ChildKind;
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::generate::{fixture, name, validated};

/// Every child of it.
fn bodies(fixture: &Fixture) -> Vec<Value> {
    children(&fixture.intent(), None).bodies.into_values().collect()
}

/// Its workload where nothing is live yet.
fn rendered(fixture: &Fixture) -> Rendered {
    workload(&fixture.intent(), None)
}

fn template(fixture: &Fixture) -> Value {
    json!(pod::newest_template(&fixture.intent()))
}

fn labels(fixture: &Fixture) -> Value {
    json!({
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": fixture.key.name,
        "app.kubernetes.io/managed-by": "memcached-operator",
    })
}

/// The labels of the pods: those of a StatefulSet have one more.
fn labels_of_pods(fixture: &Fixture) -> Value {
    let mut labels = labels(fixture);
    if fixture.spec.workload == Workload::StatefulSet {
        labels["memcached.c5c3.io/workload"] = json!("StatefulSet");
    }
    labels
}

/// Takes the label of the pods of a StatefulSet away, wherever it stands: selectors of pods name it too.
fn without_workload_label(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_workload_label),
        Value::Object(fields) => {
            fields.remove("memcached.c5c3.io/workload");
            fields.values_mut().for_each(without_workload_label);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether every one of `fields` has the same value in `map`.
fn holds(map: &Value, fields: &Value) -> bool {
    fields.as_object().expect("a map").iter().all(|(name, value)| map.get(name) == Some(value))
}

/// Whether a list, map or null without content is anywhere in `value`.
fn has_nothing_somewhere(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() || items.iter().any(has_nothing_somewhere),
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_nothing_somewhere),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A resource without what goes into children as the user wrote it, where emptiness may mean something.
fn without_verbatim(fixture: &Fixture) -> Fixture {
    let mut fixture = fixture.clone();
    let spec = &mut fixture.spec;
    for constraint in &mut spec.high_availability.spread {
        constraint.label_selector = None;
    }
    spec.security.pod_context = None;
    spec.security.container_context = None;
    if let Some(sources) = &mut spec.security.network_policy {
        sources.clients.clear();
        sources.metrics.clear();
    }
    if let Some(autoscaling) = &mut spec.autoscaling {
        autoscaling.behavior.scale_down.get_or_insert_default().stabilization_window_seconds = Some(1);
    }
    spec.pod.affinity = None;
    fixture
}

/// Takes one field from another resource.
type Take = fn(&mut Fixture, &Fixture);

/// What the user may say about the pods.
const REACHES_THE_PODS: [Take; 27] = [
    |to, from| to.spec.image.clone_from(&from.spec.image),
    |to, from| to.spec.resources.clone_from(&from.spec.resources),
    |to, from| to.spec.memcached.max_memory_mb = from.spec.memcached.max_memory_mb,
    |to, from| to.spec.memcached.max_connections = from.spec.memcached.max_connections,
    |to, from| to.spec.memcached.threads = from.spec.memcached.threads,
    |to, from| to.spec.memcached.max_item_size.clone_from(&from.spec.memcached.max_item_size),
    |to, from| to.spec.memcached.verbosity = from.spec.memcached.verbosity,
    |to, from| to.spec.memcached.extra_args.clone_from(&from.spec.memcached.extra_args),
    |to, from| to.spec.high_availability.anti_affinity = from.spec.high_availability.anti_affinity,
    |to, from| to.spec.high_availability.spread.clone_from(&from.spec.high_availability.spread),
    |to, from| to.spec.high_availability.graceful_shutdown = from.spec.high_availability.graceful_shutdown,
    |to, from| {
        let monitor = to.spec.monitoring.take().and_then(|monitoring| monitoring.service_monitor);
        let exporter = from.spec.monitoring.clone();
        to.spec.monitoring = exporter.map(|exporter| Monitoring { service_monitor: monitor, ..exporter });
    },
    |to, from| to.spec.security.pod_context.clone_from(&from.spec.security.pod_context),
    |to, from| to.spec.security.container_context.clone_from(&from.spec.security.container_context),
    |to, from| to.spec.security.sasl_secret.clone_from(&from.spec.security.sasl_secret),
    |to, from| to.spec.security.tls.clone_from(&from.spec.security.tls),
    |to, from| to.spec.pod.labels.clone_from(&from.spec.pod.labels),
    |to, from| to.spec.pod.annotations.clone_from(&from.spec.pod.annotations),
    |to, from| to.spec.pod.node_selector.clone_from(&from.spec.pod.node_selector),
    |to, from| to.spec.pod.tolerations.clone_from(&from.spec.pod.tolerations),
    |to, from| to.spec.pod.affinity.clone_from(&from.spec.pod.affinity),
    |to, from| to.spec.pod.priority_class_name.clone_from(&from.spec.pod.priority_class_name),
    |to, from| to.spec.pod.image_pull_secrets.clone_from(&from.spec.pod.image_pull_secrets),
    |to, from| to.spec.pod.image_pull_policy.clone_from(&from.spec.pod.image_pull_policy),
    |to, from| to.spec.pod.service_account_name.clone_from(&from.spec.pod.service_account_name),
    |to, from| to.secret_hash.clone_from(&from.secret_hash),
    |to, from| to.restart_trigger.clone_from(&from.restart_trigger),
];

/// What the user may say about the pods that no hash tells: the revision does, so that an operator of before the field, or
/// with a definition of before it, finds its own hash.
const TOLD_BY_THE_REVISION: Take = |to, from| to.spec.security.rotation = from.spec.security.rotation;

/// Another kind runs other pods, and carries the hash of its own.
const TOLD_BY_THE_KIND: Take = |to, from| to.spec.workload = from.spec.workload;

/// What the user may say besides.
const REACHES_NO_POD: [Take; 8] = [
    |to, from| to.spec.replicas = from.spec.replicas,
    |to, from| to.spec.paused = from.spec.paused,
    |to, from| to.spec.high_availability.disruption.clone_from(&from.spec.high_availability.disruption),
    |to, from| {
        if let (Some(to), Some(from)) = (&mut to.spec.monitoring, &from.spec.monitoring) {
            to.service_monitor.clone_from(&from.service_monitor);
        }
    },
    |to, from| to.spec.security.network_policy.clone_from(&from.spec.security.network_policy),
    |to, from| to.spec.autoscaling.clone_from(&from.spec.autoscaling),
    |to, from| to.spec.service_annotations.clone_from(&from.spec.service_annotations),
    |to, from| to.spec.rollout = from.spec.rollout,
];

/// The same resource with each amount in one spelling: of those that are generated, two say the same.
fn spelled_alike(fixture: &Fixture) -> Fixture {
    let mut fixture = fixture.clone();
    let of_exporter = fixture.spec.monitoring.as_mut().and_then(|it| it.exporter_resources.as_mut());
    for resources in fixture.spec.resources.as_mut().into_iter().chain(of_exporter) {
        let amounts = [&mut resources.limits, &mut resources.requests].into_iter().flatten();
        amounts
            .flat_map(BTreeMap::values_mut)
            .filter(|it| it.0 == "1024Mi")
            .for_each(|it| it.0 = "1Gi".to_owned());
    }
    fixture
}

/// A resource whose pods mount Secrets.
fn with_secrets() -> impl Strategy<Value = Fixture> {
    fixture().prop_filter("its pods mount no Secret", |it| !mounted(&it.spec).is_empty())
}

proptest! {
    #[test]
    fn every_child_says_what_it_is_whose_it_is_and_how_it_is_labelled(fixture in fixture()) {
        for body in bodies(&fixture) {
            let kind = ["Deployment", "StatefulSet", "Service", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget",
                "HorizontalPodAutoscaler", "ServiceMonitor"].into_iter().find(|kind| body["kind"] == *kind).expect("a kind of child");
            let version = match kind {
                "Deployment" | "StatefulSet" => "apps/v1",
                "Service" | "ConfigMap" => "v1",
                "NetworkPolicy" => "networking.k8s.io/v1",
                "PodDisruptionBudget" => "policy/v1",
                "HorizontalPodAutoscaler" => "autoscaling/v2",
                _ => "monitoring.coreos.com/v1",
            };
            prop_assert_eq!(&body["apiVersion"], version);
            let suffix = if kind == "ConfigMap" { "-servers" } else { "" };
            prop_assert_eq!(&body["metadata"]["name"], &format!("{}{suffix}", fixture.key.name));
            prop_assert_eq!(&body["metadata"]["namespace"], &fixture.key.namespace);
            prop_assert!(holds(&body["metadata"]["labels"], &labels(&fixture)), "{}", body);
            let owner = json!([{
                "apiVersion": "memcached.c5c3.io/v1alpha1",
                "kind": "Memcached",
                "name": fixture.key.name,
                "uid": fixture.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }]);
            prop_assert_eq!(&body["metadata"]["ownerReferences"], &owner);
        }
    }

    #[test]
    fn no_child_has_an_empty_list_or_map_or_a_null_of_our_making(fixture in fixture()) {
        for body in bodies(&without_verbatim(&fixture)) {
            prop_assert!(!has_nothing_somewhere(&body), "{body}");
        }
    }

    #[test]
    fn the_same_intent_gives_the_same_children(fixture in fixture()) {
        prop_assert_eq!(bodies(&fixture), bodies(&fixture.clone()));
    }

    #[test]
    fn a_child_that_is_rendered_alone_is_the_one_among_all(fixture in fixture()) {
        let intent = fixture.intent();
        let live = LiveTemplate::from_workload(&rendered(&fixture).body, None);
        for live in [None, live.as_ref()] {
            let all = children(&intent, live);
            for kind in ChildKind::ALL {
                let alone = child(&intent, live, kind);
                prop_assert_eq!(alone.as_ref(), all.body(kind), "{:?}", kind);
            }
        }
    }

    #[test]
    fn selectors_depend_on_the_name_and_the_workload_alone_and_find_the_pods(fixture in fixture(), spec in validated()) {
        let selector = |body: &Value| match body["kind"].as_str() {
            Some("Service") => Some(body["spec"]["selector"].clone()),
            Some("NetworkPolicy") => Some(body["spec"]["podSelector"]["matchLabels"].clone()),
            Some("HorizontalPodAutoscaler" | "ConfigMap") => None,
            _ => Some(body["spec"]["selector"]["matchLabels"].clone()),
        };
        let edited = Fixture { spec, ..fixture.clone() };
        for fixture in [&fixture, &edited] {
            for body in bodies(fixture) {
                let Some(found) = selector(&body) else { continue };
                let of_one_workload = ["Deployment", "StatefulSet", "PodDisruptionBudget"].iter().any(|kind| body["kind"] == *kind);
                let expected = if of_one_workload { labels_of_pods(fixture) } else { labels(fixture) };
                prop_assert_eq!(&found, &expected, "{}", body["kind"]);
            }
            prop_assert!(holds(&template(fixture)["metadata"]["labels"], &labels_of_pods(fixture)));
        }
    }

    #[test]
    fn every_port_that_is_offered_is_one_of_a_container_and_let_in(fixture in fixture()) {
        let template = template(&fixture);
        let containers = template["spec"]["containers"].as_array().expect("containers");
        // The agent's is the operator's business where nobody scrapes it.
        let is_for_others = |it: &&Value| it["name"] != "agent" || fixture.spec.monitoring.is_some();
        let declared: Vec<_> = containers.iter().filter(is_for_others).flat_map(|it| it["ports"].as_array().expect("ports"))
            .map(|port| (port["name"].clone(), port["containerPort"].clone(), port["protocol"].clone())).collect();
        let service = service(&fixture.intent());
        let offered: Vec<_> = service["spec"]["ports"].as_array().expect("ports").iter()
            .map(|port| (port["targetPort"].clone(), port["port"].clone(), port["protocol"].clone())).collect();
        prop_assert_eq!(&offered, &declared);

        if let Some(policy) = network_policy(&fixture.intent()) {
            let rules = policy["spec"]["ingress"].as_array().expect("rules");
            let open: Vec<_> = rules.iter().flat_map(|rule| rule["ports"].as_array().expect("ports"))
                .map(|port| (port["port"].clone(), port["protocol"].clone())).collect();
            let ports: Vec<_> = declared.into_iter().map(|(_, port, protocol)| (port, protocol)).collect();
            prop_assert_eq!(open, ports);
        }
    }

    #[test]
    fn every_secret_in_a_volume_is_known_to_be_mounted_and_every_volume_is_used_once_or_with_the_agent(fixture in fixture()) {
        let spec = &template(&fixture)["spec"];
        let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        let mut keys: Vec<_> = volumes.iter().flat_map(|volume| {
            let secret = &volume["secret"];
            let items = secret["items"].as_array().expect("only the used keys");
            items.iter().map(|item| (secret["secretName"].as_str().expect("a name"), item["key"].as_str().expect("a key")))
        }).collect();
        keys.sort_unstable();
        keys.dedup();
        let known: Vec<_> = mounted(&fixture.spec).into_iter().map(|it| (it.secret, it.key)).collect();
        prop_assert_eq!(keys, known);

        let containers = spec["containers"].as_array().expect("containers");
        let mounts = containers.iter().filter_map(|it| it["volumeMounts"].as_array()).flatten();
        let mounted: Vec<_> = mounts.map(|mount| &mount["name"]).collect();
        let volumes: Vec<_> = volumes.iter().map(|volume| &volume["name"]).collect();
        // The agent checks the very files that memcached reads.
        let users = if fixture.spec.security.rotation == Rotation::InPlace { 2 } else { 1 };
        prop_assert_eq!(mounted, volumes.repeat(users));
    }

    #[test]
    fn items_of_lists_that_are_merged_have_their_keys_and_are_told_apart_by_them(fixture in fixture()) {
        let template = template(&fixture);
        let spec = &template["spec"];
        let service = service(&fixture.intent());
        let mut lists = vec![
            (&service["spec"]["ports"], vec!["port", "protocol"]),
            (&spec["containers"], vec!["name"]),
            (&spec["volumes"], vec!["name"]),
            (&spec["imagePullSecrets"], vec!["name"]),
            (&spec["topologySpreadConstraints"], vec!["topologyKey", "whenUnsatisfiable"]),
        ];
        for container in spec["containers"].as_array().expect("containers") {
            lists.push((&container["ports"], vec!["containerPort", "protocol"]));
            lists.push((&container["volumeMounts"], vec!["mountPath"]));
        }
        for (list, keys) in lists {
            let items = list.as_array().cloned().unwrap_or_default();
            let told: Vec<Vec<_>> =
                items.iter().map(|item| keys.iter().map(|key| item[key].to_string()).collect()).collect();
            prop_assert!(!told.iter().flatten().any(|key| key == "null"), "{list}");
            for (index, item) in told.iter().enumerate() {
                prop_assert!(!told[index + 1..].contains(item), "{list}");
            }
        }
    }

    #[test]
    fn pods_with_names_have_the_template_of_those_without_but_for_their_label(fixture in fixture()) {
        let of = |workload| template(&Fixture {
            spec: Validated { workload, ..fixture.spec.clone() },
            ..fixture.clone()
        });
        let (mut named, unnamed) = (of(Workload::StatefulSet), of(Workload::Deployment));
        prop_assert_ne!(&named, &unnamed);
        without_workload_label(&mut named);
        prop_assert_eq!(named, unnamed);
    }

    #[test]
    fn what_reaches_no_pod_changes_neither_template_nor_hash(
        one in fixture(), other in fixture(), take in select(REACHES_NO_POD.to_vec()),
    ) {
        let mut edited = one.clone();
        take(&mut edited, &other);
        prop_assert_eq!(template(&edited), template(&one));
        prop_assert_eq!(edited.intent().hash(), one.intent().hash());
    }

    #[test]
    fn the_template_hash_changes_with_each_field_that_reaches_the_pods_and_only_then(
        one in fixture(), other in fixture(), take in select(REACHES_THE_PODS.to_vec()),
    ) {
        let mut edited = one.clone();
        take(&mut edited, &other);
        let means_the_same = spelled_alike(&edited) == spelled_alike(&one);
        prop_assert_eq!(edited.intent().hash() == one.intent().hash(), means_the_same);
    }

    #[test]
    fn a_changed_template_has_a_changed_hash(
        one in fixture(), other in fixture(), take in select(REACHES_THE_PODS.to_vec()),
    ) {
        let mut edited = one.clone();
        take(&mut edited, &other);
        let same_template = template(&spelled_alike(&edited)) == template(&spelled_alike(&one));
        prop_assert!(same_template || edited.intent().hash() != one.intent().hash());
    }

    #[test]
    fn another_way_to_take_secrets_is_another_revision_and_other_pods_of_the_same_intent(
        one in with_secrets(), other in fixture(),
    ) {
        let mut edited = one.clone();
        TOLD_BY_THE_REVISION(&mut edited, &other);
        prop_assert_eq!(edited.intent().hash(), one.intent().hash());
        let said = rendered(&one);
        let live = LiveTemplate::from_workload(&said.body, None);
        let after = workload(&edited.intent(), live.as_ref());
        prop_assert_eq!(after.revision == said.revision, edited == one);
        prop_assert_eq!(after.body["spec"]["template"] == said.body["spec"]["template"], edited == one);
    }

    #[test]
    fn other_content_of_secrets_changes_the_pods_only_where_they_do_not_take_it_in_place(
        one in with_secrets(), other in "[0-9a-f]{64}", registry in "[a-z]{1,5}",
    ) {
        let said = rendered(&one);
        let live = LiveTemplate::from_workload(&said.body, None);
        let changed = Fixture { secret_hash: Some(other.clone()), ..one.clone() };
        // What the operator is told to use for new pods does not matter either.
        let images = DefaultImages { operator: format!("{registry}.example/o:1").into(), ..BUILT_IN.clone() };
        let after = workload(&Intent { images: &images, ..changed.intent() }, live.as_ref());
        let in_place = one.spec.security.rotation == Rotation::InPlace;
        prop_assert_eq!(after.body["spec"]["template"] == said.body["spec"]["template"], in_place);
        prop_assert_eq!(&after.template_hash, &changed.intent().hash());
        let at = if in_place { "/metadata" } else { "/spec/template/metadata" };
        let annotations = &after.body.pointer(at).expect("metadata")["annotations"];
        prop_assert_eq!(&annotations["memcached.c5c3.io/secret-hash"], &json!(other));
    }

    #[test]
    fn the_properties_know_every_field(one in fixture(), other in fixture()) {
        let mut edited = one;
        let all = REACHES_THE_PODS.iter().chain(&REACHES_NO_POD).chain([&TOLD_BY_THE_REVISION, &TOLD_BY_THE_KIND]);
        all.for_each(|take| take(&mut edited, &other));
        prop_assert_eq!(edited.spec, other.spec);
    }

    #[test]
    fn a_spec_of_which_nothing_is_used_asks_for_no_more_than_every_resource_has(fixture in fixture()) {
        let plain = Fixture { spec: Validated::default(), ..fixture };
        let kinds: Vec<ChildKind> = children(&plain.intent(), None).bodies.into_keys().collect();
        prop_assert_eq!(kinds, [ChildKind::Service, ChildKind::ConfigMap, ChildKind::Deployment]);
    }

    #[test]
    fn a_resource_of_another_name_or_namespace_has_the_same_hash(fixture in fixture(), name in name()) {
        let mut other = fixture.clone();
        other.key.name.clone_from(&name);
        other.key.namespace = name;
        prop_assert_eq!(other.intent().hash(), fixture.intent().hash());
    }

    #[test]
    fn an_unchanged_intent_stays_at_the_live_revision_whose_pods_take_secrets_as_it_says(fixture in fixture(), revision in 0_u32..9) {
        let template = json!({"spec": {"containers": [{"name": "memcached", "image": "whatever:7"}]}});
        let known = Revision(revision).is_known();
        let live = LiveTemplate {
            revision: Revision(revision),
            hash: fixture.intent().hash(),
            preserved: PreservedMetadata::default(),
            images: None,
            secret_hash: None,
            of_unknown_revision: (!known).then(|| Box::new(template.clone())),
        };
        let desired = workload(&fixture.intent(), Some(&live));
        if !live.revision.rotates(fixture.spec.security.rotation) {
            prop_assert_eq!(desired, rendered(&fixture));
            return Ok(());
        }
        prop_assert_eq!(desired.revision, live.revision);
        prop_assert_eq!(&desired.template_hash, &live.hash);
        let ours = pod::template(&fixture.intent(), live.revision, &live.preserved);
        let expected = ours.map_or(template, |ours| json!(ours));
        prop_assert_eq!(&desired.body["spec"]["template"], &expected);
    }

    #[test]
    fn another_hash_or_none_gives_the_newest_revision(fixture in fixture(), revision in 0_u32..9) {
        let live = LiveTemplate {
            revision: Revision(revision),
            hash: "another".into(),
            preserved: PreservedMetadata::default(),
            images: None,
            secret_hash: None,
            of_unknown_revision: None,
        };
        let desired = workload(&fixture.intent(), Some(&live));
        prop_assert_eq!(desired.revision, Revision::for_new_pods(fixture.spec.security.rotation));
        prop_assert_eq!(desired, rendered(&fixture));
    }

    #[test]
    fn the_annotations_say_revision_and_hash(fixture in fixture()) {
        let desired = rendered(&fixture);
        let live = LiveTemplate::from_workload(&desired.body, None);
        let said = LiveTemplate {
            revision: desired.revision,
            hash: desired.template_hash,
            preserved: PreservedMetadata::default(),
            images: None,
            secret_hash: fixture.secret_hash.filter(|_| fixture.spec.security.rotation == Rotation::InPlace),
            of_unknown_revision: None,
        };
        prop_assert_eq!(live, Some(said));
    }

    #[test]
    fn any_changed_byte_of_a_mounted_secret_changes_the_hash(
        contents in btree_map(("[a-z]{1,4}", select(vec!["tls.crt", "tls.key"])), any::<Vec<u8>>(), 1..5),
        which in any::<Index>(), place in any::<Index>(), change in 1_u8..,
    ) {
        let contents: Vec<_> = contents.into_iter().collect();
        let mut edited = contents.clone();
        let content = &mut edited[which.index(contents.len())].1;
        if content.is_empty() {
            content.push(change);
        } else {
            let place = place.index(content.len());
            content[place] ^= change;
        }
        prop_assert_ne!(hash_of(&edited), hash_of(&contents));
    }

    #[test]
    fn the_secret_hash_depends_on_names_and_keys_but_not_on_the_order_of_reading(
        contents in btree_map(("[a-z]{1,4}", select(vec!["tls.crt", "tls.key"])), any::<Vec<u8>>(), 1..5),
        which in any::<Index>(),
    ) {
        let mut contents: Vec<_> = contents.into_iter().collect();
        let before = hash_of(&contents);
        contents.reverse();
        prop_assert_eq!(hash_of(&contents), before.clone());
        let which = which.index(contents.len());
        contents[which].0.0.push('x');
        prop_assert_ne!(hash_of(&contents), before);
    }
}

fn hash_of(contents: &[((String, &'static str), Vec<u8>)]) -> String {
    let digests: Vec<_> = contents.iter().map(|(_, content)| hash::of_bytes(content)).collect();
    let mounted = contents.iter().map(|((secret, key), _)| MountedKey { secret, key });
    secret_hash(mounted.zip(digests.iter().map(String::as_str)))
}

#[test]
fn the_secret_hash_of_known_content_is_this_for_ever() {
    let digest = hash::of_bytes(b"user:password\n");
    let mounted = MountedKey { secret: "credentials", key: "password-file" };
    assert_eq!(
        secret_hash([(mounted, digest.as_str())]),
        "e7f87eceef3f46890bbbb5c924feb2a73a7e42239702fa8f15728d85680bfa2e"
    );
}
