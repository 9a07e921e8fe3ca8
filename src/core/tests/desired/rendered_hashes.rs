//! Hashes that are kept from an earlier rendering are those that rendering again would give.

use memcached_operator_core::kernel::desired::partition::Partition;
use memcached_operator_core::kernel::desired::{DefaultImages, Intent, LiveTemplate, Revision, children};
use memcached_operator_core::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator_core::kernel::shortcuts::rendered_hashes::RenderedHashes;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Templates that this intent may find: none, that of another intent, and its own with all that a rendering can take from it.
fn lives(of: &Intent<'_>) -> Vec<Option<LiveTemplate>> {
    let newest = Revision::for_new_pods(of.spec.security.rotation);
    let own = LiveTemplate {
        revision: newest,
        hash: of.hash(),
        images: None,
        secret_hash: None,
        preserved: PreservedMetadata::default(),
        of_unknown_revision: None,
    };
    let mirrored = DefaultImages { memcached: "a.example/memcached:1.6".into(), ..DefaultImages::default() };
    let images = Some(Box::new(mirrored));
    let of_go = PreservedMetadata { secret_hash: None, version: Some("1.6".into()) };
    let later = Revision(9);
    vec![
        None,
        Some(LiveTemplate { images: images.clone(), ..own.clone() }),
        Some(LiveTemplate { hash: "another".into(), images, ..own.clone() }),
        Some(LiveTemplate { hash: "another".into(), ..own.clone() }),
        Some(LiveTemplate { secret_hash: Some("content".to_owned()), ..own.clone() }),
        Some(LiveTemplate { revision: Revision(1), ..own.clone() }),
        Some(LiveTemplate { revision: Revision::GO_OPERATOR, preserved: of_go, ..own.clone() }),
        Some(LiveTemplate { revision: Revision::GO_OPERATOR, ..own.clone() }),
        Some(LiveTemplate {
            revision: later,
            of_unknown_revision: Some(Box::new(json!({"spec": {"a": 1}}))),
            ..own.clone()
        }),
        Some(LiveTemplate {
            revision: later,
            of_unknown_revision: Some(Box::new(json!({"spec": {"a": 2}}))),
            ..own.clone()
        }),
        Some(own),
    ]
}

#[rstest]
#[case::pods_that_restart_for_a_secret(json!({"workload": "StatefulSet"}))]
#[case::pods_that_take_a_secret_in_place(json!({"security": {
    "rotation": "InPlace",
    "sasl": {"enabled": true, "credentialsSecretRef": {"name": "credentials"}},
}}))]
fn hashes_that_hold_are_those_of_another_rendering(#[case] spec: Value) {
    let fixture = Fixture::new("cache", &spec);
    let settings = DefaultImages { memcached: "b.example/memcached:1.6".into(), ..DefaultImages::default() };
    let partition = Partition { of_kept_pods: 1, of_new_template: 2 };
    let intent = Intent { images: &settings, partition, ..fixture.intent() };
    let intents = [
        intent.clone(),
        Intent { replicas: Some(7), ..intent.clone() },
        Intent { secret_hash: Some("content"), ..intent.clone() },
        Intent { partition: Partition { of_kept_pods: 3, of_new_template: 2 }, ..intent.clone() },
    ];
    let lives = lives(&intent);
    let inputs: Vec<_> =
        intents.iter().flat_map(|intent| lives.iter().map(move |live| (intent, live.as_ref()))).collect();
    let rendered: Vec<_> = inputs
        .iter()
        .map(|(intent, live)| RenderedHashes::new(intent, *live, &children(intent, *live)))
        .collect();
    for (kept, (intent, live)) in rendered.iter().zip(&inputs) {
        let is_of_unknown_revision = live.is_some_and(|live| live.of_unknown_revision.is_some());
        assert!(is_of_unknown_revision || kept.holds(intent, *live), "of the same input: {live:?}");
        for (again, (other_intent, other_live)) in rendered.iter().zip(&inputs) {
            let holds = kept.holds(other_intent, *other_live);
            assert!(!holds || kept == again, "from {live:?} to {other_live:?}");
        }
    }
}
