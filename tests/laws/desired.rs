//! Laws of the children: what is true of each, what never changes, what does change.

use std::collections::BTreeMap;

use memcached_operator::kernel::desired::peer::Carried;
use memcached_operator::kernel::desired::secrets::{MountedKey, secret_hash};
use memcached_operator::kernel::desired::{LiveTemplate, Revision, children, pod};
use memcached_operator::kernel::hash;
use memcached_operator::kernel::object::ChildKind;
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::generate::{given, name, validated};
use crate::given::Given;

fn both(given: &Given) -> BTreeMap<ChildKind, Value> {
    given.children().bodies
}

fn labels(given: &Given) -> Value {
    json!({
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": given.key.name,
        "app.kubernetes.io/managed-by": "memcached-operator",
    })
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

/// `one` with one field of what reaches the pods taken from `other`.
fn with_one_field_of(one: &Given, other: &Given, field: usize) -> Given {
    let mut given = one.clone();
    let (to, from) = (&mut given.spec, other.spec.clone());
    match field {
        0 => to.image = from.image,
        1 => to.resources = from.resources,
        2 => to.memcached.max_memory_mb = from.memcached.max_memory_mb,
        3 => to.memcached.max_connections = from.memcached.max_connections,
        4 => to.memcached.threads = from.memcached.threads,
        5 => to.memcached.max_item_size = from.memcached.max_item_size,
        6 => to.memcached.verbosity = from.memcached.verbosity,
        7 => to.memcached.extra_args = from.memcached.extra_args,
        8 => to.security.sasl_secret = from.security.sasl_secret,
        9 => given.secret_hash.clone_from(&other.secret_hash),
        10 => given.restart_trigger.clone_from(&other.restart_trigger),
        _ => unreachable!("the strategy below gives 0 to 10"),
    }
    given
}

proptest! {
    #[test]
    fn every_child_says_what_it_is_whose_it_is_and_how_it_is_labelled(given in given()) {
        for (kind, body) in both(&given) {
            prop_assert_eq!(&body["apiVersion"], kind.api_version());
            prop_assert_eq!(&body["kind"], kind.name());
            prop_assert_eq!(&body["metadata"]["name"], &given.key.name);
            prop_assert_eq!(&body["metadata"]["namespace"], &given.key.namespace);
            prop_assert!(body["metadata"]["name"].as_str().is_some_and(|name| name.len() <= 63));
            prop_assert_eq!(&body["metadata"]["labels"], &labels(&given));
            let owner = json!([{
                "apiVersion": "memcached.c5c3.io/v1alpha1",
                "kind": "Memcached",
                "name": given.key.name,
                "uid": given.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }]);
            prop_assert_eq!(&body["metadata"]["ownerReferences"], &owner);
        }
    }

    #[test]
    fn no_child_has_an_empty_list_or_map_or_a_null(given in given()) {
        for (kind, body) in both(&given) {
            prop_assert!(!has_nothing_somewhere(&body), "{kind:?}: {body}");
        }
    }

    #[test]
    fn the_same_intent_gives_the_same_children(given in given()) {
        prop_assert_eq!(given.children(), given.clone().children());
    }

    #[test]
    fn the_selector_depends_on_the_name_alone_and_finds_the_pods(given in given(), spec in validated()) {
        let (deployment, service) = (given.child(ChildKind::Deployment), given.child(ChildKind::Service));
        prop_assert_eq!(&deployment["spec"]["selector"], &json!({"matchLabels": labels(&given)}));
        prop_assert_eq!(&service["spec"]["selector"], &labels(&given));

        let edited = both(&Given { spec, ..given });
        prop_assert_eq!(&edited[&ChildKind::Deployment]["spec"]["selector"], &deployment["spec"]["selector"]);
        prop_assert_eq!(&edited[&ChildKind::Service]["spec"]["selector"], &service["spec"]["selector"]);
        let pods = edited[&ChildKind::Deployment]["spec"]["template"]["metadata"]["labels"].as_object().expect("labels");
        for (label, value) in deployment["spec"]["selector"]["matchLabels"].as_object().expect("labels") {
            prop_assert_eq!(pods.get(label), Some(value));
        }
    }

    #[test]
    fn the_service_finds_the_port_of_the_container(given in given()) {
        let (deployment, service) = (given.child(ChildKind::Deployment), given.child(ChildKind::Service));
        let port = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0];
        prop_assert_eq!(&service["spec"]["ports"][0]["targetPort"], &port["name"]);
        prop_assert_eq!(&service["spec"]["ports"][0]["port"], &port["containerPort"]);
    }

    #[test]
    fn scaling_changes_neither_template_nor_hash(given in given(), replicas in 0..=64) {
        let mut scaled = given.clone();
        scaled.spec.replicas = replicas;
        let (before, after) = (given.children(), scaled.children());
        prop_assert_eq!(after.template_hash, before.template_hash);
        let mut expected = before.bodies[&ChildKind::Deployment].clone();
        expected["spec"]["replicas"] = json!(replicas);
        prop_assert_eq!(&after.bodies[&ChildKind::Deployment], &expected);
    }

    #[test]
    fn the_template_hash_changes_with_each_field_that_reaches_the_pods_and_only_then(
        one in given(), other in given(), field in 0_usize..=10,
    ) {
        let edited = with_one_field_of(&one, &other, field);
        prop_assert_eq!(edited.intent().hash() == one.intent().hash(), edited == one);
    }

    #[test]
    fn a_changed_template_has_a_changed_hash(one in given(), other in given(), field in 0_usize..=10) {
        let edited = with_one_field_of(&one, &other, field);
        let same_template =
            pod::newest_template(&edited.intent()) == pod::newest_template(&one.intent());
        prop_assert!(same_template || edited.intent().hash() != one.intent().hash());
    }

    #[test]
    fn a_resource_of_another_name_or_namespace_has_the_same_hash(given in given(), name in name()) {
        let mut other = given.clone();
        other.key.name.clone_from(&name);
        other.key.namespace = name;
        prop_assert_eq!(other.intent().hash(), given.intent().hash());
    }

    #[test]
    fn an_unchanged_intent_stays_at_the_live_revision(given in given(), revision in 0_u32..9) {
        let template = json!({"spec": {"containers": [{"name": "memcached", "image": "whatever:7"}]}});
        let known = pod::knows(Revision(revision));
        let live = LiveTemplate {
            revision: Revision(revision),
            hash: given.intent().hash(),
            carried: Carried::default(),
            foreign: (!known).then(|| Box::new(template.clone())),
        };
        let desired = children(&given.intent(), Some(&live));
        prop_assert_eq!(desired.revision, live.revision);
        prop_assert_eq!(&desired.template_hash, &live.hash);
        let expected = pod::template(&given.intent(), live.revision, &live.carried).map_or(template, |ours| json!(ours));
        prop_assert_eq!(&desired.bodies[&ChildKind::Deployment]["spec"]["template"], &expected);
    }

    #[test]
    fn another_hash_or_none_gives_the_newest_revision(given in given(), revision in 0_u32..9) {
        let live = LiveTemplate { revision: Revision(revision), hash: "another".to_owned(), carried: Carried::default(), foreign: None };
        let desired = children(&given.intent(), Some(&live));
        prop_assert_eq!(desired.revision, Revision::NEWEST);
        prop_assert_eq!(desired, given.children());
    }

    #[test]
    fn the_annotations_say_revision_and_hash(given in given()) {
        let desired = given.children();
        let live = LiveTemplate::of(&desired.bodies[&ChildKind::Deployment], None);
        let said = LiveTemplate { revision: desired.revision, hash: desired.template_hash, carried: Carried::default(), foreign: None };
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
